import { approvalLimits } from '@wardline/contract'
import { sql } from 'kysely'
import { hourMs } from '../../clock.ts'
import type { Database, Db, Statement } from '../../db/database.ts'
import { deleteInPortions, inPortions } from '../../db/portions.ts'
import { isOfTeam, type Team } from '../../db/teams.ts'
import { uuidV7Floor } from '../../ids.ts'
import type { AllowanceRow, ApprovalRow, Ask } from './approval-rules.ts'

type Parts = Pick<Database, 'db' | 'dialect'>

/** `team`: undefined also for one of an agent that is not of the team. */
export function findApproval(db: Db, id: string, team?: Team): Promise<ApprovalRow | undefined> {
  return db
    .selectFrom('approvals')
    .selectAll()
    .where('id', '=', id)
    .where(isOfTeam('instance_id', team))
    .executeTakeFirst()
}

/** Finds the approval that an attempt waits for or took. */
export function findOfAttempt(db: Db, { instance_id, attempt }: Ask): Promise<ApprovalRow | undefined> {
  return db
    .selectFrom('approvals')
    .selectAll('approvals')
    .innerJoin('approval_attempts', 'approval_attempts.approval_id', 'approvals.id')
    .where('approval_attempts.instance_id', '=', instance_id)
    .where('approval_attempts.attempt', '=', attempt)
    .executeTakeFirst()
}

/** `since`: registration of the agent; an earlier one may have had its id. */
interface Span {
  since: number
  now: number
}

/** Approvals of a call that are neither taken nor over. */
const ofCall = (db: Db, { instance_id, session_id, tool, args_sha256 }: Ask, { since, now }: Span) =>
  db
    .selectFrom('approvals')
    .where('state', 'in', ['pending', 'approved', 'denied'])
    .where('expires_at', '>', now)
    .where('requested_at', '>=', since)
    .where('instance_id', '=', instance_id)
    .where('args_sha256', '=', args_sha256)
    .where('tool', '=', tool)
    .where('session_id', session_id === null ? 'is' : '=', session_id)

/** Finds the newest approval of a call that is neither taken nor over. */
export function findOfCall(db: Db, ask: Ask, span: Span): Promise<ApprovalRow | undefined> {
  return ofCall(db, ask, span).selectAll().orderBy('id', 'desc').limit(1).executeTakeFirst()
}

export function findUsableAllowance(
  db: Db,
  { instance_id, tool }: Pick<Ask, 'instance_id' | 'tool'>,
  now: number,
): Promise<AllowanceRow | undefined> {
  return db
    .selectFrom('allowances')
    .selectAll()
    .where('instance_id', '=', instance_id)
    .where('tool', '=', tool)
    .where('expires_at', '>', now)
    .where('revoked_at', 'is', null)
    .whereRef('used', '<', 'max_calls')
    .orderBy('id')
    .limit(1)
    .executeTakeFirst()
}

const pendingAt = (db: Db, now: number) =>
  db.selectFrom('approvals').where('state', '=', 'pending').where('expires_at', '>', now)

const counted = sql<number>`cast(count(*) as integer)`.as('count')

export async function countPending(db: Db, now: number, team?: Team): Promise<number> {
  const query = pendingAt(db, now).select(counted)
  return (await query.where(isOfTeam('instance_id', team)).executeTakeFirstOrThrow()).count
}

/** Counts the requests of an agent: those that wait, and those of the last hour. */
export async function countOfInstance(db: Db, id: string, now: number): Promise<{ pending: number; hour: number }> {
  const [pending, hour] = await Promise.all([
    pendingAt(db, now).select(counted).where('instance_id', '=', id).executeTakeFirstOrThrow(),
    db
      .selectFrom('approvals')
      .select(counted)
      .where('instance_id', '=', id)
      .where('id', '>=', uuidV7Floor(now - hourMs))
      .executeTakeFirstOrThrow(),
  ])
  return { pending: pending.count, hour: hour.count }
}

/** Reads the ids of the requests of an agent for a tool that wait for one operator. */
export async function readPendingOfTool(db: Db, { instance_id, tool }: Pick<Ask, 'instance_id' | 'tool'>, now: number) {
  const rows = await pendingAt(db, now)
    .select('id')
    .where('instance_id', '=', instance_id)
    .where('tool', '=', tool)
    .where('needed', '=', 1)
    .limit(approvalLimits.pendingOfInstance)
    .execute()
  return rows.map(({ id }) => id)
}

/** Whether another request of the agent waits. */
export async function hasOtherPending(db: Db, { id, instance_id }: ApprovalRow, now: number): Promise<boolean> {
  const other = await pendingAt(db, now)
    .select('id')
    .where('instance_id', '=', instance_id)
    .where('id', '!=', id)
    .limit(1)
    .executeTakeFirst()
  return other !== undefined
}

interface Page {
  state: 'pending' | 'decided' | undefined
  instanceId: string | undefined
  before: string | undefined
  limit: number
  now: number
  team: Team
}

/** Reads a page of approvals, newest first. */
export function readApprovals(db: Db, { state, instanceId, before, limit, now, team }: Page): Promise<ApprovalRow[]> {
  let query = db.selectFrom('approvals').selectAll().where(isOfTeam('instance_id', team))
  if (state === 'pending') query = query.where('state', '=', 'pending').where('expires_at', '>', now)
  if (state === 'decided') query = query.where((e) => e.or([e('state', '!=', 'pending'), e('expires_at', '<=', now)]))
  if (instanceId !== undefined) query = query.where('instance_id', '=', instanceId)
  if (before !== undefined) query = query.where('id', '<', before)
  return query.orderBy('id', 'desc').limit(limit).execute()
}

