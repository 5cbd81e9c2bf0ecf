import type { Db } from '../../db/database.ts'
import type { Schema } from '../../db/schema.ts'

export type MismatchRow = Schema['report_mismatches']

/** Reads episodes that are not over: of one agent, or of all. */
export function readOpen(db: Db, limit: number, instanceId?: string): Promise<MismatchRow[]> {
  let query = db.selectFrom('report_mismatches').selectAll().where('ended_at', 'is', null)
  if (instanceId !== undefined) query = query.where('instance_id', '=', instanceId)
  return query.orderBy('instance_id').orderBy('missing').limit(limit).execute()
}

/**
 * Begins an episode, or raises its severity. Resolves with whether it is to be reported: another process has not done so,
 * and no event of this agent was stored since `quietSince`.
 */
export async function beginMismatch(db: Db, row: MismatchRow, quietSince: number): Promise<boolean> {
  const { instance_id, missing, severity, since, calls, tools, reported_at } = row
  const inserted = await db
    .insertInto('report_mismatches')
    .values(row)
    .onConflict((conflict) => conflict.columns(['instance_id', 'missing']).doNothing())
    .executeTakeFirst()
  if (inserted.numInsertedOrUpdatedRows === 1n) return true
  const of = (e: { severity?: MismatchRow['severity'] }) =>
    db.updateTable('report_mismatches').set(e).where('instance_id', '=', instance_id).where('missing', '=', missing)
  if (severity === 'critical') {
    const raised = await of({ severity })
      .set({ since, calls, tools, reported_at, ended_at: null })
      .where('severity', '=', 'warning')
      .executeTakeFirst()
    if (raised.numUpdatedRows === 1n) return true
  }
  const again = await of({ severity })
    .set({ since, calls, tools, reported_at, ended_at: null })
    .where('ended_at', 'is not', null)
    .where('reported_at', '<', quietSince)
    .executeTakeFirst()
  if (again.numUpdatedRows === 1n) return true
  await of({}).set({ calls, tools, ended_at: null }).execute()
  return false
}

/** Ends an episode. False if another process did so first. */
export async function endMismatch(db: Db, { instance_id, missing }: MismatchRow, now: number): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable('report_mismatches')
    .set({ ended_at: now })
    .where('instance_id', '=', instance_id)
    .where('missing', '=', missing)
    .where('ended_at', 'is', null)
    .executeTakeFirst()
  return numUpdatedRows === 1n
}

/** Deletes episodes that ended before `cutoff`. */
export async function deleteEndedBefore(db: Db, cutoff: number): Promise<void> {
  await db.deleteFrom('report_mismatches').where('ended_at', '<', cutoff).execute()
}
