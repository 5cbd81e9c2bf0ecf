import { version } from '@wardline/server'
import { Command } from 'commander'
import { addAudit } from './audit.ts'
import { addBackup } from './backup.ts'
import { addConfig } from './config.ts'
import { fail } from './exit.ts'
import { addKeys } from './keys.ts'
import { addMigrate } from './migrate.ts'
import { addServe } from './serve.ts'
import { addSimulate } from './simulate.ts'

/** Every command with its options. */
export function createProgram(): Command {
  const program = new Command('wardline').description('Security monitor for fleets of AI agents').version(version)
  program.showHelpAfterError()
  for (const add of [addServe, addConfig, addKeys, addAudit, addBackup, addMigrate, addSimulate]) add(program)
  return program
}

/** Runs one command line; sets the exit code, and says in one sentence what went wrong. */
export async function runCommand(argv: string[]): Promise<void> {
  try {
    await createProgram().parseAsync(argv)
  } catch (fault) {
    fail(fault)
  }
}
