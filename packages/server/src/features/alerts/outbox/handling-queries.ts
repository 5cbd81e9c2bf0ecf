import { sql } from 'kysely'
import type { Db, Trx } from '../../../db/database.ts'
import type { StoredAlert } from './alert.ts'
import { isAbout } from './queries.ts'

/** Columns that people change. */
export type AlertState = Pick<StoredAlert, 'status' | 'verdict' | 'assignee'>

/** Selects unresolved alerts of the same type and instance or subject. */
const siblings = (db: Db, { event_type, instance_id, subject, by_service }: StoredAlert) =>
  db
    .selectFrom('alerts')
    .where('event_type', '=', event_type)
    .where(isAbout({ instance_id, subject }))
    .where('by_service', '=', by_service)
    .where('status', '<>', sql.lit('resolved'))
    .where('severity', '<>', sql.lit('info'))

export async function changeOne(trx: Trx, { seq }: StoredAlert, change: AlertState, now: number): Promise<void> {
  await trx
    .updateTable('alerts')
    .set({ ...change, changed_at: now })
    .where('seq', '=', seq)
    .execute()
}

/** What other alerts of the problem get; without `assignee` they keep theirs. */
export type SiblingState = Omit<AlertState, 'assignee'> & Partial<Pick<AlertState, 'assignee'>>

/** Changes up to `limit` other alerts of the same problem that are not in that state yet; resolves with their number. */
export async function changeSiblings(db: Db, alert: StoredAlert, change: SiblingState, now: number, limit: number) {
  const { assignee } = change
  const others = siblings(db, alert)
    .select('seq')
    .where('seq', '<>', alert.seq)
    .where((e) =>
      e.or([
        e('status', '<>', change.status),
        ...(assignee === undefined ? [] : [e(e.fn.coalesce('assignee', sql.lit('')), '<>', assignee ?? '')]),
      ]),
    )
    .orderBy('seq')
    .limit(limit)
  const { numUpdatedRows } = await db
    .updateTable('alerts')
    .set({ ...change, changed_at: now })
    .where('seq', 'in', others)
    .executeTakeFirstOrThrow()
  return Number(numUpdatedRows)
}

export async function hasUnresolved(trx: Trx, alert: StoredAlert): Promise<boolean> {
  return (await siblings(trx, alert).select('seq').limit(1).executeTakeFirst()) !== undefined
}
