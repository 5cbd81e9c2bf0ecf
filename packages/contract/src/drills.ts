import type { Static } from 'typebox'
import { AgentSelector, TagsScope } from './containments.ts'
import { access, define } from './endpoint.ts'
import {
  Count,
  choice,
  InstanceId,
  InstanceParams,
  limits,
  nullable,
  Ok,
  Pattern,
  Timestamp,
  UpTo,
  Uuid,
} from './fields.ts'
import { SupervisorReach, supervisorHeader, supervisorHeaderText } from './supervisors.ts'
import { Type } from './type.ts'

const Nonce = Pattern('^[A-Za-z0-9_-]+$', 'may contain only letters, digits, _ and -', {
  maxLength: 64,
  description: 'The nonce of the drill that came over the control stream',
})

/** Sent only on GET /api/instances/:instanceId/control?understands=drill, not on any other stream or channel. */
export const DrillMessage = Type.Object({
  action: Type.Literal('drill'),
  instance_id: InstanceId,
  nonce: Nonce,
  issued_at: Timestamp,
  signature_ed25519: Type.String({
    description:
      'Ed25519 (RFC 8032), base64url, by the key of /.well-known/wardline-keys.json, over the line `wardline-drill-v1` and instance_id, nonce and issued_at, each followed by a line feed',
  }),
})
export type DrillMessage = Static<typeof DrillMessage>

const DrillAnswer = Type.Object({ nonce: Nonce, supervisor: Type.Optional(SupervisorReach) })

const NewDrill = Type.Object({ selector: AgentSelector }, { additionalProperties: false })

const drillMissingReasons = ['offline', 'no_control_stream', 'does_not_understand', 'not_sent', 'no_answer'] as const

const MissingReason = choice(
  drillMissingReasons,
  'offline: no heartbeat for 90 seconds; no_control_stream: none is open; does_not_understand: its client does not ask for drills; not_sent: the process that holds its stream did not send it; no_answer: it was asked, and did not answer within WARDLINE_DRILL_ANSWER_SECONDS',
)

const drillFields = {
  id: Uuid,
  state: choice(['running', 'complete'], 'complete: every agent that was asked answered, or had its time to'),
  selector: { ...AgentSelector, description: 'As requested; of a long list of instances the first hundred' },
  tags_scope: TagsScope,
  by: Type.String({ description: 'Key id of the operator' }),
  requested_at: Timestamp,
  completed_at: nullable(Timestamp),
  selected: { ...Count, description: 'Agents that the selector matched' },
  asked: { ...Count, description: 'Agents that the drill was sent to' },
  answered: { ...Count, description: 'Agents that answered' },
  missing_count: {
    ...Count,
    description: 'Agents that did not answer or were not asked, without those that may still answer',
  },
  supervisor_count: { ...Count, description: 'Agents whose supervisor answered, with the key of a supervisor' },
  incomplete_count: { ...Count, description: 'Those of them whose supervisor could not hold every process it knows' },
  model_count: {
    ...Count,
    description:
      'Agents whose calls of models a gateway would refuse and cut: it heard the drill, and they called a model through it within a day',
  },
  model_calls: { ...Count, description: 'Calls of these agents that were open in gateways' },
  model_ms: nullable(
    Type.Integer({
      minimum: 0,
      description:
        'Milliseconds until the last answer of a gateway: about a second if it hears nothing over BACKPLANE_URL',
    }),
  ),
  silent_count: {
    ...Count,
    description: 'Levers that reach an agent without its cooperation and did not answer within the time for answers',
  },
  p50_ms: nullable(Type.Integer({ minimum: 0, description: 'Milliseconds from the question to the answer, median' })),
  p99_ms: nullable(Type.Integer({ minimum: 0, description: 'The same for the slowest of a hundred' })),
}
const DrillSummary = Type.Object(drillFields)
export type DrillSummary = Static<typeof DrillSummary>

export const Drill = Type.Object({
  ...drillFields,
  missing: Type.Array(Type.Object({ instance_id: InstanceId, reason: MissingReason }), {
    description: `Agents that did not answer, those that were asked first; at most ${limits.drillMissing}`,
  }),
  supervisors: Type.Array(Type.Object({ instance_id: InstanceId, ...SupervisorReach.properties }), {
    description: `What the supervisors of agents answered, those with unreachable processes first; at most ${limits.drillMissing}`,
  }),
  silent: Type.Array(
    Type.Object({
      instance_id: InstanceId,
      lever: choice(
        ['process', 'model'],
        'process: its supervisor sent heartbeats and did not answer; model: it called a model through a gateway within a day, and no gateway answered',
      ),
    }),
    { description: `Levers that did not answer; at most ${limits.drillMissing}` },
  ),
})
export type Drill = Static<typeof Drill>

const DrillQuery = Type.Object({
  limit: Type.Optional(UpTo(limits.drills, `Drills, 1 to ${limits.drills}; default: 20`)),
})
const DrillList = Type.Object({
  drills: Type.Array(DrillSummary, { description: `Newest first; the last ${limits.drills} are kept` }),
})
export type DrillList = Static<typeof DrillList>

export const drillEndpoints = {
  startDrill: define({
    method: 'POST',
    path: '/api/drills',
    access: access.operators,
    teams: 'agents',
    feature: 'drills',
    summary: 'Send a harmless message to the agents of a selector over their control streams, and see who answers',
    body: NewDrill,
    status: 201,
    reply: Drill,
    failures: {
      409: 'The selector matches no agent',
      503: 'Too many drills are running; retry after Retry-After seconds',
    },
  }),
  listDrills: define({
    method: 'GET',
    path: '/api/drills',
    access: access.readers,
    teams: 'agents',
    feature: 'drills',
    summary: 'List drills that operators started, newest first',
    query: DrillQuery,
    status: 200,
    reply: DrillList,
  }),
  getDrill: define({
    method: 'GET',
    path: '/api/drills/:id',
    access: access.readers,
    teams: 'agents',
    feature: 'drills',
    summary: 'Get a drill: how many agents were asked and answered, how fast, and who is missing',
    params: Type.Object({ id: Uuid }),
    status: 200,
    reply: Drill,
    failures: { 404: 'Unknown drill' },
  }),
  answerDrill: define({
    method: 'POST',
    path: '/api/instances/:instanceId/drill',
    access: access.agents,
    feature: 'drills',
    summary: 'Answer a drill that came over the control stream; each nonce once, within WARDLINE_DRILL_ANSWER_SECONDS',
    params: InstanceParams,
    body: DrillAnswer,
    status: 200,
    replyHeaders: { [supervisorHeader]: supervisorHeaderText },
    reply: Ok,
    failures: { 409: 'The nonce is not that of an open drill of this instance' },
  }),
}
