import type { Command } from 'commander'
import { createProgramFor } from './command.ts'
import { fail } from './exit.ts'

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
    const program = await createProgramFor(argv[2])
    program.hook('preAction', (_root, command) => {
      running = command
    })
    await program.parseAsync(argv)
  } catch (fault) {
    fail(fault, asJson, running)
  }
}
