import { resolve } from 'node:path'
import type { Command } from 'commander'
import { withLocalDatabase } from './local.ts'

export function addBackup(program: Command): void {
  program
    .command('backup <file>')
    .description('copy the database while it is in use; the file must not exist')
    .action(async (file: string) => {
      const target = resolve(file)
      await withLocalDatabase(({ database }) => database.backup(target))
      console.log(
        `Backup written to ${target}. Also keep the secret of the data folder: without it, decoys no longer match.`,
      )
    })
}
