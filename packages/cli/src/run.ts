import type { Command } from 'commander'
import { createProgramFor } from './command.ts'
import { fail } from './exit.ts'

/** Runs a command line, prints an error if it fails, and sets the exit code. */
export async function runCommand(argv: string[]): Promise<void> {
  const asJson = argv.includes('--json')
  // A reader such as `head` may close the pipe early, which is not an error.
  process.stdout.on('error', (fault: NodeJS.ErrnoException) => {
    if (fault.code === 'EPIPE') process.exit()
    throw fault
  })
  let running: Command | undefined
  try {
    const program = await createProgramFor(argv[2])
    program.hook('preAction', (_root, command) => {
      running = command
    })
    await program.parseAsync(argv)
  } catch (fault) {
    fail(fault, asJson, running)
  }
}
