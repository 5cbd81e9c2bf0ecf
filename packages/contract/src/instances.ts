import type { Static } from 'typebox'
import { ServerName } from './agent-configs.ts'
import { AgentNote } from './agent-notes.ts'
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
} from './fields.ts'
import { policyHeader, policyHeaderText } from './policies.ts'
import { SupervisorState, supervisorHeader, supervisorHeaderText } from './supervisors.ts'
import { CurrentSuspension } from './suspensions.ts'
import { Type } from './type.ts'

export const instanceStatuses = ['active', 'suspended', 'offline'] as const
export type InstanceStatus = (typeof instanceStatuses)[number]

/** Seconds between an agent's heartbeats. */
export const heartbeatIntervalSeconds = 60
/** An instance without a heartbeat for longer than this is offline. */
export const offlineAfterMs = 90_000

/** Header of heartbeat and poll responses: `none` while no decoy can trip for this caller, else `some`. */
export const decoysHeader = 'x-wardline-decoys'

export const Tag = Pattern('^[a-z0-9_.:-]+$', 'may contain only lower-case letters, digits, _ . : and -', {
  maxLength: limits.tag,
  description: 'Lower-case letters, digits, _ . : and -',
  examples: ['env:production'],
})
export const Tags = (description: string) => Type.Array(Tag, { maxItems: limits.tags, description })

/** By what an agent is heard: its clients, and what sees it from outside. */
export const witnesses = ['sdk', 'hook', 'mcp', 'supervisor', 'gateway', 'otlp'] as const
export type Witness = (typeof witnesses)[number]
/** Which witness does not report calls; `client`: neither a hook nor an SDK is heard, although policies apply. */
const missingWitnesses = ['hook', 'sdk', 'client', 'otlp'] as const
export type MissingWitness = (typeof missingWitnesses)[number]
const witness = (description?: string) => choice(witnesses, description)

export const Heartbeat = Type.Object({
  instance_id: InstanceId,
  name: NotBlank({ minLength: 1, maxLength: limits.name, description: 'Display name' }),
  agent_type: Type.Optional(Type.String({ maxLength: 100 })),
  version: Type.Optional(Type.String({ maxLength: 100, description: 'Version of the agent' })),
  control_version: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: Number.MAX_SAFE_INTEGER,
      description: 'Control version that the agent has applied',
    }),
  ),
  fail_mode: Type.Optional(choice(['open', 'closed'])),
  boot_id: Type.Optional(Type.String({ maxLength: 100, description: 'New each time the agent starts' })),
  tags: Type.Optional(Tags('Replace the tags that the agent gave itself before; absent: they stay')),
  leaving: Type.Optional(
    Type.Boolean({
      description: 'The last heartbeat of an agent that ends: its silence is not reported as `instance_offline`',
    }),
  ),
  supervisor: Type.Optional(SupervisorState),
  parent_instance_id: Type.Optional({
    ...InstanceId,
    description:
      'The agent that started this one: while it is suspended, so is this one. Set once; later heartbeats cannot change it',
  }),
})
export type Heartbeat = Static<typeof Heartbeat>

export const InstanceView = Type.Object({
  id: InstanceId,
  name: Type.String(),
  status: choice(instanceStatuses),
  last_heartbeat: Timestamp,
  secondsAgo: Type.Integer(),
  suspension_reason: nullable(Type.String()),
})
export type InstanceView = Static<typeof InstanceView>

/** Recent activity of an instance. Each list has one number per bucket, oldest first; the last bucket is still open. */
export const InstanceHistory = Type.Object({
  from: { ...Timestamp, description: 'Start of the first bucket' },
  bucket_seconds: Type.Integer({ minimum: 1 }),
  heartbeats: Type.Array(Count),
  expected: Type.Array(Count, {
    description: `Heartbeats that an agent sends at the recommended interval of ${heartbeatIntervalSeconds} seconds; 0 before the instance was registered, and where they may not be counted yet`,
  }),
  events: Type.Array(Count, { description: 'Events that name the instance, tool calls among them' }),
  tool_calls: Type.Array(Count),
})
export type InstanceHistory = Static<typeof InstanceHistory>

