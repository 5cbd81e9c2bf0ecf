import { Command } from 'commander'
import { addAudit } from './audit.ts'
import { addBackup } from './backup.ts'
import { addConfig } from './config.ts'
import { fail } from './exit.ts'
import { addKeys } from './keys.ts'
import { addServe } from './serve.ts'

/** Runs one command line; sets the exit code, and says in one sentence what went wrong. */
export async function runCommand(argv: string[]): Promise<void> {
  const program = new Command('wardline').description('Security monitor for fleets of AI agents').showHelpAfterError()
  for (const add of [addServe, addConfig, addKeys, addAudit, addBackup]) add(program)
  try {
    await program.parseAsync(argv)
  } catch (fault) {
    fail(fault)
  }
}
