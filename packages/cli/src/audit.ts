import { readFileSync } from 'node:fs'
import type { AuditQuery } from '@wardline/contract'
import { auditCheckpoint, readCheckpoint, signCheckpoint, verifyAudit } from '@wardline/server'
import { safeJson, sanitize } from '@wardline/text'
import type { Command } from 'commander'
import { auditLine } from './events/event-text.ts'
import { instantOption } from './instant.ts'
import { withLocalDatabase } from './local.ts'
import { readRows, rowLimit } from './row-pages.ts'
import { withService } from './service/options.ts'
import { findService } from './service/service.ts'
import type { ServiceFlags } from './service/settings.ts'

interface ListOptions extends ServiceFlags {
  actor?: string
  action?: string
  target?: string
  since?: string
  until?: string
  limit: number
  before?: string
}

async function list(options: ListOptions): Promise<void> {
  const { actor, action, target, since, until, limit, before, json } = options
  const { call } = await findService(options)
  const filter: AuditQuery = { order: 'newest', actor, action, target, from: since, to: until }
  const { rows, next } = await readRows(limit, before, async (page) => {
    const reply = await call('listAudit', { query: { ...filter, ...page } })
    return { rows: reply.entries, next: reply.next }
  })
  if (json) return console.log(safeJson({ entries: rows, next }, 2))
  for (const entry of rows) console.log(auditLine(entry))
  if (next !== null) console.error(`-- for more, repeat with --before ${sanitize(next)}`)
  else if (rows.length === 0) console.error('No audit entry matches.')
}

function addAuditList(audit: Command): void {
  const listing = audit
    .command('list')
    .description('list audit entries of the service, newest first; needs an admin key')
    .option('--actor <name>', 'name or id of a key, also of a revoked one; "system" or "cli"')
    .option('--action <action>', 'action such as instance.suspend, or a group such as "key.*"')
    .option('--target <id>', 'id of the instance, key, decoy or channel that was changed')
    .option('--since <instant>', 'at or after: an ISO 8601 instant, a day, or 90s, 15m, 2h, 7d ago', instantOption)
    .option('--until <instant>', 'before: in the same formats', instantOption)
    .option('--limit <number>', 'maximum entries; default: 100', rowLimit, 100)
    .option('--before <cursor>', 'continue where a previous list ended')
  withService(listing).action(list)
}

/** Exit codes of `audit verify`, for scripts. */
const verdicts = { tampered: 1, cut: 2 } as const

async function verify({ checkpoint, json }: { checkpoint?: string; json?: boolean }): Promise<void> {
  const text = checkpoint === undefined ? undefined : readFileSync(checkpoint, 'utf8')
  const result = await withLocalDatabase(async (deps) => {
    const expected = text === undefined ? undefined : await readCheckpoint(deps, text)
    if (expected && !expected.isSigned && !json)
      console.error('The checkpoint has no signature: an earlier version made it.')
    return verifyAudit(deps.database, expected?.checkpoint)
  })
  if (!result.ok) process.exitCode = verdicts[result.reason]
  if (json) return console.log(JSON.stringify(result))
  if (result.ok)
    console.log(
      `The audit log is intact: ${result.count === 1 ? '1 entry' : `${result.count} entries`}, head ${result.headHash}.`,
    )
  else console.error(`The audit log is ${result.reason} at entry ${result.seq}. ${result.detail}`)
}

export function addAudit(program: Command): void {
  const audit = program.command('audit').description('verify the hash-chained record of control actions')
  addAuditList(audit)
  audit
    .command('verify')
    .description('verify the whole chain: exit code 0 when it is intact, 1 tampered, 2 truncated')
    .option('--checkpoint <file>', 'a checkpoint stored elsewhere; detects a truncated tail and a complete rewrite')
    .option('--json', 'print JSON')
    .action(verify)
  audit
    .command('checkpoint')
    .description('print a checkpoint of the chain; store it where no one with write access to the database can write')
    .action(async () => {
      const line = await withLocalDatabase(async (deps) =>
        signCheckpoint(deps, await auditCheckpoint(deps.database.db, deps.clock.now())),
      )
      console.log(line)
    })
}