/**
 * Fails the batch as stale if meanwhile the same call or attempt was stored, or the agent has as many requests as it
 * may. Comes after the lock of the agent's row.
 */
export function guardRequest({ db, dialect }: Parts, ask: Ask, span: Span): Statement {
  const waiting = pendingAt(db, span.now).select(counted).where('instance_id', '=', ask.instance_id)
  const free = sql`select 1 as free where not exists ${ofCall(db, ask, span).select('id')}
    and ${waiting} < ${sql.lit(approvalLimits.pendingOfInstance)}`
  return dialect.lockFound(free.compile(db))
}

export const insertStatement = ({ db }: Pick<Parts, 'db'>, row: ApprovalRow): Statement =>
  db.insertInto('approvals').values(row).compile()

/**
 * Records that an attempt waits for an approval, or took it. Fails the batch as stale if the attempt was recorded since it
 * was read to belong to `known`, which is undefined for a new one; comes after the lock of the agent's row.
 */
export function attemptStatements(
  { db, dialect }: Parts,
  { id, instance_id }: Pick<ApprovalRow, 'id' | 'instance_id'>,
  attempt: string,
  known: string | undefined,
): Statement[] {
  const recorded = db
    .selectFrom('approval_attempts')
    .select('attempt')
    .where('instance_id', '=', instance_id)
    .where('attempt', '=', attempt)
    .where('approval_id', '!=', known ?? '')
  return [
    dialect.lockFound(sql`select 1 as free where not exists ${recorded}`.compile(db)),
    db
      .insertInto('approval_attempts')
      .values({ instance_id, attempt, approval_id: id })
      .onConflict((conflict) => conflict.columns(['instance_id', 'attempt']).doUpdateSet({ approval_id: id }))
      .compile(),
  ]
}

/**
 * Changes an approval, in a batch that fails as stale if it changed since it was read. `isLast`: whether, as read, it is
 * the last one of the agent that waits; comes after the lock of the agent's row.
 */
export function changeStatements(
  { db, dialect }: Parts,
  { id, version, instance_id }: ApprovalRow,
  change: Partial<ApprovalRow>,
  last?: { isLast: boolean; now: number },
): Statement[] {
  let asRead = db.selectFrom('approvals').select('id').where('id', '=', id).where('version', '=', version)
  if (last) {
    const others = pendingAt(db, last.now).select('id').where('instance_id', '=', instance_id).where('id', '!=', id)
    asRead = asRead.where((e) => (last.isLast ? e.not(e.exists(others)) : e.exists(others)))
  }
  const update = db
    .updateTable('approvals')
    .set({ ...change, version: version + 1 })
    .where('id', '=', id)
  return [dialect.lockFound(asRead.compile()), update.compile()]
}

/** Reads approvals that expired and are not closed, the oldest first. */
export function readExpired(db: Db, now: number, limit: number): Promise<ApprovalRow[]> {
  return db
    .selectFrom('approvals')
    .selectAll()
    .where('state', 'in', ['pending', 'approved'])
    .where('expires_at', '<=', now)
    .orderBy('expires_at')
    .limit(limit)
    .execute()
}

// --- Allowances

export function findAllowance(db: Db, id: string): Promise<AllowanceRow | undefined> {
  return db.selectFrom('allowances').selectAll().where('id', '=', id).executeTakeFirst()
}

export function readAllowances(db: Db, limit: number, team: Team): Promise<AllowanceRow[]> {
  return db
    .selectFrom('allowances')
    .selectAll()
    .where(isOfTeam('instance_id', team))
    .orderBy('id', 'desc')
    .limit(limit)
    .execute()
}

export async function countAllowances(db: Db, now: number): Promise<number> {
  const query = db.selectFrom('allowances').select(counted).where('expires_at', '>', now)
  return (await query.executeTakeFirstOrThrow()).count
}

export const allowanceStatement = ({ db }: Pick<Parts, 'db'>, row: AllowanceRow): Statement =>
  db.insertInto('allowances').values(row).compile()

/** Changes an allowance, in a batch that fails as stale if it was used or revoked since it was read. */
export function changeAllowance(
  { db, dialect }: Parts,
  { id, used }: AllowanceRow,
  change: Partial<Pick<AllowanceRow, 'used' | 'revoked_at'>>,
): Statement[] {
  const asRead = db
    .selectFrom('allowances')
    .select('id')
    .where('id', '=', id)
    .where('used', '=', used)
    .where('revoked_at', 'is', null)
  return [dialect.lockFound(asRead.compile()), db.updateTable('allowances').set(change).where('id', '=', id).compile()]
}

// --- Retention

/** Deletes what ended before an instant. */
export async function deleteEnded(db: Db, before: number, stopping?: AbortSignal): Promise<void> {
  const floor = uuidV7Floor(before)
  const closed = sql`state not in ('pending', 'approved')`
  await deleteInPortions(
    db,
    'approvals',
    { key: ['id'], where: sql`id < ${floor} and ${closed}`, orderBy: 'id' },
    stopping,
  )
  await inPortions(async (limit) => {
    const gone = sql`select instance_id, attempt from approval_attempts where approval_id < ${floor}
      and not exists (select 1 from approvals where approvals.id = approval_id) order by approval_id limit ${limit}`
    const deletion = sql`delete from approval_attempts where (instance_id, attempt) in (${gone})`
    return Number((await deletion.execute(db)).numAffectedRows)
  }, stopping)
  await deleteInPortions(
    db,
    'allowances',
    { key: ['id'], where: sql`id < ${floor} and expires_at < ${before}`, orderBy: 'id' },
    stopping,
  )
}
