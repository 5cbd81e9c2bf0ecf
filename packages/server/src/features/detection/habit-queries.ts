import { sql } from 'kysely'
import type { Database, Db } from '../../db/database.ts'
import { deleteInPortions } from '../../db/portions.ts'
import type { Schema } from '../../db/schema.ts'

export type HabitRow = Schema['report_habits']

/** A habit to store; `before`: the `judged_until` as read, null if there was none. */
export interface HabitWrite extends HabitRow {
  before: number | null
}

export function readHabits(db: Db, ids: readonly string[]): Promise<HabitRow[]> {
  return db.selectFrom('report_habits').selectAll().where('instance_id', 'in', ids).execute()
}

/** Stores habits unless another process was faster; resolves with the ids of the stored ones. */
export async function writeHabits(
  { db, dialect }: Pick<Database, 'db' | 'dialect'>,
  writes: readonly HabitWrite[],
): Promise<Set<string>> {
  const rows = (some: readonly HabitWrite[]) =>
    dialect.rowsFromJson(
      JSON.stringify(
        some.map((one) => [one.instance_id, one.before, one.judged_until, one.state, one.blind_at, one.blind_named_at]),
      ),
      {
        instance_id: 'text',
        before: 'bigint',
        judged_until: 'bigint',
        state: 'text',
        blind_at: 'bigint',
        blind_named_at: 'bigint',
      },
    )
  const update = sql<{ instance_id: string }>`update report_habits set judged_until = batch.judged_until,
      state = batch.state, blind_at = batch.blind_at, blind_named_at = batch.blind_named_at
    from ${rows(writes.filter(({ before }) => before !== null))} as batch
    where report_habits.instance_id = batch.instance_id and report_habits.judged_until = batch.before
    returning report_habits.instance_id`
  const insert = sql<{
    instance_id: string
  }>`insert into report_habits (instance_id, judged_until, state, blind_at, blind_named_at)
    select instance_id, judged_until, state, blind_at, blind_named_at
    from ${rows(writes.filter(({ before }) => before === null))} as batch where true
    on conflict (instance_id) do nothing returning instance_id`
  const written = [...(await update.execute(db)).rows, ...(await insert.execute(db)).rows]
  return new Set(written.map(({ instance_id }) => instance_id))
}

/** Whether any instances are blind that were only counted in a warning. */
export async function hasUnnamedBlind(db: Db): Promise<boolean> {
  const row = await db
    .selectFrom('report_habits')
    .select('instance_id')
    .where('blind_at', 'is not', null)
    .where('blind_named_at', 'is', null)
    .limit(1)
    .executeTakeFirst()
  return row !== undefined
}

/** Deletes the habits of instances without a heartbeat since `cutoff`. */
export const deleteHabitsBefore = (db: Db, cutoff: number, stopping?: AbortSignal): Promise<void> =>
  deleteInPortions(db, 'report_habits', { key: ['instance_id'], where: sql`judged_until < ${cutoff}` }, stopping)
