import type { Static } from 'typebox'
import { ChannelId } from './alert-channels.ts'
import { access, define } from './endpoint.ts'
import {
  Count,
  choice,
  InstanceId,
  InstanceParams,
  limits,
  NotBlank,
  nullable,
  Ok,
  Pattern,
  Timestamp,
  UpTo,
  Uuid,
} from './fields.ts'
import { Type } from './type.ts'

export const approvalLimits = {
  /** Requests of one agent that wait at the same time. A person who sees more looks for the cause instead of deciding. */
  pendingOfInstance: 50,
  /** The same of all agents: about 25 MiB with their arguments. */
  pending: 5_000,
  /** Requests of one agent within an hour, decided or not: one every four seconds. */
  ofInstanceInHour: 1_000,
  /** Calls that wait for the same request, or took it: a retry every second for the default wait. */
  attempts: 600,
  /** Bytes of the preview of the arguments: what a person reads before a decision. */
  argsBytes: 4096,
  tool: 200,
  rule: 500,
  why: 1000,
  /** Seconds that a request waits, as in policies. */
  minWaitSeconds: 10,
  maxWaitSeconds: 86_400,
  defaultWaitSeconds: 600,
  /** After this many minutes an approved call is no longer what the person saw. */
  takeMinutes: 10,
  /** Minutes and calls of an allowance: a working day, and more calls than a person would read one by one. */
  allowanceMinutes: 480,
  allowanceCalls: 1_000,
  defaultAllowanceCalls: 8,
  /** Allowances in effect at the same time, and listed in one answer. */
  allowances: 500,
  /** Rows of a page with their arguments: 800 KiB. */
  page: 200,
} as const

const Tool = NotBlank({ maxLength: approvalLimits.tool, description: 'Name of the tool' })
const ArgsHash = Pattern('^[0-9a-f]{64}$', 'must be a SHA-256 in lower-case hex', {
  description: 'SHA-256 of the arguments as canonical JSON (RFC 8785), lower-case hex',
})
const Needed = Type.Unsafe<1 | 2>({ enum: [1, 2], description: 'Operators who have to approve' })
const SessionId = Type.String({ minLength: 1, maxLength: limits.sessionId })
const PolicyVersion = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })
const rule = (description: string) => nullable(Type.String({ maxLength: approvalLimits.rule, description }))

const NewApproval = Type.Object(
  {
    attempt: { ...Uuid, description: 'UUID of this call; the same in each repetition of the request' },
    session_id: Type.Optional(SessionId),
    tool: Tool,
    args_sha256: ArgsHash,
    args: Type.Optional(
      Type.String({
        maxLength: approvalLimits.argsBytes,
        description: `The arguments for people, redacted; at most ${approvalLimits.argsBytes} bytes, not part of the binding`,
      }),
    ),
    policy_id: Uuid,
    policy_version: PolicyVersion,
    rule: rule('Title of the rule that asks, or `flow`; null for the default of the policy'),
    why: Type.Optional(Type.String({ maxLength: approvalLimits.why, description: 'Why the rule asks' })),
    approvals: Needed,
    wait_seconds: Type.Integer({
      minimum: approvalLimits.minWaitSeconds,
      maximum: approvalLimits.maxWaitSeconds,
      description: `How long the request waits; default of policies: ${approvalLimits.defaultWaitSeconds}. What the stored policy says of the rule counts instead`,
    }),
  },
  { additionalProperties: false },
)
export type NewApproval = Static<typeof NewApproval>

const answerStates = ['pending', 'granted', 'denied', 'expired'] as const
const ApprovalAnswer = Type.Object({
  id: Uuid,
  state: choice(
    answerStates,
    'pending = waits for operators; granted = this attempt has taken the approval: only it may run the call, once; denied = by an operator, also for later attempts until expires_at; expired = nobody decided in time, or the approval was not taken in time',
  ),
  expires_at: { ...Timestamp, description: 'Until then it waits, or can be taken' },
  reason: nullable(Type.String({ description: 'Reason of the operator' })),
})
export type ApprovalAnswer = Static<typeof ApprovalAnswer>

