import { readFileSync } from 'node:fs'
import { auditCheckpoint, formatCheckpoint, parseCheckpoint, verifyAudit } from '@wardline/server'
import type { Command } from 'commander'
import { withLocalDatabase } from './local.ts'

/** Exit codes of `audit verify`, for scripts. */
const verdicts = { tampered: 1, cut: 2 } as const

async function verify({ checkpoint, json }: { checkpoint?: string; json?: boolean }): Promise<void> {
  const expected = checkpoint === undefined ? undefined : parseCheckpoint(readFileSync(checkpoint, 'utf8').trim())
  const result = await withLocalDatabase(({ database }) => verifyAudit(database.db, expected))
  if (!result.ok) process.exitCode = verdicts[result.reason]
  if (json) return console.log(JSON.stringify(result))
  if (result.ok) console.log(`The audit log is whole: ${result.count} entries, head ${result.headHash}.`)
  else console.error(`The audit log is ${result.reason} at entry ${result.seq}. ${result.detail}`)
}

export function addAudit(program: Command): void {
  const audit = program.command('audit').description('the hash-chained record of control actions')
  audit
    .command('verify')
    .description('check the whole chain: exit code 0 whole, 1 tampered, 2 cut')
    .option('--checkpoint <file>', 'a checkpoint that was kept elsewhere; finds a cut tail and a complete rewrite')
    .option('--json', 'as JSON')
    .action(verify)
  audit
    .command('checkpoint')
    .description('print the end of the chain; keep it where nobody who can write the database can write')
    .action(async () => {
      const checkpoint = await withLocalDatabase(({ database, clock }) => auditCheckpoint(database.db, clock.now()))
      console.log(formatCheckpoint(checkpoint))
    })
}
