import type { Static } from 'typebox'
import { access, define } from './endpoint.ts'
import { EnforcementCounts } from './enforcement.ts'
import { Count, choice, InstanceId, limits, NotBlank, nullable, Pattern, Timestamp, UpTo, Uuid } from './fields.ts'
import { Tag } from './instances.ts'
import { Type } from './type.ts'

const containmentActions = ['suspend', 'resume'] as const
export type ContainmentAction = (typeof containmentActions)[number]

/** How long a request to resume waits for a second operator. */
export const secondOperatorMinutes = 15

export const AgentSelector = Type.Object(
  {
    instances: Type.Optional(
      Type.Array(InstanceId, {
        minItems: 1,
        maxItems: limits.selectedInstances,
        description: 'Exactly these instances',
      }),
    ),
    tags: Type.Optional(
      Type.Array(Tag, {
        minItems: 1,
        maxItems: limits.selectedTags,
        description:
          'Instances that have all of these tags. A resume counts only tags of operators and keys, anything else also those that agents give themselves',
      }),
    ),
    all: Type.Optional(Type.Unsafe<boolean>({ type: 'boolean', const: true, description: 'Every instance' })),
  },
  {
    additionalProperties: false,
    minProperties: 1,
    maxProperties: 1,
    'x-rule': 'must have exactly one of instances, tags and all',
    description: 'Exactly one of instances, tags and all',
  },
)
export type AgentSelector = Static<typeof AgentSelector>

/** Returns the text that `confirm` must repeat, such as `suspend 140 agents`. */
export const confirmText = (action: ContainmentAction, agents: number): string =>
  `${action} ${agents} ${agents === 1 ? 'agent' : 'agents'}`

const NewContainment = Type.Object(
  {
    action: choice(containmentActions),
    selector: AgentSelector,
    reason: NotBlank({ maxLength: limits.reason, description: 'Reason; trimmed, and not blank' }),
    confirm: Type.Optional(
      Type.String({
        maxLength: 40,
        description:
          '`<action> <n> agents` with the number of agents that the selector matches now: for suspend those that are not suspended, or less strongly (until a time, or without the second operator that two_person asks for); for resume those that are suspended. Required unless dry_run',
        examples: ['suspend 140 agents'],
      }),
    ),
    dry_run: Type.Optional(Type.Boolean({ description: 'Answer 200 with the plan and change nothing' })),
    two_person: Type.Optional(
      Type.Boolean({
        description:
          'suspend: a resume of these agents needs a second operator. resume: this one does. See WARDLINE_TWO_PERSON_RESUME',
      }),
    ),
  },
  { additionalProperties: false },
)
export type NewContainment = Static<typeof NewContainment>

const containmentPaths = ['stream', 'poll', 'unknown'] as const
const unreachedReasons = ['offline', 'no_control_stream', 'old_sdk'] as const

const listedIds = (description: string) =>
  Type.Array(InstanceId, { description: `${description}; at most ${limits.listedMembers}` })

/** Result of a dry run: what the containment would do. */
export const ContainmentPlan = Type.Object({
  dry_run: Type.Literal(true),
  action: choice(containmentActions),
  agents: Type.Integer({ minimum: 0, description: 'Agents that the selector matches now' }),
  confirm: Type.String({ description: 'What to send as `confirm`' }),
  second_operator: Type.Boolean({ description: 'Whether a second operator has to confirm' }),
  instances: listedIds('Their ids, in order'),
  paths: Type.Object(
    { stream: Count, poll: Count, unknown: Count },
    {
      description:
        'How many are reached by an open control stream, how many by their next poll, and of how many it is unknown',
    },
  ),
  unreached: Type.Array(
    Type.Object({
      id: InstanceId,
      path: choice(containmentPaths),
      reason: choice(
        unreachedReasons,
        'offline: no heartbeat for 90 seconds; no_control_stream: it learns by its next poll; old_sdk: it never reported a control version, and cannot confirm',
      ),
    }),
    { description: `Agents that are not reached at once, offline first; at most ${limits.listedMembers}` },
  ),
  unreached_counts: Type.Object({ offline: Count, no_control_stream: Count, old_sdk: Count }),
})
export type ContainmentPlan = Static<typeof ContainmentPlan>

/** The team of the operator: `all` and `tags` of a selector are among its agents. */
export const TagsScope = nullable(
  Type.Array(Type.String(), {
    description:
      'Tags to whose agents the operator was limited: the selector is among agents with one of them; null: all agents',
  }),
)

const containmentStates = ['in_progress', 'partial', 'complete', 'failed'] as const
export type ContainmentState = (typeof containmentStates)[number]

