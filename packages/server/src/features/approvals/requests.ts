import { type ApprovalAnswer, approvalLimits, type NewApproval } from '@wardline/contract'
import { isoTime } from '../../clock.ts'
import type { Statement } from '../../db/database.ts'
import { changeGuarded, type PreparedChange } from '../../db/guarded-change.ts'
import type { Deps } from '../../deps.ts'
import { AppError, unknownInstance } from '../../errors.ts'
import type { Principal } from '../../http/auth.ts'
import { uuidV7 } from '../../ids.ts'
import { createPace, TokenBuckets } from '../../token-bucket.ts'
import type { EventToStore, Ingest } from '../events/ingest.ts'
import { lockInstance, readControl } from '../instances/control-statements.ts'
import type { PolicySets } from '../policies/policy-sets.ts'
import { decidedEvent, requestedEvent } from './approval-events.ts'
import { type AllowanceRow, type ApprovalRow, type Ask, decideAsk } from './approval-rules.ts'
import {
  attemptStatements,
  changeAllowance,
  changeStatements,
  countOfInstance,
  countPending,
  findOfAttempt,
  findOfCall,
  findUsableAllowance,
  guardRequest,
  hasOtherPending,
  insertStatement,
} from './queries.ts'

export interface RequestParts {
  ingest: Pick<Ingest, 'own' | 'prepare'>
  policySets: Pick<PolicySets, 'askOf'>
}

const retryAfterSeconds = 10

/** Requests of one agent: 30 a second, as many as all of its waiting calls send without a control stream, and some more. */
const msPerRequest = 33
const burst = 100
/** Agents whose requests are counted: some 2 MiB. */
const maxPaced = 10_000

/** Returns a function that throws AppError `quota_exceeded` when an agent asks too often: each request is some queries. */
export const createRequestPace = (deps: Pick<Deps, 'clock'>) =>
  createPace(
    deps,
    new TokenBuckets(msPerRequest, burst, maxPaced),
    (id) => new AppError('quota_exceeded', `${id} asks too often: repeat a request every two seconds.`, 1),
  )

const answer = (row: ApprovalRow, state: ApprovalAnswer['state']): ApprovalAnswer => ({
  id: row.id,
  state,
  expires_at: isoTime(row.expires_at),
  reason: row.reason,
})

/** Throws AppError `quota_exceeded` if the agent, or all agents together, have as many requests as they may. */
async function assertRoom({ database: { db } }: Pick<Deps, 'database'>, instanceId: string, now: number) {
  const { pendingOfInstance, pending, ofInstanceInHour } = approvalLimits
  const [own, all] = await Promise.all([countOfInstance(db, instanceId, now), countPending(db, now)])
  const tooMany = (what: string) => new AppError('quota_exceeded', what, retryAfterSeconds)
  if (own.pending >= pendingOfInstance)
    throw tooMany(`${own.pending} requests of ${instanceId} wait for an operator, and no more may: decide them first.`)
  if (own.hour >= ofInstanceInHour)
    throw tooMany(`${instanceId} asked for ${own.hour} approvals within an hour, and no more may be made.`)
  if (all >= pending) throw tooMany(`${all} requests wait for operators, and no more may: decide them first.`)
}

interface Called {
  ask: Ask
  waitMs: number
  /** Title of the policy; undefined if it is not stored. */
  policy: string | undefined
  /** False if the policy has another rule by now, which may need two operators: a person has to look. */
  mayBeAllowed: boolean
  body: NewApproval
  askedBy: string
}

function newRow({ ask, waitMs, body, askedBy }: Called, now: number, allowance?: AllowanceRow): ApprovalRow {
  const { attempt, ...call } = ask
  const granted = allowance
    ? { attempt, granted_at: now, decided_at: now, allowance_id: allowance.id, reason: allowance.reason }
    : { attempt: null, granted_at: null, decided_at: null, allowance_id: null, reason: null }
  return {
    ...call,
    ...granted,
    id: uuidV7(now),
    args: body.args ?? null,
    policy_id: body.policy_id,
    policy_version: body.policy_version,
    rule: body.rule,
    why: body.why ?? null,
    state: allowance ? 'granted' : 'pending',
    approved_by: '[]',
    asked: 1,
    asked_by: askedBy,
    requested_at: now,
    expires_at: now + waitMs,
    denied_by: null,
    version: 0,
  }
}

type Prepared = PreparedChange<ApprovalAnswer>

