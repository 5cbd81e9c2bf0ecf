import { offlineAfterMs } from '@wardline/contract'
import { sql } from 'kysely'
import type { Database, Db, Trx } from '../../db/database.ts'

/**
 * The instance sent heartbeats for longer than the offline limit. The silence of others, such as invented ones with one or
 * two heartbeats, says nothing about the fleet.
 */
const isEstablished = sql<boolean>`last_heartbeat_at - first_seen_at >= ${sql.lit(offlineAfterMs)}`

/** The agent signed off and has not returned. */
const hasLeft = sql<boolean>`coalesce(left_at, -1) >= last_heartbeat_at`

/**
 * No sign of life for the longest of 90 seconds, 3.25 usual intervals and 1.25 times its longest gap. That tolerates two
 * lost heartbeats in a row: among 1,000 agents that lose one in 200, this happens to 36 a day.
 */
const isSilent = (now: number) => {
  const heard = ['last_heartbeat_at', 'coalesce(seen_at, 0)'] as const
  const bounds = [sql.lit(offlineAfterMs), sql`typical_gap_ms * 13 / 4`, sql`longest_gap_ms * 5 / 4`]
  const tests = heard.flatMap((at) => bounds.map((bound) => sql`${sql.raw(at)} < cast(${now} as bigint) - ${bound}`))
  return sql<boolean>`(${sql.join(tests, sql` and `)})`
}

/** An instance that the scout reports as offline or recovered. */
export interface Moved {
  id: string
  last_heartbeat_at: number
  typical_gap_ms: number
}

/** Finds instances after an id that count as online but sent no heartbeat since `cutoff`, without those that signed off. */
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

/** Records signs of life that this process received, which ends a suspicion. */
export async function noteSeen({ db, dialect }: Database, seen: readonly (readonly [string, number])[]): Promise<void> {
  const rows = dialect.rowsFromJson(JSON.stringify(seen), { id: 'text', at: 'bigint' })
  await sql`update instances set seen_at = batch.at, suspected_at = null from ${rows} as batch
    where instances.id = batch.id and liveness = 'online' and coalesce(seen_at, 0) < batch.at`.execute(db)
}

/**
 * Marks instances without a sign of life since `cutoff` as suspected; those that signed off become offline at once.
 * Resolves with the number of changed instances.
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
 * Marks silent instances that were suspected before `suspectedBefore` as offline; resolves with those that this call
 * marked, established ones first.
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

/** Marks offline instances with a heartbeat since `cutoff` as online; resolves with those whose silence was reported. */
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
 * Counts established instances that count as online and did not sign off, and those of them without a sign of life since
 * `cutoff`, with their oldest heartbeat.
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

/** Counts established instances with a sign of life since `aliveSince`, and those with one since `freshSince`. */
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
