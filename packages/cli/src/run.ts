import type { Command } from 'commander'
import { fail } from './exit.ts'
import { createRoot } from './root.ts'

/** Commands that run the service or work on its data where they lie. */
export const serviceCommands: readonly string[] = ['serve', 'config', 'audit', 'backup', 'migrate', 'simulate']
/** Commands that ask a service over HTTP. */
export const operatorCommands: readonly string[] = [
  'status',
  'instances',
  'kill',
  'resume',
  'tail',
  'events',
  'decoys',
  'alerts',
  'channels',
  'routes',
  'silences',
  'keys',
  'doctor',
  'profile',
]

/** Loads what one command needs and no more: the service alone takes longer to load than most commands run. */
async function programFor(name: string | undefined): Promise<Command> {
  const isOf = (names: readonly string[]) => name !== undefined && names.includes(name)
  const program = createRoot()
  if (isOf(operatorCommands)) {
    const { addOperatorCommands } = await import('./operator-commands.ts')
    addOperatorCommands(program)
    return program
  }
  if (isOf(serviceCommands)) {
    const { addServiceCommands } = await import('./service-commands.ts')
    addServiceCommands(program)
    return program
  }
  const { createProgram } = await import('./command.ts')
  return createProgram()
}

/** Runs one command line; sets the exit code, and says in one sentence what went wrong. */
export async function runCommand(argv: string[]): Promise<void> {
  const asJson = argv.includes('--json')
  // A reader such as `head` may close the pipe early: that is no failure.
  process.stdout.on('error', (fault: NodeJS.ErrnoException) => {
    if (fault.code === 'EPIPE') process.exit()
    throw fault
  })
  let running: Command | undefined
  try {
    const program = await programFor(argv[2])
    program.hook('preAction', (_root, command) => {
      running = command
    })
    await program.parseAsync(argv)
  } catch (fault) {
    fail(fault, asJson, running)
  }
}