/** Prepares what a call that asks changes. Throws AppError. */
async function prepare(deps: Deps, { ingest }: RequestParts, called: Called, now: number): Promise<Prepared> {
  const { database } = deps
  const { db } = database
  const { ask } = called
  const control = await readControl(db, ask.instance_id)
  if (!control) throw unknownInstance(ask.instance_id)
  if (control.suspended) {
    throw new AppError('conflict', 'The agent is suspended: nothing is granted before it is resumed.')
  }
  const span = { since: control.registeredAt, now }
  const [own, same, allowance] = await Promise.all([
    findOfAttempt(db, ask),
    findOfCall(db, ask, span),
    called.mayBeAllowed ? findUsableAllowance(db, ask, now) : undefined,
  ])
  const step = decideAsk(ask, { own, same, allowance }, now)
  // A grant fails if the agent is suspended meanwhile; requests of one agent take turns by this lock.
  const lock = lockInstance(database, ask.instance_id, control)
  const stored = (
    row: ApprovalRow,
    { change, event, result }: { change: Statement[]; event?: EventToStore; result?: string },
  ): Prepared => {
    const prepared = event && ingest.prepare([event])
    return {
      statements: [lock, ...change, ...(prepared?.statements ?? [])],
      result: (rowsOf) => {
        prepared?.stored(rowsOf)
        if (result !== undefined) deps.metrics.approvals.inc({ result })
        return answer(row, row.state === 'granted' ? 'granted' : 'pending')
      },
    }
  }
  const attempted = (row: ApprovalRow) => attemptStatements(database, row, ask.attempt, own?.id)
  const use = (used: AllowanceRow | undefined) => (used ? changeAllowance(database, used, { used: used.used + 1 }) : [])

  if (step.kind === 'refuse') {
    throw new AppError('conflict', 'attempt belongs to another call: give each call its own UUID.')
  }
  if (step.kind === 'answer') {
    return { statements: [], result: () => answer(step.row, step.state) }
  }
  if (step.kind === 'wait') {
    const { row, state, needed, isNew } = step
    const changed = { state, needed, asked: row.asked + (isNew ? 1 : 0) }
    const joined = isNew ? attempted(row) : []
    return stored({ ...row, ...changed }, { change: [...changeStatements(database, row, changed), ...joined] })
  }
  if (step.kind === 'take') {
    const { row, allowance: used } = step
    const isLast = used !== undefined && !(await hasOtherPending(db, row, now))
    const byAllowance = used ? { decided_at: now, allowance_id: used.id, reason: used.reason } : {}
    const changed = { state: 'granted' as const, attempt: ask.attempt, granted_at: now, ...byAllowance }
    const after = { ...row, ...changed }
    const taking = [
      ...changeStatements(database, row, changed, used && { isLast, now }),
      ...attempted(row),
      ...use(used),
    ]
    if (!used) return stored(after, { change: taking, result: 'granted' })
    const event = decidedEvent(ingest, after, { decision: 'allowed', keyId: used.created_by, isLast })
    return stored(after, { change: taking, event, result: 'allowed' })
  }
  await assertRoom(deps, ask.instance_id, now)
  const { allowance: used } = step
  const row = newRow(called, now, used)
  const event = used
    ? decidedEvent(ingest, row, { decision: 'allowed', keyId: used.created_by, isLast: false })
    : requestedEvent(ingest, row, called.policy)
  const change = [guardRequest(database, ask, span), insertStatement(database, row), ...attempted(row), ...use(used)]
  return stored(row, { change, event, result: used ? 'allowed' : 'requested' })
}

/**
 * Answers a call that asks for an approval: stores the request, or lets the attempt take what operators approved. The
 * answer follows the commit; an attempt that lost it gets it again. Throws AppError.
 */
export async function requestApproval(
  deps: Deps,
  parts: RequestParts,
  { instanceId, body, principal }: { instanceId: string; body: NewApproval; principal: Principal },
): Promise<ApprovalAnswer> {
  if (body.args !== undefined && Buffer.byteLength(body.args) > approvalLimits.argsBytes) {
    throw new AppError('invalid', `args must have at most ${approvalLimits.argsBytes} bytes.`)
  }
  // An agent cannot lower what the stored policy says.
  const stored = await parts.policySets.askOf(body.policy_id, body.rule)
  const known = stored?.ask
  // Agents decide by the set that they received last, which may be older.
  if (known?.decision === 'deny') {
    throw new AppError('conflict', 'The policy denies this call by now: it cannot be approved.')
  }
  const ask: Ask = {
    attempt: body.attempt,
    instance_id: instanceId,
    session_id: body.session_id ?? null,
    tool: body.tool,
    args_sha256: body.args_sha256,
    needed: known?.approvals ?? body.approvals,
  }
  const waitMs = known?.waitMs ?? body.wait_seconds * 1_000
  const called = {
    ask,
    waitMs,
    policy: stored?.title,
    mayBeAllowed: !stored || known !== undefined,
    body,
    askedBy: principal.registers.owner,
  }
  const now = deps.clock.now()
  return changeGuarded(deps.database, () => prepare(deps, parts, called, now), {})
}
