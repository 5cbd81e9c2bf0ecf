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

/** Suspended instances of whose kill something is to be told: that it was confirmed, or that it is overdue. */
export async function readKillResults(db: Db, bounds: { since: number; overdueBefore: number; limit: number }) {
  const { since, overdueBefore, limit } = bounds
  const rows = await db
    .selectFrom('instances')
    .select(['id', 'control_version', 'control_changed_at', 'applied_version', 'applied_at'])
    .where('control_changed_at', '>=', since)
    .where('suspended', '=', 1)
    .where((e) => {
      const isConfirmed = e('applied_version', '>=', e.ref('control_version'))
      const isUntold = e.or([
        e('kill_result_version', 'is', null),
        e('kill_result_version', '<', e.ref('control_version')),
      ])
      return e.or([
        e.and([isUntold, e.or([isConfirmed, e('control_changed_at', '<', overdueBefore)])]),
        e.and([isConfirmed, e('kill_result', '=', 'unconfirmed')]),
      ])
    })
    .orderBy('control_changed_at')
    .limit(limit)
    .execute()
  return rows.map((row) => ({
    id: row.id,
    version: Number(row.control_version),
    killedAt: Number(row.control_changed_at),
    confirmedAt: Number(row.applied_version ?? -1) >= Number(row.control_version) ? Number(row.applied_at) : null,
  }))
}

/** Notes the result that is told of a kill; false when it was told already or the instance was resumed. */
export async function markKillResult(
  trx: Trx,
  instanceId: string,
  version: number,
  result: 'unconfirmed' | 'confirmed',
): Promise<boolean> {
  const { numUpdatedRows } = await trx
    .updateTable('instances')
    .set({ kill_result_version: version, kill_result: result })
    .where('id', '=', instanceId)
    .where('control_version', '=', version)
    .where('suspended', '=', 1)
    .where((e) =>
      e.or([
        e('kill_result_version', 'is', null),
        e('kill_result_version', '<', version),
        e('kill_result', '<>', result),
      ]),
    )
    .executeTakeFirstOrThrow()
  return numUpdatedRows === 1n
}
