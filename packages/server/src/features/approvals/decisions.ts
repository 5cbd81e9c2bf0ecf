import { type ApprovalDecision, approvalLimits } from '@wardline/contract'
import { isoTime, minuteMs } from '../../clock.ts'
import type { Statement } from '../../db/database.ts'
import { changeGuarded } from '../../db/guarded-change.ts'
import type { Deps } from '../../deps.ts'
import { AppError, unknownId } from '../../errors.ts'
import type { Principal } from '../../http/auth.ts'
import { uuidV7 } from '../../ids.ts'
import { type Actor, auditStatements } from '../audit/audit.ts'
import type { ProtectionAlerts } from '../audit/protection.ts'
import type { Ingest } from '../events/ingest.ts'
import { lockInstance, readControl } from '../instances/control-statements.ts'
import { lockOperatorTags, readOperatorTagsOf } from '../instances/tag-statements.ts'
import { keyNames } from '../keys/key-names.ts'
import { decidedEvent, type Outcome } from './approval-events.ts'
import {
  type AllowanceRow,
  type ApprovalRow,
  approversOf,
  decide,
  isUsable,
  mayApprove,
  stateAt,
} from './approval-rules.ts'
import {
  allowanceStatement,
  changeAllowance,
  changeStatements,
  countAllowances,
  findAllowance,
  findApproval,
  hasOtherPending,
  readExpired,
  readPendingOfTool,
} from './queries.ts'

export interface DecisionParts {
  ingest: Pick<Ingest, 'own' | 'prepare'>
  protectionAlerts: ProtectionAlerts
}

interface Deciding {
  principal: Pick<Principal, 'keyId' | 'approves' | 'team'> & { registers: Pick<Principal['registers'], 'owner'> }
  actor: Actor
  /** The alert channel whose button was pressed, for the audit log; undefined for a key. */
  pressed?: { channel_id: string; telegram_user?: string }
}

/**
 * Returns what keeps the tags that let the key decide about this agent until the commit. Tags of heartbeats do not
 * count. Throws AppError `forbidden`, or `unknown` for an agent that is not of the caller's team.
 */
async function holdApprover(
  { database }: Pick<Deps, 'database'>,
  { approves, team }: Pick<Principal, 'approves' | 'team'>,
  instanceId: string,
  unknown: AppError,
): Promise<Statement[]> {
  if (!approves && !team) return []
  const tags = (await readOperatorTagsOf(database.db, [instanceId])).get(instanceId) ?? []
  if (team && !mayApprove(team, tags)) throw unknown
  if (!approves || mayApprove(approves, tags)) return [lockOperatorTags(database, instanceId, tags)]
  throw new AppError(
    'forbidden',
    `This key decides only for agents that operators or keys tagged ${approves.join(' or ')}: another operator has to decide.`,
  )
}

/** Throws AppError `invalid` for an allowance that may not be made. */
function assertAllowance(row: ApprovalRow | undefined, { decision, for_minutes, max_calls }: ApprovalDecision): void {
  if (for_minutes === undefined) {
    if (max_calls === undefined) return
    throw new AppError('invalid', 'max_calls needs for_minutes: it bounds the allowance that for_minutes makes.')
  }
  if (decision === 'deny') throw new AppError('invalid', 'for_minutes must not be given with deny.')
  if (row?.needed === 2) {
    throw new AppError('invalid', 'for_minutes must not be given: the rule needs two operators for each call.')
  }
}

async function nameOf({ database }: Pick<Deps, 'database'>, keyId: string | undefined): Promise<string> {
  if (keyId === undefined) return 'an operator'
  return (await keyNames.names(database.db, [keyId])).get(keyId) ?? keyId
}

/** Says why a request cannot be decided any more. */
async function overText(deps: Pick<Deps, 'database'>, row: ApprovalRow, now: number): Promise<string> {
  const state = stateAt(row, now)
  if (state === 'expired')
    return `The approval ${row.id} expired at ${isoTime(row.expires_at)}: the agent has to ask again.`
  if (row.denied_by !== null) return `The approval ${row.id} was denied by ${await nameOf(deps, row.denied_by)}.`
  const [, keyId] = approversOf(row).at(-1) ?? []
  if (keyId === undefined) return `The approval ${row.id} was granted under the allowance ${row.allowance_id}.`
  return `The approval ${row.id} was approved by ${await nameOf(deps, keyId)}.`
}

const shownOf = ({ instance_id, tool, args_sha256, rule, policy_id, policy_version, state }: ApprovalRow) => ({
  state,
  instance_id,
  tool,
  args_sha256,
  rule,
  policy_id,
  policy_version,
})

