import { sql } from 'kysely'
import type { Db, Statement, Trx } from '../../db/database.ts'
import { deleteInPortions } from '../../db/portions.ts'
import type { Schema } from '../../db/schema.ts'

export type ConfigRow = Schema['agent_configs']

export const readConfigs = (db: Db, instanceId: string): Promise<ConfigRow[]> =>
  db.selectFrom('agent_configs').selectAll().where('instance_id', '=', instanceId).orderBy('source').execute()

export const findConfig = (db: Db, instanceId: string, source: string): Promise<ConfigRow | undefined> =>
  db
    .selectFrom('agent_configs')
    .selectAll()
    .where('instance_id', '=', instanceId)
    .where('source', '=', source)
    .executeTakeFirst()

export async function countConfigs(db: Db, instanceId: string): Promise<number> {
  const { count } = await db
    .selectFrom('agent_configs')
    .select((e) => e.fn.countAll<number>().as('count'))
    .where('instance_id', '=', instanceId)
    .executeTakeFirstOrThrow()
  return Number(count)
}

/** Notes that a state was reported again. False if another request changed it meanwhile. */
export async function noteReport(trx: Trx, { instance_id, source, digest }: ConfigRow, now: number): Promise<boolean> {
  const { numUpdatedRows } = await trx
    .updateTable('agent_configs')
    .set({ reported_at: now })
    .where('instance_id', '=', instance_id)
    .where('source', '=', source)
    .where('digest', '=', digest)
    .executeTakeFirst()
  return numUpdatedRows === 1n
}

/** Stores the first state of a configuration. False if another request did so first. */
export async function insertConfig(trx: Trx, row: ConfigRow): Promise<boolean> {
  const { numInsertedOrUpdatedRows } = await trx
    .insertInto('agent_configs')
    .values(row)
    .onConflict((conflict) => conflict.columns(['instance_id', 'source']).doNothing())
    .executeTakeFirst()
  return numInsertedOrUpdatedRows === 1n
}

/** Replaces a state. False if another request did so first. */
export async function replaceConfig(trx: Trx, row: ConfigRow, before: ConfigRow): Promise<boolean> {
  const { instance_id, source, ...state } = row
  const { numUpdatedRows } = await trx
    .updateTable('agent_configs')
    .set(state)
    .where('instance_id', '=', instance_id)
    .where('source', '=', source)
    .where('digest', '=', before.digest)
    .executeTakeFirst()
  return numUpdatedRows === 1n
}

export const deleteConfigs = (db: Db, instanceId: string): Statement =>
  db.deleteFrom('agent_configs').where('instance_id', '=', instanceId).compile()

/** Deletes what was last reported before `cutoff`. */
export const deleteConfigsBefore = (db: Db, cutoff: number, stopping?: AbortSignal): Promise<void> =>
  deleteInPortions(
    db,
    'agent_configs',
    { key: ['instance_id', 'source'], where: sql`reported_at < ${cutoff}` },
    stopping,
  )
