import { offlineAfterMs } from '@wardline/contract'
import { sql } from 'kysely'
import type { Database, Db, Trx } from '../../db/database.ts'

/**
 * Heartbeats over longer than it takes to be offline. One that was invented, and sent a heartbeat or two, is no agent
 * whose silence says something about the fleet.
 */
const isEstablished = sql<boolean>`last_heartbeat_at - first_seen_at >= ${sql.lit(offlineAfterMs)}`

/** An agent that said goodbye, and did not come back since. */
const hasLeft = sql<boolean>`coalesce(left_at, -1) >= last_heartbeat_at`

/**
 * No sign of life for 90 seconds, three and a quarter of its usual intervals, and a quarter more than its own longest
 * gap. Of heartbeats each minute, two may be lost in a row: of a thousand agents that lose one in 200, 36 a day do.
 */
const isSilent = (now: number) => {
  const heard = ['last_heartbeat_at', 'coalesce(seen_at, 0)'] as const
  const bounds = [sql.lit(offlineAfterMs), sql`typical_gap_ms * 13 / 4`, sql`longest_gap_ms * 5 / 4`]
  const tests = heard.flatMap((at) => bounds.map((bound) => sql`${sql.raw(at)} < cast(${now} as bigint) - ${bound}`))
  return sql<boolean>`(${sql.join(tests, sql` and `)})`
}

/** What the scout reports as gone, or as back. */
export interface Moved {
  id: string
  last_heartbeat_at: number
  typical_gap_ms: number
}

/** Instances that are taken to be online and sent no heartbeat since `cutoff`, after an id; those that said goodbye left out. */
export function findLate(db: Db, cutoff: number, after: string, limit: number) {
  return db
    .selectFrom('instances')
    .select(['id', 'last_heartbeat_at', 'seen_at'])
    .where('liveness', '=', 'online')
    .where('last_heartbeat_at', '<', cutoff)
    .where((e) => e.not(hasLeft))
    .where('id', '>', after)
    .orderBy('id')
    .limit(limit)
    .execute()
}

/** Notes signs of life that this process had, by instance: who shows them is not suspected any more. */
export async function noteSeen({ db, dialect }: Database, seen: readonly (readonly [string, number])[]): Promise<void> {
  const rows = dialect.rowsFromJson(JSON.stringify(seen), { id: 'text', at: 'bigint' })
  await sql`update instances set seen_at = batch.at, suspected_at = null from ${rows} as batch
    where instances.id = batch.id and liveness = 'online' and coalesce(seen_at, 0) < batch.at`.execute(db)
}

/**
 * Begins to suspect instances without a sign of life since `cutoff`; those that said goodbye are simply offline.
 * Resolves with how many this call changed.
 */
export async function suspectSilent(trx: Trx, now: number, cutoff: number, limit: number): Promise<number> {
  const late = trx
    .selectFrom('instances')
    .select('id')
    .where('liveness', '=', 'online')
    .where('last_heartbeat_at', '<', cutoff)
    .limit(limit)
  const gone = await trx
    .updateTable('instances')
    .set({ liveness: 'offline' })
    .where('id', 'in', late.where(hasLeft))
    .where('liveness', '=', 'online')
    .where(hasLeft)
    .returning('id')
    .execute()
  const suspected = await trx
    .updateTable('instances')
    .set({ suspected_at: now })
    .where(
      'id',
      'in',
      late.where('suspected_at', 'is', null).where((e) => e.fn.coalesce('seen_at', sql.lit(0)), '<', cutoff),
    )
    .where('liveness', '=', 'online')
    .where('last_heartbeat_at', '<', cutoff)
    .returning('id')
    .execute()
  return gone.length + suspected.length
}

/**
 * Marks instances offline that are silent and were suspected before `suspectedBefore`; resolves with those that this
 * call marked, established ones first.
 */
export function markOffline(trx: Trx, now: number, suspectedBefore: number, limit: number): Promise<Moved[]> {
  return trx
    .updateTable('instances')
    .set({ liveness: 'offline' })
    .where('id', 'in', (e) =>
      e
        .selectFrom('instances')
        .select('id')
        .where('liveness', '=', 'online')
        .where('suspected_at', '<=', suspectedBefore)
        .where(isSilent(now))
        .orderBy(isEstablished, 'desc')
        .orderBy('id')
        .limit(limit),
    )
    .where('liveness', '=', 'online')
    .where('suspected_at', '<=', suspectedBefore)
    .where(isSilent(now))
    .returning(['id', 'last_heartbeat_at', 'typical_gap_ms'])
    .execute()
}

/** Marks instances online that were offline and sent a heartbeat since `cutoff`; resolves with those whose silence was reported. */
export async function markRecovered(
  trx: Trx,
  cutoff: number,
  limit: number,
): Promise<{ count: number; reported: Moved[] }> {
  const moved = await trx
    .updateTable('instances')
    .set({ liveness: 'online' })
    .where('id', 'in', (e) =>
      e
        .selectFrom('instances')
        .select('id')
        .where('liveness', '=', 'offline')
        .where('last_heartbeat_at', '>=', cutoff)
        .where((e) => e.not(hasLeft))
        .orderBy(isEstablished, 'desc')
        .orderBy('id')
        .limit(limit),
    )
    .where('liveness', '=', 'offline')
    .where('last_heartbeat_at', '>=', cutoff)
    .returning(['id', 'last_heartbeat_at', 'typical_gap_ms', 'suspected_at'])
    .execute()
  const reported = moved.filter(({ suspected_at }) => suspected_at !== null)
  if (reported.length > 0) {
    const ids = reported.map(({ id }) => id)
    await trx.updateTable('instances').set({ suspected_at: null }).where('id', 'in', ids).execute()
  }
  return { count: moved.length, reported }
}

/**
 * Established instances that are taken to be online and said no goodbye, those of them without a sign of life since
 * `cutoff`, and the oldest heartbeat of these.
 */
export async function countSilent(db: Db, cutoff: number) {
  const { silent, online, oldest } = await db
    .selectFrom('instances')
    .select((e) => [
      e.fn.countAll<number>().as('online'),
      sql<
        number | null
      >`sum(case when last_heartbeat_at < ${cutoff} and coalesce(seen_at, 0) < ${cutoff} then 1 else 0 end)`.as(
        'silent',
      ),
      e.fn.min('last_heartbeat_at').as('oldest'),
    ])
    .where('liveness', '=', 'online')
    .where(isEstablished)
    .where((e) => e.not(hasLeft))
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
