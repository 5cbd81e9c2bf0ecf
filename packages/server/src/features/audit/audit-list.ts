import type { AuditEntry, AuditQuery } from '@wardline/contract'
import { isoTime } from '../../clock.ts'
import type { Db } from '../../db/database.ts'
import { type KeyNames, toRow } from './audit.ts'
import { type EntryFilter, findEntries } from './queries.ts'

/** Returns one page of the log, with the names of the keys that acted. */
export async function listAudit(
  db: Db,
  keys: KeyNames,
  { actor, ...filter }: Omit<EntryFilter, 'actors' | 'isControl'> & Pick<AuditQuery, 'actor'>,
  order: 'oldest' | 'newest',
  limit: number,
): Promise<AuditEntry[]> {
  const actors = actor === undefined ? undefined : await keys.called(db, actor)
  const rows = await findEntries(db, { ...filter, ...(actors ? { actors } : {}) }, order, limit)
  const names = await keys.names(
    db,
    rows.map((row) => row.actor),
  )
  return rows.map((row) => ({
    ...toRow(row),
    at: isoTime(row.at),
    actor_name: names.get(row.actor) ?? null,
  }))
}