const approvalStates = ['pending', 'approved', 'granted', 'denied', 'expired'] as const
export type ApprovalState = (typeof approvalStates)[number]

const Decider = Type.Object({
  by: Type.String({ description: 'Key id, or `channel:` and the name of the alert channel whose button was pressed' }),
  by_name: nullable(Type.String({ description: 'Name of the key or channel, also after it was revoked' })),
  at: Timestamp,
})

const Approval = Type.Object({
  id: Uuid,
  instance_id: InstanceId,
  session_id: nullable(Type.String()),
  tool: { ...Tool, description: 'Name of the tool. Text of the agent, as are args and why' },
  args_sha256: ArgsHash,
  args: nullable(Type.String({ description: 'The arguments for people, redacted' })),
  policy_id: Uuid,
  policy_version: PolicyVersion,
  rule: rule('Title of the rule that asked, or `flow`; null for the default of the policy'),
  why: nullable(Type.String()),
  state: choice(
    approvalStates,
    'pending = waits for operators; approved = waits for the agent to take it; granted = taken by one call of the agent; denied; expired = nobody decided, or the agent did not take it in time',
  ),
  approvals: Needed,
  approved_by: Type.Array(Decider, { description: 'Operators who approved; two of them for a rule that needs two' }),
  own: Type.Boolean({ description: 'Whether the caller has approved it already' }),
  may_decide: Type.Boolean({
    description: 'False for a key that asked for it itself, or whose `approves` has no tag of the agent',
  }),
  asked: { ...Count, description: 'Calls of the agent that waited for it' },
  requested_at: Timestamp,
  expires_at: { ...Timestamp, description: 'Until then it waits; once approved, until then the agent can take it' },
  decided_at: nullable(Timestamp),
  denied_by: nullable(Decider),
  reason: nullable(Type.String({ description: 'Reason of the operator who decided' })),
  granted_at: nullable({ ...Timestamp, description: 'When a call of the agent took it' }),
  allowance_id: nullable({
    ...Uuid,
    description: 'The allowance that its approval made, or under which it was granted without a person',
  }),
})
export type Approval = Static<typeof Approval>

const ApprovalQuery = Type.Object({
  state: Type.Optional(choice(['pending', 'decided'], 'pending: those that wait for operators; decided: all others')),
  instance_id: Type.Optional(InstanceId),
  before: Type.Optional({ ...Uuid, description: 'Cursor: `next` of the previous page' }),
  limit: Type.Optional(UpTo(approvalLimits.page, `Approvals a page, 1 to ${approvalLimits.page}; default: 50`)),
})
export type ApprovalQuery = Static<typeof ApprovalQuery>

const ApprovalList = Type.Object({
  approvals: Type.Array(Approval, { description: 'Newest first' }),
  pending: { ...Count, description: 'All requests that wait for operators' },
  next: nullable(Type.String({ description: 'Pass it as `before` for the next page; null on the last page' })),
})
export type ApprovalList = Static<typeof ApprovalList>

const ApprovalDecision = Type.Object(
  {
    decision: choice(['approve', 'deny']),
    reason: Type.Optional(
      NotBlank({ maxLength: limits.reason, description: 'Sent to the agent and stored in the audit log' }),
    ),
    for_minutes: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: approvalLimits.allowanceMinutes,
        description: 'Also makes an allowance: the agent may call this tool without a person for so long',
      }),
    ),
    max_calls: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: approvalLimits.allowanceCalls,
        description: `Calls under the allowance, this one included; default: ${approvalLimits.defaultAllowanceCalls}`,
      }),
    ),
  },
  { additionalProperties: false },
)
export type ApprovalDecision = Static<typeof ApprovalDecision>

const ApprovalPress = Type.Object(
  {
    channel_id: ChannelId,
    decision: choice(['approve', 'deny']),
    token: Pattern('^[A-Za-z0-9_-]{43}$', 'must be the token of a button', {
      description: 'Of the button: valid for this approval, decision and channel',
    }),
  },
  { additionalProperties: false },
)
export type ApprovalPress = Static<typeof ApprovalPress>

