import { sql } from 'kysely'
import type { Database, Db, Statement } from '../../db/database.ts'
import type { Schema } from '../../db/schema.ts'
import { isHeldByParent } from './parent-statements.ts'

export interface ControlRow {
  version: number
  suspended: boolean
  reason: string | null
  changedAt: number | null
  /** Time of the last kill or resume, else of the registration. */
  issuedAt: number
  registeredAt: number
  /** The version that the agent acknowledged; null: none. */
  applied: number | null
  /** A version that the agent acknowledged although it was never issued. */
  claimed: number | null
}

const controlColumns = [
  'id',
  'control_version',
  'suspended',
  'suspension_reason',
  'control_changed_at',
  'applied_version',
  'claimed_version',
  'first_seen_at',
] as const

const controlOf = (row: Pick<Schema['instances'], (typeof controlColumns)[number]>): ControlRow => ({
  version: row.control_version,
  suspended: row.suspended === 1,
  reason: row.suspension_reason,
  changedAt: row.control_changed_at,
  issuedAt: row.control_changed_at ?? row.first_seen_at,
  registeredAt: row.first_seen_at,
  applied: row.applied_version,
  claimed: row.claimed_version,
})

export async function readControl(db: Db, instanceId: string): Promise<ControlRow | undefined> {
  const row = await db.selectFrom('instances').select(controlColumns).where('id', '=', instanceId).executeTakeFirst()
  return row && controlOf(row)
}

/** Reads the control states of these instances; unknown ids are missing in the result. */
export async function readControls(
  { db, dialect }: Pick<Database, 'db' | 'dialect'>,
  ids: readonly string[],
): Promise<Map<string, ControlRow>> {
  const named = dialect.rowsFromJson(JSON.stringify(ids.map((id) => [id])), { id: 'text' })
  const isNamed = sql<boolean>`id in (select id from ${named} as named)`
  const rows = await db.selectFrom('instances').select(controlColumns).where(isNamed).execute()
  return new Map(rows.map((row) => [row.id, controlOf(row)]))
}

/** Instances of an owner: those that sent a heartbeat since an instant, and those registered before it. */
export interface OwnerCount {
  owner: string | null
  heard: number
  registeredBefore: number
}

export async function countByOwner(db: Db, since: number): Promise<OwnerCount[]> {
  const rows = await db
    .selectFrom('instances')
    .select([
      'owner',
      sql<number>`sum(case when last_heartbeat_at >= ${since} then 1 else 0 end)`.as('heard'),
      sql<number>`sum(case when first_seen_at < ${since} then 1 else 0 end)`.as('before'),
    ])
    .groupBy('owner')
    .execute()
  return rows.map(({ owner, heard, before }) => ({ owner, heard: Number(heard), registeredBefore: Number(before) }))
}

interface ChangedControl extends Pick<ControlRow, 'version' | 'suspended' | 'reason'> {
  id: string
  changedAt: number
}

/** A position in the order of changes. Includes the id, because many changes have the same time. */
export type ChangePlace = Pick<ChangedControl, 'changedAt' | 'id'>

/** Reads a page of killed and resumed instances after a position, in the order of their changes. */
export async function readChangedControl(db: Db, after: ChangePlace, limit: number): Promise<ChangedControl[]> {
  const rows = await db
    .selectFrom('instances')
    .select(['id', 'control_version', 'suspended', 'suspension_reason', 'control_changed_at'])
    // The first condition is the one that uses the index.
    .where('control_changed_at', '>=', after.changedAt)
    .where((e) => e.or([e('control_changed_at', '>', after.changedAt), e('id', '>', after.id)]))
    .orderBy('control_changed_at')
    .orderBy('id')
    .limit(limit)
    .execute()
  return rows.map((row) => ({
    id: row.id,
    version: row.control_version,
    suspended: row.suspended === 1,
    reason: row.suspension_reason,
    changedAt: row.control_changed_at!,
  }))
}

interface ControlChange {
  instanceId: string
  /** The state as read: of two concurrent changes exactly one finds it unchanged. */
  from: ControlRow
  version: number
  /** Null resumes. */
  reason: string | null
  now: number
}

/**
 * Changes the state of an instance, in a batch that fails as stale if the instance changed since it was read, or is to be
 * resumed while its parent is suspended.
 */
export function controlStatements({ db, dialect }: Database, change: ControlChange): Statement[] {
  const { instanceId, from, version, reason, now } = change
  const unchanged = db
    .selectFrom('instances')
    .select('id')
    .where('id', '=', instanceId)
    .where('suspended', '=', from.suspended ? 1 : 0)
    .where('control_version', '=', from.version)
  const asRead = reason === null ? unchanged.where(sql<boolean>`not ${isHeldByParent('instances.id')}`) : unchanged
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

/**
 * Locks an instance, in a batch that fails as stale if it was deleted. `active`: also if it is suspended, or was changed
 * since that version.
 */
export function lockInstance({ db, dialect }: Database, id: string, active?: Pick<ControlRow, 'version'>): Statement {
  const query = db.selectFrom('instances').select('id').where('id', '=', id)
  const asRead = active ? query.where('suspended', '=', 0).where('control_version', '=', active.version) : query
  return dialect.lockFound(asRead.compile())
}

/** The state of an instance as acks need it. */
export interface AckedControl extends Omit<ControlRow, 'reason' | 'issuedAt' | 'registeredAt'> {
  id: string
}

/** Reads these instances for acks; unknown ids are missing in the result. */
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

/** `last_proven_at` after an agent acknowledged `batch.version`: a suspension proves as much as a passed drill. */
export const provenAt = (now: number) =>
  sql`case when suspended = 1 and control_version = batch.version then ${now} else last_proven_at end`

/** Records the versions that agents acknowledged, if higher than the recorded ones; returns the ids that changed. */
export function appliedStatement(
  { db, dialect }: Pick<Database, 'db' | 'dialect'>,
  applied: readonly { id: string; version: number }[],
  now: number,
): Statement {
  const cells = applied.map(({ id, version }) => [id, version])
  return sql`update instances set applied_version = batch.version, applied_at = ${now}, claimed_version = null,
      last_proven_at = ${provenAt(now)}
    from ${dialect.rowsFromJson(JSON.stringify(cells), { id: 'text', version: 'bigint' })} as batch
    where instances.id = batch.id and (applied_version is null or applied_version < batch.version)
    returning instances.id`.compile(db)
}

/** Records a version that the agent acknowledged although it was never issued. */
export function claimedStatement(db: Db, instanceId: string, version: number): Statement {
  return db.updateTable('instances').set({ claimed_version: version }).where('id', '=', instanceId).compile()
}

/** Reads the owner of each instance and the owner's number of instances; no row if the owner was not recorded. */
export async function readOwners(
  db: Db,
  ids: readonly string[],
): Promise<{ id: string; owner: string; instances: number }[]> {
  const rows = await db
    .selectFrom('instances')
    .innerJoin('instance_counts', 'instance_counts.owner', 'instances.owner')
    .select(['instances.id', 'instances.owner', 'instance_counts.count'])
    .where('instances.id', 'in', ids)
    .execute()
  return rows.map(({ id, owner, count }) => ({ id, owner: owner!, instances: count }))
}

/** Row source for the statements of the kill switch: the last kill or resume of each instance. */
export const instanceControls = sql`(select id, suspended, control_version, control_changed_at, suspension_reason,
  applied_version, applied_at, kill_result_version, kill_result from instances)`
