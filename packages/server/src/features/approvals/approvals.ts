import {
  type Allowance,
  type Approval,
  type ApprovalList,
  type ApprovalQuery,
  approvalLimits,
} from '@wardline/contract'
import { isoTime, isoTimeOrNull } from '../../clock.ts'
import type { Db } from '../../db/database.ts'
import type { Deps } from '../../deps.ts'
import { unknownId } from '../../errors.ts'
import type { Principal } from '../../http/auth.ts'
import { pageLimit } from '../../http/page.ts'
import type { StoredRequest } from '../alerts/channels/press-token.ts'
import { eventsGoneBefore } from '../events/retention.ts'
import { readOperatorTagsOf } from '../instances/tag-statements.ts'
import { keyNames } from '../keys/key-names.ts'
import { type AllowanceRow, type ApprovalRow, approversOf, isUsable, mayApprove, stateAt } from './approval-rules.ts'
import { countPending, deleteEnded, findApproval, readAllowances, readApprovals } from './queries.ts'

const defaultPage = '50'

type Reader = Pick<Principal, 'registers' | 'approves' | 'team'>

/** Returns whether the key may decide about an agent, for those of the rows. Tags of heartbeats do not count. */
async function readReach(
  db: Db,
  { approves }: Pick<Principal, 'approves'>,
  rows: readonly { instance_id: string }[],
): Promise<(row: { instance_id: string }) => boolean> {
  if (!approves) return () => true
  const tags = await readOperatorTagsOf(db, [...new Set(rows.map(({ instance_id }) => instance_id))])
  return ({ instance_id }) => mayApprove(approves, tags.get(instance_id))
}

async function views(db: Db, rows: readonly ApprovalRow[], reader: Reader, now: number): Promise<Approval[]> {
  const { owner } = reader.registers
  const reaches = await readReach(db, reader, rows)
  const keys = rows.flatMap((row) => [
    ...approversOf(row).map(([, keyId]) => keyId),
    ...(row.denied_by === null ? [] : [row.denied_by]),
  ])
  const names = keys.length > 0 ? await keyNames.names(db, keys) : new Map<string, string>()
  const operator = (by: string, at: number) => ({ by, by_name: names.get(by) ?? null, at: isoTime(at) })
  return rows.map((row) => ({
    id: row.id,
    instance_id: row.instance_id,
    session_id: row.session_id,
    tool: row.tool,
    args_sha256: row.args_sha256,
    args: row.args,
    policy_id: row.policy_id,
    policy_version: row.policy_version,
    rule: row.rule,
    why: row.why,
    state: stateAt(row, now),
    approvals: row.needed,
    approved_by: approversOf(row).map(([, keyId, at]) => operator(keyId, at)),
    own: approversOf(row).some(([approver]) => approver === owner),
    may_decide: row.asked_by !== owner && reaches(row),
    asked: row.asked,
    requested_at: isoTime(row.requested_at),
    expires_at: isoTime(row.expires_at),
    decided_at: isoTimeOrNull(row.decided_at),
    denied_by: row.denied_by === null ? null : operator(row.denied_by, row.decided_at ?? row.requested_at),
    reason: row.reason,
    granted_at: isoTimeOrNull(row.granted_at),
    allowance_id: row.allowance_id,
  }))
}

export async function viewApproval(
  { database: { db }, clock }: Pick<Deps, 'database' | 'clock'>,
  row: ApprovalRow,
  reader: Reader,
): Promise<Approval> {
  return (await views(db, [row], reader, clock.now()))[0]!
}

/** Finds a request as alerts show it. */
export async function findRequest(
  { database, clock }: Pick<Deps, 'database' | 'clock'>,
  id: string,
): Promise<StoredRequest | undefined> {
  const row = await findApproval(database.db, id)
  return row && { args: row.args, needed: row.needed, isPending: stateAt(row, clock.now()) === 'pending' }
}

/** Throws AppError `not_found`. */
export async function getApproval(
  deps: Pick<Deps, 'database' | 'clock'>,
  id: string,
  reader: Reader,
): Promise<Approval> {
  const row = await findApproval(deps.database.db, id, reader.team)
  if (!row) throw unknownId('approval', id, 'wardline approvals')
  return viewApproval(deps, row, reader)
}

/** Lists a page of approvals, newest first. Throws AppError `invalid`. */
export async function listApprovals(
  { database, clock }: Pick<Deps, 'database' | 'clock'>,
  { state, instance_id: instanceId, before, limit: given }: ApprovalQuery,
  principal: Principal,
): Promise<ApprovalList> {
  const { db } = database
  const now = clock.now()
  const limit = pageLimit(given ?? defaultPage, approvalLimits.page)
  const [rows, pending] = await Promise.all([
    readApprovals(db, { state, instanceId, before, limit: limit + 1, now, team: principal.team }),
    countPending(db, now, principal.team),
  ])
  const page = rows.slice(0, limit)
  return {
    approvals: await views(db, page, principal, now),
    pending,
    next: rows.length > limit ? page.at(-1)!.id : null,
  }
}

function allowanceState(row: AllowanceRow, now: number): Allowance['state'] {
  if (row.revoked_at !== null) return 'revoked'
  if (isUsable(row, now)) return 'active'
  return row.expires_at <= now ? 'expired' : 'used_up'
}

/** Lists allowances, newest first. */
export async function listAllowances(
  { database: { db }, clock }: Pick<Deps, 'database' | 'clock'>,
  reader: Pick<Principal, 'approves' | 'team'>,
): Promise<Allowance[]> {
  const now = clock.now()
  const rows = await readAllowances(db, approvalLimits.allowances, reader.team)
  const names = await keyNames.names(
    db,
    rows.map(({ created_by }) => created_by),
  )
  const reaches = await readReach(db, reader, rows)
  return rows.map((row) => ({
    id: row.id,
    instance_id: row.instance_id,
    tool: row.tool,
    approval_id: row.approval_id,
    by: row.created_by,
    by_name: names.get(row.created_by) ?? null,
    reason: row.reason,
    state: allowanceState(row, now),
    created_at: isoTime(row.created_at),
    expires_at: isoTime(row.expires_at),
    max_calls: row.max_calls,
    used: row.used,
    revoked_at: isoTimeOrNull(row.revoked_at),
    may_revoke: reaches(row),
  }))
}

/** Periodic job: deletes what ended once the events of its time were deleted by retention. */
export async function forgetApprovals(deps: Deps, stopping?: AbortSignal): Promise<void> {
  await deleteEnded(deps.database.db, await eventsGoneBefore(deps), stopping)
}
