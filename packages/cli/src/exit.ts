import { ConfigError } from '@wardline/server'

/** Exit codes that scripts may rely on. */
export const exitCodes = {
  failed: 1,
  /** The configuration does not fit (sysexits: EX_CONFIG). */
  configuration: 78,
  /** A fault after which only a new process may go on (sysexits: EX_SOFTWARE). */
  fatal: 70,
} as const

/** Says what went wrong and sets the exit code. */
export function fail(fault: unknown): void {
  if (fault instanceof ConfigError) {
    console.error(`The configuration does not fit:\n${fault.faults.map((line) => `  ${line}`).join('\n')}`)
    process.exitCode = exitCodes.configuration
    return
  }
  console.error((fault as Error).message)
  process.exitCode = exitCodes.failed
}
