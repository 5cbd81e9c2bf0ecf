import { CompiledQuery, sql } from 'kysely'
import type { Database, Db, Statement, Trx } from '../../db/database.ts'
import type { Baseline } from './anomaly.ts'

export async function readBaselines(db: Db, instanceId: string): Promise<Map<string, Baseline>> {
  const rows = await db.selectFrom('metric_baselines').selectAll().where('instance_id', '=', instanceId).execute()
  return new Map(rows.map(({ metric, samples, mean, m2 }) => [metric, { samples: Number(samples), mean, m2 }]))
}

/** Text of the statement that adds samples to baselines: Welford's step, so that processes may add in any order. */
export function compileLearn({ db, dialect }: Database): string {
  const rows = dialect.rowsFromJson('', { metric: 'text', value: 'double' })
  const distance = sql`(excluded.mean - metric_baselines.mean)`
  return sql`insert into metric_baselines (instance_id, metric, samples, mean, m2)
    select ${''}, metric, 1, value, 0 from ${rows} as batch where true
    on conflict (instance_id, metric) do update set
      samples = metric_baselines.samples + 1,
      mean = metric_baselines.mean + ${distance} / (metric_baselines.samples + 1.0),
      m2 = metric_baselines.m2
        + ${distance} * ${distance} * metric_baselines.samples / (metric_baselines.samples + 1.0)`.compile(db).sql
}

export const learnStatement = (
  learn: string,
  instanceId: string,
  samples: [metric: string, value: number][],
): Statement => CompiledQuery.raw(learn, [instanceId, JSON.stringify(samples)])

/** Marks instances offline that sent nothing since `cutoff`; resolves with those that this call marked. */
export function markOffline(trx: Trx, cutoff: number, limit: number) {
  return trx
    .updateTable('instances')
    .set({ liveness: 'offline' })
    .where('id', 'in', (e) =>
      e
        .selectFrom('instances')
        .select('id')
        .where('liveness', '=', 'online')
        .where('last_heartbeat_at', '<', cutoff)
        .orderBy('id')
        .limit(limit),
    )
    .where('liveness', '=', 'online')
    .where('last_heartbeat_at', '<', cutoff)
    .returning(['id', 'last_heartbeat_at'])
    .execute()
}

/** Instances that are taken to be online, those of them that sent nothing since `cutoff`, and the oldest heartbeat of these. */
export async function countSilent(db: Db, cutoff: number) {
  const { silent, online, oldest } = await db
    .selectFrom('instances')
    .select((e) => [
      e.fn.countAll<number>().as('online'),
      sql<number | null>`sum(case when last_heartbeat_at < ${cutoff} then 1 else 0 end)`.as('silent'),
      e.fn.min('last_heartbeat_at').as('oldest'),
    ])
    .where('liveness', '=', 'online')
    .executeTakeFirstOrThrow()
  return { silent: Number(silent ?? 0), online: Number(online), oldest: Number(oldest ?? cutoff) }
}

/** Of the instances that sent something since `aliveSince`, those that did since `freshSince`. */
export async function countBack(db: Db, aliveSince: number, freshSince: number) {
  const { fleet, fresh } = await db
    .selectFrom('instances')
    .select((e) => [
      e.fn.countAll<number>().as('fleet'),
      sql<number | null>`sum(case when last_heartbeat_at >= ${freshSince} then 1 else 0 end)`.as('fresh'),
    ])
    .where('last_heartbeat_at', '>=', aliveSince)
    .executeTakeFirstOrThrow()
  return { fleet: Number(fleet), fresh: Number(fresh ?? 0) }
}

/** Marks instances online again that were offline and sent something since `cutoff`. */
export function markRecovered(trx: Trx, cutoff: number, limit: number) {
  return trx
    .updateTable('instances')
    .set({ liveness: 'online' })
    .where('id', 'in', (e) =>
      e
        .selectFrom('instances')
        .select('id')
        .where('liveness', '=', 'offline')
        .where('last_heartbeat_at', '>=', cutoff)
        .orderBy('id')
        .limit(limit),
    )
    .where('liveness', '=', 'offline')
    .where('last_heartbeat_at', '>=', cutoff)
    .returning(['id', 'last_heartbeat_at'])
    .execute()
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