const InstanceHistoryReply = Type.Object({ id: InstanceId, ...InstanceHistory.properties })

/** The last kill or resume of an instance, and what its agent reported about it. */
const ControlConfirmation = Type.Object({
  version: Type.Integer({ minimum: 0 }),
  changed_at: nullable(Timestamp),
  applied_version: nullable(Type.Integer()),
  applied_at: nullable(Timestamp),
  confirmed: Type.Boolean({ description: 'The agent acknowledged the current version' }),
  claimed_version: nullable(
    Type.Integer({ description: 'A version above `version` that the agent acknowledged although it was never issued' }),
  ),
  mismatch: Type.Boolean({ description: 'The agent is ahead: it may ignore messages until the next kill or resume' }),
})
export type ControlConfirmation = Static<typeof ControlConfirmation>

const failMode = nullable(choice(['open', 'closed']))
const agentVersion = nullable(Type.String({ description: 'As the agent reports it' }))

const Silent = Type.Boolean({
  description:
    'Its silence exceeds what is usual for it and was reported as `instance_offline`; false after a goodbye (`leaving`)',
})

const LastProven = {
  ...Timestamp,
  description:
    'When its agent last answered a drill, or acknowledged a suspension, by `ack` or heartbeat: then a suspension would have reached it',
}
const InstanceSuspension = nullable({ ...CurrentSuspension, description: 'Null while it is not suspended' })

const OperatorTags = Type.Array(Type.String(), {
  description: 'What operators set, and what the key of the first registration gave; no agent can change them',
})

const enforcingLevers = ['process', 'model', 'enforcement'] as const
export type EnforcingLever = (typeof enforcingLevers)[number]
/** In lists of instances. */
const EnforcingLevers = Type.Optional(
  Type.Array(choice(enforcingLevers), {
    description:
      'What stops the agent without its cooperation, of `levers` in GET /api/instances/:instanceId; absent = a suspension can only ask it to stop',
  }),
)

const heardByText =
  'By what the agent is heard: sdk = a client in the agent, hook = the hook of a coding agent, mcp = the proxy of a tool server, supervisor, gateway = its calls of models, otlp = telemetry; those of the last 30 days'
const HeardBy = Type.Array(witness(), { description: heardByText })

export const FleetInstance = Type.Object({
  ...InstanceView.properties,
  tags: Type.Array(Type.String(), { description: 'Tags of the agent and of operators together, sorted' }),
  operator_tags: OperatorTags,
  version: agentVersion,
  fail_mode: failMode,
  silent: Silent,
  control: ControlConfirmation,
  last_proven_stoppable_at: nullable(LastProven),
  suspension: InstanceSuspension,
  enforcing_levers: EnforcingLevers,
  heard_by: HeardBy,
  history: Type.Optional(InstanceHistory),
})
export type FleetInstance = Static<typeof FleetInstance>

export const InstanceQuery = Type.Object({
  status: Type.Optional(choice(instanceStatuses)),
  tag: Type.Optional({ ...Tag, description: 'Only instances with this tag, set by the agent or by operators' }),
  witness: Type.Optional(witness('Only instances that are heard by this')),
  server: Type.Optional({ ...ServerName, description: 'Only instances whose configuration names this tool server' }),
  parent: Type.Optional({ ...InstanceId, description: 'Only instances that name this one as their parent' }),
  prefix: Type.Optional({ ...InstanceId, description: 'Prefix of the id' }),
  ids: Type.Optional(
    Pattern('^[a-z0-9_-]+(,[a-z0-9_-]+)*$', 'must be ids of instances, separated by commas', {
      maxLength: limits.listedIds * (limits.instanceId + 1),
      description: `Only these instances, at most ${limits.listedIds}, separated by commas; unknown ones are left out`,
    }),
  ),
  after: Type.Optional({ ...InstanceId, description: 'Cursor: `next` of the previous page' }),
  include: Type.Optional(
    choice(
      ['history', 'hour'],
      `Adds what each instance did. history: the last 24 hours by the half hour; hour: the last hour by five minutes. Pages of at most ${limits.historyPage}`,
    ),
  ),
  limit: Type.Optional(UpTo(limits.pageSize, `Rows a page, 1 to ${limits.pageSize}; default: 100`)),
})
export type InstanceQuery = Static<typeof InstanceQuery>

