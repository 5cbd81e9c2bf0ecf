import { type ApprovalAnswer, type ApprovalState, approvalLimits } from '@wardline/contract'
import { minuteMs } from '../../clock.ts'
import type { Schema } from '../../db/schema.ts'

export type ApprovalRow = Schema['approvals']
export type AllowanceRow = Schema['allowances']

/** The first key in the rotation chain of an operator's key, the key, and when it approved. */
export type Approver = [owner: string, keyId: string, at: number]

export const approversOf = ({ approved_by }: Pick<ApprovalRow, 'approved_by'>): Approver[] => JSON.parse(approved_by)

/** A lost answer is repeated for at least so long after the grant. */
const repeatMs = minuteMs
const takeMs = approvalLimits.takeMinutes * minuteMs

/** Returns the state at this time: rows are closed by a job, and expire by the clock. */
export function stateAt({ state, expires_at }: Pick<ApprovalRow, 'state' | 'expires_at'>, now: number): ApprovalState {
  return (state === 'pending' || state === 'approved') && expires_at <= now ? 'expired' : state
}

export const isUsable = ({ expires_at, revoked_at, used, max_calls }: AllowanceRow, now: number): boolean =>
  revoked_at === null && expires_at > now && used < max_calls

/** Whether a key that approves for these tags decides about an agent with such tags of operators. */
export const mayApprove = (approves: readonly string[], operatorTags: readonly string[] = []): boolean =>
  approves.some((tag) => operatorTags.includes(tag))

/** A call of an agent that asks for an approval. */
export interface Ask extends Pick<ApprovalRow, 'instance_id' | 'session_id' | 'tool' | 'args_sha256' | 'needed'> {
  attempt: string
}

/** What is stored about a call that asks. */
export interface FoundApprovals {
  /** The approval that this attempt waits for or took. */
  own: ApprovalRow | undefined
  /** The newest one of the same call, of any attempt. */
  same: ApprovalRow | undefined
  /** An allowance for the agent and the tool that is in effect. */
  allowance: AllowanceRow | undefined
}

/** What to do for a call that asks. */
export type AskStep =
  | { kind: 'answer'; row: ApprovalRow; state: ApprovalAnswer['state'] }
  /** This attempt takes the approval. With an allowance a person was not needed. */
  | { kind: 'take'; row: ApprovalRow; allowance?: AllowanceRow }
  /** The attempt waits for the request; `state` and `needed` are to be stored. */
  | { kind: 'wait'; row: ApprovalRow; state: 'pending'; needed: 1 | 2; isNew: boolean }
  | { kind: 'request'; allowance?: AllowanceRow }
  /** The attempt belongs to another call. */
  | { kind: 'refuse' }

const isSameCall = (row: ApprovalRow, ask: Ask): boolean =>
  row.instance_id === ask.instance_id &&
  row.session_id === ask.session_id &&
  row.tool === ask.tool &&
  row.args_sha256 === ask.args_sha256

/** Decides on a request that waits, or was approved and not taken. */
function decideOpen(row: ApprovalRow, ask: Ask, { allowance }: FoundApprovals, isNew: boolean): AskStep {
  // A rule that now needs two operators is not satisfied by an approval of one.
  const needed = row.needed === 2 || ask.needed === 2 ? 2 : 1
  if (row.state === 'approved' && approversOf(row).length >= needed) return { kind: 'take', row }
  if (needed === 1 && allowance) return { kind: 'take', row, allowance }
  const isUnchanged = row.state === 'pending' && row.needed === needed
  const isKnown = !isNew || row.asked >= approvalLimits.attempts
  return isUnchanged && isKnown
    ? { kind: 'answer', row, state: 'pending' }
    : { kind: 'wait', row, state: 'pending', needed, isNew }
}

/**
 * Decides on a call that asks, by what is stored: nothing that the agent sends approves anything. `own` and `same` are
 * compared with the call here, so that a wrong query grants nothing.
 */
export function decideAsk(ask: Ask, found: FoundApprovals, now: number): AskStep {
  const { own, same, allowance } = found
  if (own && !isSameCall(own, ask)) return { kind: 'refuse' }
  const state = own && stateAt(own, now)
  if (own && (state === 'denied' || state === 'expired')) return { kind: 'answer', row: own, state }
  if (own?.state === 'granted' && own.attempt === ask.attempt) {
    const isRepeated = now < Math.max(own.expires_at, (own.granted_at ?? 0) + repeatMs)
    return { kind: 'answer', row: own, state: isRepeated ? 'granted' : 'expired' }
  }
  if (own && own.state !== 'granted') return decideOpen(own, ask, found, false)
  // Another attempt took the approval that this one waited for: it is used up.
  if (same && isSameCall(same, ask) && same.expires_at > now) {
    if (same.state === 'denied') return { kind: 'answer', row: same, state: 'denied' }
    if (same.state === 'pending' || same.state === 'approved') return decideOpen(same, ask, found, true)
  }
  return { kind: 'request', ...(ask.needed === 1 && allowance ? { allowance } : {}) }
}

export type DecideStep =
  | { kind: 'approve'; approvers: Approver[]; isComplete: boolean; expiresAt: number }
  | { kind: 'deny' }
  /** It is no longer pending. */
  | { kind: 'over'; state: ApprovalState }
  /** The key asked for it itself. */
  | { kind: 'own request' }
  /** The key approved it already, and another one has to. */
  | { kind: 'second operator' }

/** Decides on an operator's decision. Keys of one rotation chain are one operator, as for resumes that need two. */
export function decide(
  row: ApprovalRow,
  { isApproval, owner, keyId }: { isApproval: boolean; owner: string; keyId: string },
  now: number,
): DecideStep {
  const state = stateAt(row, now)
  if (state !== 'pending') return { kind: 'over', state }
  if (row.asked_by === owner) return { kind: 'own request' }
  if (!isApproval) return { kind: 'deny' }
  const earlier = approversOf(row)
  if (earlier.some(([approver]) => approver === owner)) return { kind: 'second operator' }
  const approvers: Approver[] = [...earlier, [owner, keyId, now]]
  const isComplete = approvers.length >= row.needed
  return {
    kind: 'approve',
    approvers,
    isComplete,
    expiresAt: isComplete ? Math.max(row.expires_at, now + takeMs) : row.expires_at,
  }
}