/** Statements and outcome of a decision; the outcome is undefined while another operator has to approve. */
interface Decided {
  statements: Statement[]
  outcome: Outcome['decision'] | undefined
  stored(rowsOf: Parameters<ReturnType<Ingest['prepare']>['stored']>[0]): void
  row: ApprovalRow
  allowance: AllowanceRow | undefined
}

async function prepareDecision(
  deps: Deps,
  { ingest, protectionAlerts }: DecisionParts,
  row: ApprovalRow,
  body: ApprovalDecision,
  { principal, actor, pressed }: Deciding,
  now: number,
): Promise<Decided> {
  const { database } = deps
  const { owner } = principal.registers
  const step = decide(row, { isApproval: body.decision === 'approve', owner, keyId: principal.keyId }, now)
  if (step.kind === 'over') throw new AppError('conflict', await overText(deps, row, now))
  if (step.kind === 'own request') {
    throw new AppError('forbidden', 'This key asked for the approval: another operator has to decide.')
  }
  if (step.kind === 'second operator') {
    throw new AppError(
      'second_operator_required',
      'This key approved the call: an operator with another key has to approve it too.',
    )
  }
  // Buttons know no person, so a channel is never one of two operators.
  if (pressed && row.needed === 2) {
    throw new AppError(
      'second_operator_required',
      'The rule needs two operators with a key: decide in the dashboard or with "wardline approvals".',
    )
  }
  const reason = body.reason?.trim() ?? null
  const isApproval = step.kind === 'approve'
  const outcome = !isApproval ? ('denied' as const) : step.isComplete ? ('approved' as const) : undefined
  const allowance = outcome === 'approved' ? newAllowance(row, body, actor, now) : undefined
  if (allowance && (await countAllowances(database.db, now)) >= approvalLimits.allowances) {
    throw new AppError('conflict', `${approvalLimits.allowances} allowances are in effect: revoke some first.`)
  }
  const change: Partial<ApprovalRow> = {
    ...(isApproval
      ? { approved_by: JSON.stringify(step.approvers), expires_at: step.expiresAt }
      : { denied_by: actor.keyId }),
    ...(outcome === undefined ? {} : { state: outcome, decided_at: now }),
    ...(reason === null ? {} : { reason }),
    ...(allowance ? { allowance_id: allowance.id } : {}),
  }
  const after = { ...row, ...change }
  const isLast = outcome !== undefined && !(await hasOtherPending(database.db, row, now))
  const events =
    outcome === undefined ? [] : [decidedEvent(ingest, after, { decision: outcome, keyId: actor.keyId, isLast })]
  const prepared = events.length > 0 ? ingest.prepare(events) : undefined
  const given = reason === null ? {} : { reason }
  const action = {
    action: `approval.${body.decision}`,
    target: row.id,
    before: shownOf(row),
    after: {
      state: after.state,
      ...(isApproval ? { approvals: `${step.approvers.length} of ${row.needed}` } : {}),
      ...pressed,
    },
    ...given,
  }
  const allowing = allowance && {
    action: 'allowance.create',
    target: allowance.id,
    before: null,
    after: {
      instance_id: row.instance_id,
      tool: row.tool,
      max_calls: allowance.max_calls,
      expires_at: isoTime(allowance.expires_at),
      approval_id: row.id,
    },
    ...given,
  }
  const isRegistered = (await readControl(database.db, row.instance_id)) !== undefined
  return {
    outcome,
    row: after,
    allowance,
    statements: [
      ...(isRegistered ? [lockInstance(database, row.instance_id)] : []),
      ...changeStatements(database, row, change, outcome === undefined ? undefined : { isLast, now }),
      ...(allowance ? [allowanceStatement(database, allowance)] : []),
      ...(prepared?.statements ?? []),
      ...(allowing ? protectionAlerts.statements(actor, allowing, now) : []),
      ...auditStatements(database, actor, action, now),
      ...(allowing ? auditStatements(database, actor, allowing, now) : []),
    ],
    stored: (rowsOf) => prepared?.stored(rowsOf),
  }
}

function newAllowance(row: ApprovalRow, body: ApprovalDecision, actor: Actor, now: number): AllowanceRow | undefined {
  if (body.for_minutes === undefined) return undefined
  return {
    id: uuidV7(now),
    instance_id: row.instance_id,
    tool: row.tool,
    approval_id: row.id,
    created_by: actor.keyId,
    reason: body.reason?.trim() ?? null,
    created_at: now,
    expires_at: now + body.for_minutes * minuteMs,
    max_calls: body.max_calls ?? approvalLimits.defaultAllowanceCalls,
    used: 1,
    revoked_at: null,
  }
}

