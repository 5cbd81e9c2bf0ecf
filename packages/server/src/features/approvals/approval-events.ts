import { eventTypes } from '@wardline/contract'
import type { EventToStore, Ingest } from '../events/ingest.ts'
import type { ApprovalRow } from './approval-rules.ts'

type Own = Pick<Ingest, 'own'>

const factsOf = (row: ApprovalRow) => ({
  approval_id: row.id,
  tool: row.tool,
  rule: row.rule,
  policy_id: row.policy_id,
  policy_version: row.policy_version,
})

const aboutCall = ({ instance_id, session_id }: ApprovalRow) => ({
  instance_id,
  ...(session_id === null ? {} : { session_id }),
})

const ruleText = ({ rule }: ApprovalRow): string => (rule === null ? 'the policy' : `the rule "${rule}"`)

/** Its id is that of the approval, so that its alert leads there. `policy`: its title, if it is stored. */
export function requestedEvent({ own }: Own, row: ApprovalRow, policy: string | undefined): EventToStore {
  const operators = row.needed === 2 ? 'two operators' : 'an operator'
  const event = own({
    ...aboutCall(row),
    severity: 'warning',
    event_type: eventTypes.approvalRequested,
    description: `Asks ${operators} to approve a call of ${row.tool}, by ${ruleText(row)}`,
    metadata: {
      ...factsOf(row),
      ...(policy === undefined ? {} : { policy }),
      approvals: row.needed,
      ...(row.why === null ? {} : { why: row.why }),
    },
  })
  return { ...event, id: row.id }
}

export interface Outcome {
  decision: 'approved' | 'denied' | 'expired' | 'allowed'
  /** Key of the operator; null for none. */
  keyId: string | null
  /** Whether the agent has no other request that waits: its alerts are over. */
  isLast: boolean
}

const outcomes: Record<Outcome['decision'], string> = {
  approved: 'Approved',
  denied: 'Denied',
  expired: 'Expired',
  allowed: 'Allowed for a time, without asking again',
}

export function decidedEvent({ own }: Own, row: ApprovalRow, { decision, keyId, isLast }: Outcome): EventToStore {
  const event = own({
    ...aboutCall(row),
    severity: 'info',
    event_type: eventTypes.approvalDecided,
    description: `${outcomes[decision]}: a call of ${row.tool}, by ${ruleText(row)}`,
    metadata: {
      ...factsOf(row),
      decision,
      ...(keyId === null ? {} : { key_id: keyId }),
      ...(row.allowance_id === null ? {} : { allowance_id: row.allowance_id }),
    },
  })
  // An alert of this type ends the problem of the agent, which lasts while another request waits.
  return isLast ? event : { ...event, alerting: { isQuiet: true } }
}
