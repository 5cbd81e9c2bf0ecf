import type { Db, Trx } from '../../db/database.ts'

export interface ControlRow {
  version: number
  suspended: boolean
  reason: string | null
  changedAt: number | null
}

export async function readControl(db: Db, instanceId: string): Promise<ControlRow | undefined> {
  const row = await db
    .selectFrom('instances')
    .select(['control_version', 'suspended', 'suspension_reason', 'control_changed_at'])
    .where('id', '=', instanceId)
    .executeTakeFirst()
  if (!row) return undefined
  return {
    version: Number(row.control_version),
    suspended: row.suspended === 1,
    reason: row.suspension_reason,
    changedAt: row.control_changed_at === null ? null : Number(row.control_changed_at),
  }
}

/** The instances that were killed or resumed since an instant. */
export async function readChangedControl(db: Db, since: number): Promise<(ControlRow & { id: string })[]> {
  const rows = await db
    .selectFrom('instances')
    .select(['id', 'control_version', 'suspended', 'suspension_reason', 'control_changed_at'])
    .where('control_changed_at', '>=', since)
    .execute()
  return rows.map((row) => ({
    id: row.id,
    version: Number(row.control_version),
    suspended: row.suspended === 1,
    reason: row.suspension_reason,
    changedAt: Number(row.control_changed_at),
  }))
}

/**
 * Moves an instance to the other state, unless it is there already: of two that race exactly one gets the new version.
 * `reason` null resumes. Undefined when nothing changed.
 */
export async function changeControl(trx: Trx, instanceId: string, reason: string | null, now: number) {
  const suspend = reason !== null
  const changed = await trx
    .updateTable('instances')
    .set((e) => ({
      suspended: suspend ? 1 : 0,
      suspension_reason: reason,
      control_version: e('control_version', '+', 1),
      control_changed_at: now,
    }))
    .where('id', '=', instanceId)
    .where('suspended', '=', suspend ? 0 : 1)
    .returning('control_version')
    .executeTakeFirst()
  return changed && Number(changed.control_version)
}

export async function isKnownInstance(trx: Trx, instanceId: string): Promise<boolean> {
  return (await trx.selectFrom('instances').select('id').where('id', '=', instanceId).executeTakeFirst()) !== undefined
}

/** Notes that the agent applied a version, unless it already applied that or a later one. */
export async function markApplied(db: Db, instanceId: string, version: number, now: number): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable('instances')
    .set({ applied_version: version, applied_at: now })
    .where('id', '=', instanceId)
    .where((e) => e.or([e('applied_version', 'is', null), e('applied_version', '<', version)]))
    .executeTakeFirstOrThrow()
  return numUpdatedRows === 1n
}