/**
 * Approves or denies a call, and notifies the agent's streams after the commit. Of two operators at the same time one
 * decides. Throws AppError `not_found`, `conflict`, `second_operator_required`, `forbidden` or `invalid`.
 */
export async function decideApproval(
  deps: Deps,
  parts: DecisionParts,
  id: string,
  body: ApprovalDecision,
  deciding: Deciding,
): Promise<ApprovalRow> {
  const { database, bus, clock, log, metrics } = deps
  const now = clock.now()
  const { row, outcome, allowance } = await changeGuarded(database, async () => {
    const found = await findApproval(database.db, id)
    const unknown = unknownId('approval', id, 'wardline approvals')
    if (!found) throw unknown
    const hold = await holdApprover(deps, deciding.principal, found.instance_id, unknown)
    assertAllowance(found, body)
    const decided = await prepareDecision(deps, parts, found, body, deciding, now)
    return {
      statements: [...hold, ...decided.statements],
      result: (rowsOf) => {
        decided.stored(rowsOf)
        return decided
      },
    }
  })
  if (outcome === undefined) return row
  metrics.approvals.inc({ result: outcome })
  const state = outcome === 'denied' ? 'denied' : 'approved'
  bus.publishNotice({ action: 'approval', instance_id: row.instance_id, id, state })
  log.info({ approval: id, instance: row.instance_id, state, actor: deciding.actor.keyId }, 'approval decided')
  if (!allowance) return row
  // Other calls of the tool that wait can be granted under the allowance now.
  for (const other of await readPendingOfTool(database.db, row, now)) {
    bus.publishNotice({ action: 'approval', instance_id: row.instance_id, id: other, state: 'approved' })
  }
  return row
}

/** Ends an allowance. Throws AppError `not_found`, `forbidden`, or `conflict` if it is over. */
export async function revokeAllowance(
  deps: Deps,
  id: string,
  { principal, actor }: { principal: Pick<Principal, 'approves' | 'team'>; actor: Actor },
): Promise<void> {
  const { database, clock } = deps
  const now = clock.now()
  await changeGuarded(database, async () => {
    const row = await findAllowance(database.db, id)
    const unknown = unknownId('allowance', id, 'wardline approvals allowances')
    if (!row) throw unknown
    const hold = await holdApprover(deps, principal, row.instance_id, unknown)
    if (!isUsable(row, now)) throw new AppError('conflict', `The allowance ${id} is over already.`)
    const before = { instance_id: row.instance_id, tool: row.tool, used: row.used, max_calls: row.max_calls }
    const action = { action: 'allowance.revoke', target: id, before, after: null }
    return {
      statements: [
        ...hold,
        ...changeAllowance(database, row, { revoked_at: now }),
        ...auditStatements(database, actor, action, now),
      ],
      result: () => undefined,
    }
  })
}

/** Requests closed in one run of the job; the next run continues. */
const closedAtOnce = 100

/** Periodic job: closes requests that expired, which are read as expired already. Several processes may run it. */
export async function closeExpired(
  { database, clock, metrics }: Pick<Deps, 'database' | 'clock' | 'metrics'>,
  { ingest }: Pick<DecisionParts, 'ingest'>,
): Promise<void> {
  const now = clock.now()
  for (const { id } of await readExpired(database.db, now, closedAtOnce)) {
    await changeGuarded(database, async () => {
      const row = await findApproval(database.db, id)
      if (!row || (row.state !== 'pending' && row.state !== 'approved') || row.expires_at > now) {
        return { statements: [], result: () => undefined }
      }
      const change = { state: 'expired' as const }
      if (row.state === 'approved') {
        return { statements: changeStatements(database, row, change), result: () => undefined }
      }
      const isLast = !(await hasOtherPending(database.db, row, now))
      const { statements, stored } = ingest.prepare([
        decidedEvent(ingest, row, { decision: 'expired', keyId: null, isLast }),
      ])
      const isRegistered = (await readControl(database.db, row.instance_id)) !== undefined
      return {
        statements: [
          ...(isRegistered ? [lockInstance(database, row.instance_id)] : []),
          ...changeStatements(database, row, { ...change, decided_at: now }, { isLast, now }),
          ...statements,
        ],
        result: (rowsOf) => {
          stored(rowsOf)
          metrics.approvals.inc({ result: 'expired' })
        },
      }
    })
  }
}