export const InstanceList = Type.Object({
  instances: Type.Array(FleetInstance),
  next: nullable(Type.String({ description: 'Pass it as `after` for the next page; null on the last page' })),
})
export type InstanceList = Static<typeof InstanceList>

const { claimed_version: _claimed, mismatch: _mismatch, ...sharedControl } = ControlConfirmation.properties
/** An instance in dashboards: the fields of `getInstance` without those that only the agent's page needs. */
export const SharedFleetInstance = Type.Object({
  ...InstanceView.properties,
  tags: Type.Array(Type.String(), { description: 'Tags of the agent and of operators together, sorted' }),
  operator_tags: OperatorTags,
  version: agentVersion,
  fail_mode: failMode,
  silent: Type.Optional({ ...Silent, description: 'Absent = false' }),
  suspension: InstanceSuspension,
  control: Type.Optional({
    ...Type.Object(sharedControl),
    description: 'Absent while the instance was never suspended and its agent never reported a control version',
  }),
  last_proven_stoppable_at: Type.Optional(
    nullable({ ...LastProven, description: `${LastProven.description}; absent = never` }),
  ),
  enforcing_levers: EnforcingLevers,
  heard_by: Type.Optional({ ...HeardBy, description: `${heardByText}; absent = none` }),
})
const InstanceTags = Type.Object({ tags: Tags('Replace the tags that operators set before') })
export type InstanceTags = Static<typeof InstanceTags>
const InstanceTagsSet = Type.Object({
  ok: Type.Literal(true),
  id: InstanceId,
  tags: Type.Array(Type.String(), { description: 'Tags of the agent and of operators together, sorted' }),
})

const InstanceDeleted = Type.Object({ ok: Type.Literal(true), id: InstanceId })

/** Adds to the fleet view what the agent reports about itself, and whether it confirmed the last kill or resume. */
export const InstanceDetail = Type.Object({
  id: InstanceId,
  name: Type.String(),
  agent_type: nullable(Type.String()),
  version: agentVersion,
  fail_mode: failMode,
  tags: Type.Array(Type.String(), { description: 'Tags of the agent and of operators together, sorted' }),
  agent_tags: Type.Array(Type.String(), { description: 'What the agent reports about itself in its heartbeats' }),
  operator_tags: OperatorTags,
  status: choice(instanceStatuses),
  first_seen: Timestamp,
  last_heartbeat: Timestamp,
  silent: Silent,
  left_at: nullable({ ...Timestamp, description: 'When the agent said goodbye with its last heartbeat' }),
  suspension_reason: nullable(Type.String()),
  control: ControlConfirmation,
  last_proven_stoppable_at: nullable(LastProven),
  suspension: InstanceSuspension,
  heard_by: HeardBy,
  parent_instance_id: nullable({ ...InstanceId, description: 'The agent that started it, as its agent reported' }),
  children: { ...Count, description: 'Instances that name it as their parent' },
  descendants: { ...Count, description: 'Its children and theirs, which its suspension stops' },
  witnesses: Type.Array(
    Type.Object({
      witness: witness(),
      since: { ...Timestamp, description: 'When it was first heard' },
      last_at: { ...Timestamp, description: 'When it was last heard, to about a minute' },
    }),
    { description: 'Since when each of `heard_by` is heard' },
  ),
})
export type InstanceDetail = Static<typeof InstanceDetail>

const leverKinds = [...enforcingLevers, 'control_stream', 'poll'] as const
export type LeverKind = (typeof leverKinds)[number]

