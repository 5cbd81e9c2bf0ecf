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

/** Error that ends a command with one sentence for people and an exit code. */
export class CommandFault extends Error {
  readonly exitCode: number

  constructor(message: string, exit: keyof typeof exitCodes = 'failed') {
    super(message)
    this.exitCode = exitCodes[exit]
  }
}
