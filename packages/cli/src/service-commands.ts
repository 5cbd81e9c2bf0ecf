import type { Command } from 'commander'
import { addAudit } from './audit.ts'
import { addBackup } from './backup.ts'
import { addConfig } from './config.ts'
import { addMigrate } from './migrate.ts'
import { addServe } from './serve.ts'
import { addSimulate } from './simulate/simulate.ts'

/** What runs the service, or works on its data where they lie. */
export function addServiceCommands(program: Command): void {
  program.commandsGroup('Where the service runs:')
  for (const add of [addServe, addConfig, addAudit, addBackup, addMigrate, addSimulate]) add(program)
}
