import type { ControlChange } from '@wardline/contract'
import { isoTime } from '../../clock.ts'
import type { Db } from '../../db/database.ts'
import type { KeyNames } from './audit.ts'
import { countControlEntries, type EntryFilter, findEntries } from './queries.ts'

/** Returns 0 if a manual edit of the row made the version unreadable; `audit verify` detects the edit. */
function versionOf(after: string | null): number {
  try {
    const { version } = JSON.parse(after ?? '{}') as { version?: unknown }
    return Number.isSafeInteger(version) ? Math.max(0, version as number) : 0
  } catch {
    return 0
  }
}

/** Counts the kills and resumes of an instance from `from` until before `to`, in epoch ms. */
export function countControlChanges(db: Db, range: { from: number; to: number; target: string }): Promise<number> {
  return countControlEntries(db, range)
}

/** Returns at most `limit` kills and resumes, in order of commit or newest first. */
export async function readControlChanges(
  db: Db,
  keys: Pick<KeyNames, 'names'>,
  filter: Pick<EntryFilter, 'after' | 'before' | 'from' | 'to' | 'target' | 'team'>,
  order: 'oldest' | 'newest',
  limit: number,
): Promise<ControlChange[]> {
  const rows = await findEntries(db, { ...filter, isControl: true }, order, limit)
  const names = await keys.names(
    db,
    rows.map(({ actor }) => actor),
  )
  return rows.map((row) => ({
    kind: 'control',
    seq: row.seq,
    at: isoTime(row.at),
    instance_id: row.target ?? '',
    action: row.action === 'instance.suspend' ? 'suspend' : 'resume',
    reason: row.reason,
    version: versionOf(row.after),
    actor: row.actor,
    actor_name: names.get(row.actor) ?? null,
  }))
}