const Allowance = Type.Object({
  id: Uuid,
  instance_id: InstanceId,
  tool: Tool,
  approval_id: { ...Uuid, description: 'The approval with which it was made' },
  by: Type.String({ description: 'Key id of the operator' }),
  by_name: nullable(Type.String({ description: 'Name of the key, also after it was revoked' })),
  reason: nullable(Type.String()),
  state: choice(['active', 'used_up', 'expired', 'revoked']),
  created_at: Timestamp,
  expires_at: Timestamp,
  max_calls: Count,
  used: { ...Count, description: 'Calls so far, the one with which it was made included' },
  revoked_at: nullable(Timestamp),
  may_revoke: Type.Boolean({ description: 'False for a key whose `approves` has no tag of the agent' }),
})
export type Allowance = Static<typeof Allowance>

const AllowanceList = Type.Object({
  allowances: Type.Array(Allowance, { description: 'Newest first' }),
})

const IdParams = Type.Object({ id: Uuid })

export const approvalEndpoints = {
  requestApproval: define({
    method: 'POST',
    path: '/api/instances/:instanceId/approvals',
    access: access.agents,
    feature: 'approvals',
    summary:
      'Ask operators to approve a call before it runs; repeat it with the same attempt until it is granted, denied or expired',
    params: InstanceParams,
    body: NewApproval,
    status: 200,
    reply: ApprovalAnswer,
    failures: {
      404: 'Unknown instance',
      409: 'The agent is suspended: nothing is granted before it is resumed; or the attempt belongs to another call',
      429: `Too many requests: at most ${approvalLimits.pendingOfInstance} of an agent and ${approvalLimits.pending} in all may wait, ${approvalLimits.ofInstanceInHour} of an agent may be made in an hour, and it may repeat them 30 times a second; retry after Retry-After seconds`,
    },
  }),
  listApprovals: define({
    method: 'GET',
    path: '/api/approvals',
    access: access.readers,
    teams: 'agents',
    feature: 'approvals',
    summary: 'List calls that agents asked operators to approve, newest first',
    query: ApprovalQuery,
    status: 200,
    reply: ApprovalList,
  }),
  getApproval: define({
    method: 'GET',
    path: '/api/approvals/:id',
    access: access.readers,
    teams: 'agents',
    feature: 'approvals',
    summary: 'Get a call that an agent asked operators to approve',
    params: IdParams,
    status: 200,
    reply: Approval,
    failures: { 404: 'Unknown approval' },
  }),
  decideApproval: define({
    method: 'POST',
    path: '/api/approvals/:id',
    access: access.approvers,
    teams: 'agents',
    feature: 'approvals',
    summary:
      'Approve or deny a call; the key that asked cannot decide, nor one whose `approves` has no tag of the agent',
    params: IdParams,
    body: ApprovalDecision,
    status: 200,
    reply: Approval,
    failures: {
      404: 'Unknown approval',
      409: 'It was decided already, it expired, or this key approved it and another one has to',
    },
  }),
  pressApproval: define({
    method: 'POST',
    path: '/api/approvals/:id/press',
    access: 'open',
    feature: 'approvals',
    summary: 'Decide an approval with a button of an alert, whose token replaces a key',
    params: IdParams,
    body: ApprovalPress,
    status: 200,
    reply: Ok,
    failures: {
      404: 'Unknown approval, channel or token, or the channel no longer has buttons',
      409: 'It was decided already, it expired, or it needs two operators',
      429: 'Too many invalid tokens or keys from this address',
    },
  }),
  listAllowances: define({
    method: 'GET',
    path: '/api/allowances',
    access: access.readers,
    teams: 'agents',
    feature: 'approvals',
    summary: `List allowances, newest first, at most ${approvalLimits.allowances}; ended ones as long as events are kept`,
    status: 200,
    reply: AllowanceList,
  }),
  revokeAllowance: define({
    method: 'DELETE',
    path: '/api/allowances/:id',
    access: access.approvers,
    teams: 'agents',
    feature: 'approvals',
    summary: 'End an allowance: the next call asks again',
    params: IdParams,
    status: 200,
    reply: Ok,
    failures: { 404: 'Unknown allowance', 409: 'It is over already' },
  }),
}
