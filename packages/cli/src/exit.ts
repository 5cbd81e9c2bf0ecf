import type { ConfigError } from '@wardline/server'
import { safeJson, sanitize } from '@wardline/text'
import { type Command, CommanderError } from 'commander'
import { UsageError, usageLines } from './root.ts'

/** Exit codes. Scripts rely on them; they are documented in docs/guide/terminal.md. */
export const exitCodes = {
  failed: 1,
  /** The service refused: unknown id, conflicting state, invalid value. */
  refused: 2,
  /** The key is missing, invalid or lacks permission. */
  unauthorized: 3,
  /** No server responds, or it is not Wardline. */
  unreachable: 4,
  /** The service made the change, but agents did not confirm it in time. */
  unconfirmed: 5,
  /** The command line is invalid (sysexits: EX_USAGE). */
  usage: 64,
  /** An error after which the process must be restarted (sysexits: EX_SOFTWARE). */
  fatal: 70,
  /** The configuration is invalid (sysexits: EX_CONFIG). */
  configuration: 78,
} as const

export type ExitName = keyof typeof exitCodes

/** Ends a command with one sentence for people, a code for programs, and an exit code for scripts. */
export class Failure extends Error {
  override name = 'Failure'
  readonly code: string
  readonly exit: ExitName

  constructor(message: string, code: string, exit: ExitName, options?: ErrorOptions) {
    super(message, options)
    this.code = code
    this.exit = exit
  }
}

/** Checks the name, because importing the class would load the whole service, which most commands do not need. */
const isConfigError = (fault: unknown): fault is ConfigError => (fault as Error | null)?.name === 'ConfigError'

const fileFaults: Record<string, string> = {
  ENOENT: 'no such file or folder',
  ENOTDIR: 'a folder in the path is a file',
  EISDIR: 'it is a folder',
  EACCES: 'permission denied',
  EROFS: 'the file system is read-only',
  ENOSPC: 'the disk is full',
}

/** Describes a file error of the operating system. */
function fileSentence(fault: unknown): string | undefined {
  const { code = '', path } = (fault ?? {}) as NodeJS.ErrnoException
  return path !== undefined && code in fileFaults ? `${path} cannot be used: ${fileFaults[code]} (${code}).` : undefined
}

function describe(fault: unknown): { lines: string[]; code: string; exit: ExitName } {
  if (fault instanceof Failure) return { lines: [fault.message], code: fault.code, exit: fault.exit }
  if (fault instanceof CommanderError) {
    return { lines: [fault.message], code: 'usage', exit: 'usage' }
  }
  if (isConfigError(fault)) {
    const { faults } = fault
    const lines =
      faults.length === 1
        ? [`Invalid configuration: ${faults[0]}`]
        : ['Invalid configuration:', ...faults.map((line) => `  ${line}`)]
    return { lines, code: 'configuration', exit: 'configuration' }
  }
  const fileFault = fileSentence(fault)
  if (fileFault) return { lines: [fileFault], code: 'file', exit: 'failed' }
  return { lines: [fault instanceof Error ? fault.message : String(fault)], code: 'failed', exit: 'failed' }
}

/**
 * Prints an error as text or as `{ error, code }`, and sets the exit code. A usage error is followed by the usage of
 * its command, else of `command`.
 */
export function fail(fault: unknown, asJson = false, command?: Command): void {
  // Help or version was requested and printed.
  if (fault instanceof CommanderError && fault.exitCode === 0) return
  const { lines, code, exit } = describe(fault)
  process.exitCode = exitCodes[exit]
  if (asJson) {
    console.error(safeJson({ error: sanitize(lines.join(' ')), code }))
    return
  }
  const failed = fault instanceof UsageError ? fault.command : command
  if (exit === 'usage' && failed) lines.push(...usageLines(failed))
  // Errors may contain text of a server, which must not forge lines of output.
  for (const line of lines) console.error(`${/^ */.exec(line)}${sanitize(line)}`)
}
