import type { Database, Db, Statement, Trx } from '../../db/database.ts'

export interface ControlRow {
  version: number
  suspended: boolean
  reason: string | null
  changedAt: number | null
  /** Of the current state: its change, else the registration. */
  issuedAt: number
  /** A higher version that the agent says it applied. */
  claimed: number | null
}

export async function readControl(db: Db, instanceId: string): Promise<ControlRow | undefined> {
  const row = await db
    .selectFrom('instances')
    .select([
      'control_version',
      'suspended',
      'suspension_reason',
      'control_changed_at',
      'claimed_version',
      'first_seen_at',
    ])
    .where('id', '=', instanceId)
    .executeTakeFirst()
  if (!row) return undefined
  return {
    version: row.control_version,
    suspended: row.suspended === 1,
    reason: row.suspension_reason,
    changedAt: row.control_changed_at,
    issuedAt: row.control_changed_at ?? row.first_seen_at,
    claimed: row.claimed_version,
  }
}

/** The instances that were killed or resumed since an instant. */
export async function readChangedControl(
  db: Db,
  since: number,
): Promise<(Omit<ControlRow, 'claimed' | 'issuedAt'> & { id: string })[]> {
  const rows = await db
    .selectFrom('instances')
    .select(['id', 'control_version', 'suspended', 'suspension_reason', 'control_changed_at'])
    .where('control_changed_at', '>=', since)
    .execute()
  return rows.map((row) => ({
    id: row.id,
    version: row.control_version,
    suspended: row.suspended === 1,
    reason: row.suspension_reason,
    changedAt: row.control_changed_at,
  }))
}

interface ControlChange {
  instanceId: string
  /** As it was read: of two that race exactly one finds it so. */
  from: ControlRow
  version: number
  /** Null resumes. */
  reason: string | null
  now: number
}

/** Moves an instance to the other state, in a batch that fails as stale when it was changed since it was read. */
export function controlStatements({ db, dialect }: Database, change: ControlChange): Statement[] {
  const { instanceId, from, version, reason, now } = change
  const asRead = db
    .selectFrom('instances')
    .select('id')
    .where('id', '=', instanceId)
    .where('suspended', '=', from.suspended ? 1 : 0)
    .where('control_version', '=', from.version)
  const update = db
    .updateTable('instances')
    .set({
      suspended: reason === null ? 0 : 1,
      suspension_reason: reason,
      control_version: version,
      control_changed_at: now,
    })
    .where('id', '=', instanceId)
  return [dialect.lockFound(asRead.compile()), update.compile()]
}

/** What an ack of an instance may change. */
export interface AckedControl extends Omit<ControlRow, 'reason' | 'issuedAt'> {
  id: string
  applied: number | null
}

/** The instances of these ids that exist. */
export async function readAcked(db: Db, ids: readonly string[]): Promise<AckedControl[]> {
  const rows = await db
    .selectFrom('instances')
    .select(['id', 'control_version', 'suspended', 'control_changed_at', 'applied_version', 'claimed_version'])
    .where('id', 'in', ids)
    .execute()
  return rows.map((row) => ({
    id: row.id,
    version: row.control_version,
    suspended: row.suspended === 1,
    changedAt: row.control_changed_at,
    applied: row.applied_version,
    claimed: row.claimed_version,
  }))
}

/** Notes that the agent applied a version, unless it already applied that or a later one; returns the id if so. */
export function appliedStatement(db: Db, instanceId: string, version: number, now: number): Statement {
  return db
    .updateTable('instances')
    .set({ applied_version: version, applied_at: now, claimed_version: null })
    .where('id', '=', instanceId)
    .where((e) => e.or([e('applied_version', 'is', null), e('applied_version', '<', version)]))
    .returning('id as confirmed')
    .compile()
}

/** Notes a version that the agent reports although it was never issued. */
export function claimedStatement(db: Db, instanceId: string, version: number): Statement {
  return db.updateTable('instances').set({ claimed_version: version }).where('id', '=', instanceId).compile()
}

/** Suspended instances whose kill has an unreported result: it was confirmed, or it is overdue. */
export async function readKillResults(db: Db, bounds: { since: number; overdueBefore: number; limit: number }) {
  const { since, overdueBefore, limit } = bounds
  const rows = await db
    .selectFrom('instances')
    .select(['id', 'control_version', 'control_changed_at', 'applied_version', 'applied_at'])
    .where('control_changed_at', '>=', since)
    .where('suspended', '=', 1)
    .where((e) => {
      const isConfirmed = e('applied_version', '>=', e.ref('control_version'))
      const isUnreported = e.or([
        e('kill_result_version', 'is', null),
        e('kill_result_version', '<', e.ref('control_version')),
      ])
      return e.or([
        e.and([isUnreported, e.or([isConfirmed, e('control_changed_at', '<', overdueBefore)])]),
        e.and([isConfirmed, e('kill_result', '=', 'unconfirmed')]),
      ])
    })
    .orderBy('control_changed_at')
    .limit(limit)
    .execute()
  return rows.map((row) => ({
    id: row.id,
    version: row.control_version,
    // A suspended instance was changed at some time.
    killedAt: row.control_changed_at!,
    confirmedAt: (row.applied_version ?? -1) >= row.control_version ? row.applied_at : null,
  }))
}

/** Notes that the result of a kill is reported; false when it already was or the instance was resumed. */
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
