import { CompiledQuery, sql } from 'kysely'
import type { Database, Db, Statement } from '../../db/database.ts'
import { deleteInPortions } from '../../db/portions.ts'
import type { Schema } from '../../db/schema.ts'

export type BaselineRow = Schema['baselines']
export type EpisodeRow = Schema['baseline_episodes']

/** Constraint that refuses a stale version. */
export const currentConstraint = 'baseline_is_current'

/** Episodes kept per metric, besides retention by age. */
const maxEpisodes = 50

export function readBaselines(db: Db, instanceId: string, metrics: readonly string[]): Promise<BaselineRow[]> {
  return db
    .selectFrom('baselines')
    .selectAll()
    .where('instance_id', '=', instanceId)
    .where('metric', 'in', metrics)
    .execute()
}

/** Reads all baselines of an instance; their number is limited. */
export function readInstanceBaselines(db: Db, instanceId: string): Promise<BaselineRow[]> {
  return db.selectFrom('baselines').selectAll().where('instance_id', '=', instanceId).orderBy('metric').execute()
}

export async function countBaselines(db: Db, instanceId: string): Promise<number> {
  const { count } = await db
    .selectFrom('baselines')
    .select((e) => e.fn.countAll<number>().as('count'))
    .where('instance_id', '=', instanceId)
    .executeTakeFirstOrThrow()
  return Number(count)
}

/** Reads baselines after a key, to iterate over all. */
export function readBaselinePage(
  db: Db,
  after: { instance_id: string; metric: string },
  limit: number,
): Promise<BaselineRow[]> {
  return db
    .selectFrom('baselines')
    .selectAll()
    .where((e) =>
      e.or([
        e('instance_id', '>', after.instance_id),
        e.and([e('instance_id', '=', after.instance_id), e('metric', '>', after.metric)]),
      ]),
    )
    .orderBy('instance_id')
    .orderBy('metric')
    .limit(limit)
    .execute()
}

/** Reads baselines whose episode ends because the instance is silent. */
export function readSilent(db: Db, now: number, limit: number): Promise<BaselineRow[]> {
  return db
    .selectFrom('baselines')
    .selectAll()
    .where('silent_at', '<=', now)
    .orderBy('silent_at')
    .limit(limit)
    .execute()
}

/** A baseline to store: `version` is the version read, plus one. */
export type BaselineWrite = [
  instance_id: string,
  metric: string,
  version: number,
  state: string,
  updated_at: number,
  silent_at: number | null,
]

/**
 * Returns statements that store baselines. A stale version becomes 0, which the table refuses: the whole transaction fails,
 * and the judgement is repeated.
 */
export function compileWrites({ db, dialect }: Database): (writes: readonly BaselineWrite[]) => Statement {
  const rows = dialect.rowsFromJson('', {
    instance_id: 'text',
    metric: 'text',
    version: 'bigint',
    state: 'text',
    updated_at: 'bigint',
    silent_at: 'bigint',
  })
  const { sql: text } = sql`insert into baselines (instance_id, metric, version, state, updated_at, silent_at)
    select instance_id, metric, version, state, updated_at, silent_at from ${rows} as batch where true
    on conflict (instance_id, metric) do update set
      version = case when baselines.version = excluded.version - 1 then excluded.version else 0 end,
      state = excluded.state, updated_at = excluded.updated_at, silent_at = excluded.silent_at`.compile(db)
  return (writes) => CompiledQuery.raw(text, [JSON.stringify(writes)])
}

/** Starts or updates an episode. */
export function episodeStatement(db: Db, row: EpisodeRow): Statement {
  return db
    .insertInto('baseline_episodes')
    .values(row)
    .onConflict((conflict) =>
      conflict.column('id').doUpdateSet({
        severity: row.severity,
        peak: row.peak,
        ended_at: row.ended_at,
        outcome: row.outcome,
      }),
    )
    .compile()
}

/** Ends an episode, whose row may have been deleted. */
export function endStatement(
  db: Db,
  id: string,
  { peak, ended_at, outcome }: Pick<EpisodeRow, 'peak' | 'ended_at' | 'outcome'>,
): Statement {
  return db.updateTable('baseline_episodes').set({ peak, ended_at, outcome }).where('id', '=', id).compile()
}

/** Deletes the oldest episodes of a metric beyond the limit. */
export const trimStatement = (db: Db, instanceId: string, metric: string): Statement =>
  sql`delete from baseline_episodes where instance_id = ${instanceId} and metric = ${metric} and begun_at < (
    select begun_at from baseline_episodes where instance_id = ${instanceId} and metric = ${metric}
    order by begun_at desc limit 1 offset ${sql.lit(maxEpisodes)})`.compile(db)

/** Reads the newest episodes of each metric of an instance, newest first. */
export function readEpisodes(
  db: Db,
  instanceId: string,
  metric: string | undefined,
  limit: number,
): Promise<EpisodeRow[]> {
  let query = db.selectFrom('baseline_episodes').selectAll().where('instance_id', '=', instanceId)
  if (metric !== undefined) query = query.where('metric', '=', metric)
  return query.orderBy('begun_at', 'desc').orderBy('id', 'desc').limit(limit).execute()
}

/** Baselines that heard nothing since `cutoff`. */
export function findOldBaselines(db: Db, cutoff: number, limit: number) {
  return db
    .selectFrom('baselines')
    .select(['instance_id', 'metric'])
    .where('updated_at', '<', cutoff)
    .limit(limit)
    .execute()
}

export const deleteStatement = (db: Db, instanceId: string, metric: string, cutoff: number): Statement =>
  db
    .deleteFrom('baselines')
    .where('instance_id', '=', instanceId)
    .where('metric', '=', metric)
    .where('updated_at', '<', cutoff)
    .compile()

export const deleteEpisodesBefore = (db: Db, cutoff: number, stopping?: AbortSignal): Promise<void> =>
  deleteInPortions(db, 'baseline_episodes', { key: ['id'], where: sql`begun_at < ${cutoff}` }, stopping)