const containmentFields = {
  id: Uuid,
  action: choice(containmentActions),
  state: choice(
    containmentStates,
    'in_progress: agents are being changed, or may confirm in time; complete: every agent and every enforcement point confirmed; partial: some agents did not within 35 seconds, or all did and an enforcement point has not; failed: none did. Later confirmations count',
  ),
  reason: Type.String(),
  selector: Type.Object(
    {
      instances: Type.Optional(listedIds('The ids that were named')),
      tags: Type.Optional(Type.Array(Type.String())),
      all: Type.Optional(Type.Boolean()),
    },
    { description: 'As requested' },
  ),
  tags_scope: TagsScope,
  by: Type.String({ description: 'Key id of the operator who requested it' }),
  by_name: nullable(Type.String({ description: 'Name of the key' })),
  confirmed_by: nullable(Type.String({ description: 'Key id of the second operator, where one was needed' })),
  confirmed_by_name: nullable(Type.String({ description: 'Name of that key' })),
  two_person: Type.Boolean({ description: 'Whether a resume of its agents needs a second operator' }),
  requested: Type.Integer({ minimum: 0, description: 'Agents that were selected, and those that joined later' }),
  changed: Type.Integer({ minimum: 0, description: 'Agents that were suspended or resumed until now' }),
  skipped: Type.Integer({
    minimum: 0,
    description: 'Agents that another operator suspended, resumed or deleted before it was their turn',
  }),
  confirmed: Type.Integer({ minimum: 0, description: 'Agents that acknowledged it' }),
  proven: Type.Integer({ minimum: 0, description: 'Agents that are proven silent; 0 for resume' }),
  violated: Type.Integer({ minimum: 0, description: 'Agents active although suspended; 0 for resume' }),
  enforcement: EnforcementCounts,
  missing_count: Type.Integer({ minimum: 0, description: 'Agents that did not acknowledge it' }),
  requested_at: Timestamp,
  changed_at: nullable({ ...Timestamp, description: 'When the last agent was changed; null while that goes on' }),
  completed_at: nullable({
    ...Timestamp,
    description: 'When the last agent or enforcement point confirmed; null unless complete',
  }),
}

const ContainmentSummary = Type.Object(containmentFields)
export type ContainmentSummary = Static<typeof ContainmentSummary>
export const Containment = Type.Object({
  ...containmentFields,
  joined: listedIds('Agents that registered with a key of its agents while it held, and began suspended'),
  missing: listedIds('Agents that did not acknowledge it, or are not changed yet'),
})
export type Containment = Static<typeof Containment>

const ResumeRequestId = Pattern('^[0-9a-f]{64}$', 'must be the id of a request to resume')

/** A resume that waits for a second operator. */
export const ResumeRequest = Type.Object({
  id: nullable({
    ...ResumeRequestId,
    description: 'Of the resume of several agents: for GET /api/resume-requests/:id/instances. Null for one agent',
  }),
  instance_id: nullable({ ...InstanceId, description: 'Null for the resume of several agents' }),
  selector: nullable(containmentFields.selector),
  tags_scope: TagsScope,
  agents: Type.Integer({ minimum: 1, description: 'Agents that were selected when it was requested' }),
  by: Type.String({ description: 'Key id of the operator who requested it' }),
  by_name: nullable(Type.String({ description: 'Name of the key' })),
  own: Type.Boolean({ description: 'Whether the caller requested it, who then cannot confirm it' }),
  requested_at: Timestamp,
  expires_at: Timestamp,
})
export type ResumeRequest = Static<typeof ResumeRequest>

const ContainmentQuery = Type.Object({
  before: Type.Optional({ ...Uuid, description: 'Cursor: `next` of the previous page' }),
  limit: Type.Optional(UpTo(limits.listedMembers, `Rows a page, 1 to ${limits.listedMembers}; default: 20`)),
})
const ContainmentList = Type.Object({
  containments: Type.Array(ContainmentSummary, { description: 'Newest first' }),
  next: nullable(Type.String({ description: 'Pass it as `before` for the next page; null on the last page' })),
  resume_requests: Type.Array(ResumeRequest, { description: 'Resumes that wait for the second operator' }),
})
export type ContainmentList = Static<typeof ContainmentList>

const RequestedMembersQuery = Type.Object({
  after: Type.Optional({ ...InstanceId, description: 'Cursor: `next` of the previous page' }),
  limit: Type.Optional(UpTo(limits.pageSize, `Ids a page, 1 to ${limits.pageSize}; default: 100`)),
})
const RequestedMembers = Type.Object({
  instances: Type.Array(InstanceId, { description: 'In order' }),
  next: nullable({ ...InstanceId, description: 'Pass it as `after` for the next page; null on the last page' }),
})

export const containmentsEndpoints = {
  createContainment: define({
    method: 'POST',
    path: '/api/containments',
    access: access.operators,
    teams: 'agents',
    feature: 'containments',
    summary:
      'Suspend or resume the agents of a selector. It is stored before the first agent is changed, and continues after a crash. 200 with the plan for dry_run',
    body: NewContainment,
    status: 201,
    unchanged: 'The plan of a dry run',
    reply: Type.Unsafe<Containment | ContainmentPlan>(Type.Union([Containment, ContainmentPlan])),
    failures: {
      409: 'confirm is missing or names another number than the selector matches now, nothing is selected, the suspension of a parent holds all that are selected, or a second operator has to confirm; the error says the number, or until when',
    },
  }),
  listContainments: define({
    method: 'GET',
    path: '/api/containments',
    access: access.readers,
    teams: 'agents',
    feature: 'containments',
    summary: 'List containments, newest first, and the resumes that wait for a second operator',
    query: ContainmentQuery,
    status: 200,
    reply: ContainmentList,
  }),
  getContainment: define({
    method: 'GET',
    path: '/api/containments/:id',
    access: access.readers,
    teams: 'agents',
    feature: 'containments',
    summary: 'Get a containment: how many agents confirmed, how many are proven silent, and who is missing',
    params: Type.Object({ id: Uuid }),
    status: 200,
    reply: Containment,
    failures: { 404: 'Unknown containment' },
  }),
  listRequestedMembers: define({
    method: 'GET',
    path: '/api/resume-requests/:id/instances',
    access: access.readers,
    teams: 'agents',
    feature: 'containments',
    summary: 'List all instances of a resume that waits for the second operator',
    params: Type.Object({ id: ResumeRequestId }),
    query: RequestedMembersQuery,
    status: 200,
    reply: RequestedMembers,
    failures: { 404: 'No such request is waiting' },
  }),
}
