import { offlineAfterMs } from '@wardline/contract'
import { sql } from 'kysely'
import type { Db, Trx } from '../../db/database.ts'

/**
 * Heartbeats over longer than it takes to be offline. One that was invented, and sent a heartbeat or two, is no agent
 * whose silence says something about the fleet.
 */
const isEstablished = sql<boolean>`last_heartbeat_at - first_seen_at >= ${sql.lit(offlineAfterMs)}`

/** Moves instances between online and offline; resolves with those that this call moved, established ones first. */
function markLiveness(trx: Trx, to: 'online' | 'offline', cutoff: number, limit: number) {
  const from = to === 'online' ? 'offline' : 'online'
  const heard = to === 'online' ? '>=' : '<'
  return trx
    .updateTable('instances')
    .set({ liveness: to })
    .where('id', 'in', (e) =>
      e
        .selectFrom('instances')
        .select('id')
        .where('liveness', '=', from)
        .where('last_heartbeat_at', heard, cutoff)
        .orderBy(isEstablished, 'desc')
        .orderBy('id')
        .limit(limit),
    )
    .where('liveness', '=', from)
    .where('last_heartbeat_at', heard, cutoff)
    .returning(['id', 'last_heartbeat_at'])
    .execute()
}

/** Marks instances offline that sent nothing since `cutoff`. */
export const markOffline = (trx: Trx, cutoff: number, limit: number) => markLiveness(trx, 'offline', cutoff, limit)

/** Marks instances online again that were offline and sent something since `cutoff`. */
export const markRecovered = (trx: Trx, cutoff: number, limit: number) => markLiveness(trx, 'online', cutoff, limit)

/** Established instances that are taken to be online, those of them that sent nothing since `cutoff`, and the oldest heartbeat of these. */
export async function countSilent(db: Db, cutoff: number) {
  const { silent, online, oldest } = await db
    .selectFrom('instances')
    .select((e) => [
      e.fn.countAll<number>().as('online'),
      sql<number | null>`sum(case when last_heartbeat_at < ${cutoff} then 1 else 0 end)`.as('silent'),
      e.fn.min('last_heartbeat_at').as('oldest'),
    ])
    .where('liveness', '=', 'online')
    .where(isEstablished)
    .executeTakeFirstOrThrow()
  return { silent: Number(silent ?? 0), online: Number(online), oldest: Number(oldest ?? cutoff) }
}

/** Of the established instances that sent something since `aliveSince`, those that did since `freshSince`. */
export async function countBack(db: Db, aliveSince: number, freshSince: number) {
  const { fleet, fresh } = await db
    .selectFrom('instances')
    .select((e) => [
      e.fn.countAll<number>().as('fleet'),
      sql<number | null>`sum(case when last_heartbeat_at >= ${freshSince} then 1 else 0 end)`.as('fresh'),
    ])
    .where('last_heartbeat_at', '>=', aliveSince)
    .where(isEstablished)
    .executeTakeFirstOrThrow()
  return { fleet: Number(fleet), fresh: Number(fresh ?? 0) }
}

/** Suspended instances that were not reported for this suspension, by id. */
export async function findUnreportedSuspensions(db: Db, suspendedBefore: number, afterId: string, limit: number) {
  const rows = await db
    .selectFrom('instances')
    .select(['id', 'control_version', 'control_changed_at'])
    .where('suspended', '=', 1)
    .where('control_changed_at', '<', suspendedBefore)
    .where('id', '>', afterId)
    .where((e) =>
      e.or([e('activity_reported_version', 'is', null), e('activity_reported_version', '<', e.ref('control_version'))]),
    )
    .orderBy('id')
    .limit(limit)
    .execute()
  return rows.map((row) => ({
    id: row.id,
    version: Number(row.control_version),
    since: Number(row.control_changed_at),
  }))
}

export async function markActivityReported(trx: Trx, id: string, controlVersion: number): Promise<boolean> {
  const { numUpdatedRows } = await trx
    .updateTable('instances')
    .set({ activity_reported_version: controlVersion })
    .where('id', '=', id)
    .where('control_version', '=', controlVersion)
    .where((e) =>
      e.or([e('activity_reported_version', 'is', null), e('activity_reported_version', '<', controlVersion)]),
    )
    .executeTakeFirstOrThrow()
  return numUpdatedRows === 1n
}
