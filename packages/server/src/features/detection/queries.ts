import { CompiledQuery, sql } from 'kysely'
import type { Database, Db, Statement } from '../../db/database.ts'
import type { Baseline } from './anomaly.ts'

export async function readBaselines(db: Db, instanceId: string): Promise<Map<string, Baseline>> {
  const rows = await db.selectFrom('metric_baselines').selectAll().where('instance_id', '=', instanceId).execute()
  return new Map(rows.map(({ metric, samples, mean, m2 }) => [metric, { samples, mean, m2 }]))
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
