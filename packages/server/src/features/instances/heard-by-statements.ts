import type { Witness } from '@wardline/contract'
import { sql } from 'kysely'
import type { Database, Db, Statement } from '../../db/database.ts'
import { deleteInPortions } from '../../db/portions.ts'
import type { Schema } from '../../db/schema.ts'

export type WitnessRow = Schema['instance_witnesses']

/** Instance id, witness, time. */
export type HeardCells = [string, Witness, number]

/** Stores by what registered instances were heard. */
export function heardStatement({ db, dialect }: Database, rows: readonly HeardCells[]): Statement {
  const columns = { instance_id: 'text', witness: 'text', at: 'bigint' } as const
  return sql`insert into instance_witnesses (instance_id, witness, since, last_at)
    select instance_id, witness, at, at from ${dialect.rowsFromJson(JSON.stringify(rows), columns)} as batch
    where exists (select 1 from instances where instances.id = batch.instance_id)
    on conflict (instance_id, witness) do update set
      last_at = case when excluded.last_at > instance_witnesses.last_at
        then excluded.last_at else instance_witnesses.last_at end`.compile(db)
}

/** Stores when instances reported, for those with only a hook: between two calls it sends no heartbeats. */
export function reportedStatement({ db, dialect }: Database, rows: readonly [id: string, at: number][]): Statement {
  const batch = dialect.rowsFromJson(JSON.stringify(rows), { instance_id: 'text', at: 'bigint' })
  return sql`update instance_witnesses set last_at = batch.at from ${batch} as batch
    where instance_witnesses.instance_id = batch.instance_id and instance_witnesses.witness = 'hook'
      and instance_witnesses.last_at < batch.at
      and not exists (select 1 from instance_witnesses as other
        where other.instance_id = batch.instance_id and other.witness in ('sdk', 'mcp'))`.compile(db)
}

/** Reads by what these instances were heard since an instant, in the order of instance and witness. */
export function readWitnesses(db: Db, ids: readonly string[], since: number): Promise<WitnessRow[]> {
  if (ids.length === 0) return Promise.resolve([])
  return db
    .selectFrom('instance_witnesses')
    .selectAll()
    .where('instance_id', 'in', ids)
    .where('last_at', '>=', since)
    .orderBy('instance_id')
    .orderBy('witness')
    .execute()
}

/** Reads instances after an id that telemetry and a hook or SDK spoke for since an instant, with those witnesses. */
export function readTwiceHeard(
  db: Db,
  { since, after, limit }: { since: number; after: string; limit: number },
): Promise<{ instance_id: string; has_hook: number }[]> {
  return db
    .selectFrom('instance_witnesses')
    .select(['instance_id', sql<number>`max(case when witness = 'hook' then 1 else 0 end)`.as('has_hook')])
    .where('last_at', '>=', since)
    .where('witness', 'in', ['sdk', 'hook', 'otlp'])
    .where('instance_id', '>', after)
    .groupBy('instance_id')
    .having(sql<boolean>`max(case when witness = 'otlp' then 1 else 0 end) = 1 and count(*) > 1`)
    .orderBy('instance_id')
    .limit(limit)
    .execute()
}

/** Whether the instance of the row around was heard by this witness since an instant. */
export const isHeardBy = (witness: Witness, since: number) =>
  sql<boolean>`exists (select 1 from instance_witnesses where instance_witnesses.instance_id = instances.id
    and instance_witnesses.witness = ${witness} and instance_witnesses.last_at >= ${since})`

/** Deletes what was last heard before `cutoff`. */
export const deleteWitnessesBefore = (db: Db, cutoff: number, stopping?: AbortSignal): Promise<void> =>
  deleteInPortions(
    db,
    'instance_witnesses',
    { key: ['instance_id', 'witness'], where: sql`last_at < ${cutoff}` },
    stopping,
  )