const Lever = Type.Object({
  kind: choice(
    leverKinds,
    'process = its supervisor freezes or ends it; model = the gateway refuses and cuts its calls of models; enforcement = enforcement points of the operator; control_stream, poll = it is asked to stop, and has to obey',
  ),
  last_proven_at: nullable({
    ...Timestamp,
    description:
      'When it last worked: the suspension was enforced, confirmed by a point or delivered that way, or a drill was answered, for process by the supervisor, for model by a gateway; null = not since the oldest stored suspension',
  }),
})
export type Lever = Static<typeof Lever>

const Mismatch = Type.Object({
  missing: choice(
    missingWitnesses,
    'The witness that does not report them; client = no hook or SDK is heard at all, although policies apply',
  ),
  severity: choice(['warning', 'critical']),
  since: { ...Timestamp, description: 'When the first of them was received' },
  calls: { ...Count, description: 'To about a minute' },
  tools: Type.Array(Type.String(), { description: 'Their tools' }),
})
export type Mismatch = Static<typeof Mismatch>

const InstanceReply = Type.Object({
  ...InstanceDetail.properties,
  mismatches: Type.Array(Mismatch, {
    description: 'Calls that only one witness reports, while that lasts',
  }),
  levers: Type.Array(Lever, {
    description: 'What a suspension reaches now, the strongest first; none if only telemetry is heard of it',
  }),
  note: AgentNote,
})

export const instanceEndpoints = {
  sendHeartbeat: define({
    method: 'POST',
    path: '/api/heartbeat',
    access: access.agents,
    feature: 'instances',
    summary: 'Register or refresh an instance',
    body: Heartbeat,
    status: 200,
    replyHeaders: {
      [decoysHeader]: '`none` while no decoy could match for this caller, so checks are unnecessary; else `some`',
      [policyHeader]: policyHeaderText,
      [supervisorHeader]: supervisorHeaderText,
    },
    reply: Ok,
    failures: {
      403: 'A new instance beyond WARDLINE_MAX_INSTANCES, or beyond max_instances of the key',
      429: 'Too many new instances within an hour; retry after Retry-After seconds',
    },
  }),
  listInstances: define({
    method: 'GET',
    path: '/api/instances',
    access: access.readers,
    teams: 'agents',
    feature: 'instances',
    summary: 'List all instances by id, in pages',
    query: InstanceQuery,
    status: 200,
    reply: InstanceList,
  }),
  setInstanceTags: define({
    method: 'PUT',
    path: '/api/instances/:instanceId/tags',
    access: access.operators,
    teams: 'refused',
    feature: 'instances',
    summary: 'Replace the tags that operators set; those that the agent gives itself stay',
    params: InstanceParams,
    body: InstanceTags,
    status: 200,
    reply: InstanceTagsSet,
    failures: { 404: 'Unknown instance' },
  }),
  deleteInstance: define({
    method: 'DELETE',
    path: '/api/instances/:instanceId',
    access: access.admins,
    feature: 'instances',
    summary: 'Delete an instance that is not suspended; its events are kept, and a heartbeat registers it again',
    params: InstanceParams,
    status: 200,
    reply: InstanceDeleted,
    failures: { 404: 'Unknown instance', 409: 'It has a parent, with which its children would no longer stop' },
  }),
  getInstance: define({
    method: 'GET',
    path: '/api/instances/:instanceId',
    access: access.readers,
    teams: 'agent',
    feature: 'instances',
    summary: 'Get an instance, and whether its agent confirmed the last kill or resume',
    params: InstanceParams,
    status: 200,
    reply: InstanceReply,
    failures: { 404: 'Unknown instance' },
  }),
  getInstanceHistory: define({
    method: 'GET',
    path: '/api/instances/:instanceId/history',
    access: access.readers,
    teams: 'agent',
    feature: 'instances',
    summary: 'Get the heartbeats, events and tool calls of an instance in the last 24 hours, by five minutes',
    params: InstanceParams,
    status: 200,
    reply: InstanceHistoryReply,
    failures: { 404: 'Unknown instance' },
  }),
}
