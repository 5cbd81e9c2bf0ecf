import { constants } from 'node:os'

/** Exit codes of `wardline-agent`, as `--help` lists them. A hook uses only 0 and 2. */
export const exitCodes = {
  failed: 1,
  suspended: 3,
  unreachable: 4,
  /** The command line is wrong (sysexits: EX_USAGE). */
  usage: 64,
  /** The settings are wrong (sysexits: EX_CONFIG). */
  configuration: 78,
  /** As in shells: the command cannot be run, or is not found. */
  notRun: 126,
  notFound: 127,
} as const

/** Fault of a command that was to be started. */
export const cannotStart = (program: string, fault: Error): CommandFault => {
  const { code } = fault as { code?: string }
  return new CommandFault(`${program} cannot be started (${code}).`, code === 'ENOENT' ? 'notFound' : 'notRun')
}

/** Exit code of a command; for a signal 128 plus its number, as in shells. */
export const exitCodeOf = (code: number | null, signal: NodeJS.Signals | null): number =>
  code ?? 128 + constants.signals[signal!]

/** Error that ends a command with one sentence for people and an exit code. */
export class CommandFault extends Error {
  readonly exitCode: number

  constructor(message: string, exit: keyof typeof exitCodes = 'failed') {
    super(message)
    this.exitCode = exitCodes[exit]
  }
}
