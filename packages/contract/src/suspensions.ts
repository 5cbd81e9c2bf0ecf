import type { Static } from 'typebox'
import { access, define } from './endpoint.ts'
import { EnforcementCall } from './enforcement.ts'
import { Count, choice, InstanceParams, limits, nullable, Timestamp } from './fields.ts'
import { Type } from './type.ts'

/** How far a suspension is proven to have worked. */
export const suspensionStates = [
  'pending',
  'delivered',
  'quiet',
  'confirmed',
  'proven',
  'enforced',
  'partial',
  'unconfirmed',
  'violated',
] as const
export type SuspensionState = (typeof suspensionStates)[number]
/** Of agents that have not confirmed, and were not seen to be active either. */
export const awaitedStates = ['pending', 'delivered', 'unconfirmed'] as const satisfies readonly SuspensionState[]
/** Of agents that may still be working. `quiet` does not count: unproven, but without activity. */
export const workingStates = [...awaitedStates, 'violated'] as const

const State = choice(
  suspensionStates,
  'pending = requested; delivered and quiet = received by a client that cannot acknowledge, quiet after 90 seconds without activity; confirmed = acknowledged by the agent; proven = acknowledged, and no event since for long enough; enforced = held by its supervisor, which is outside the agent; partial = would be quiet, confirmed, proven or enforced, but not every enforcement point has confirmed; unconfirmed = not acknowledged in time; violated = active although suspended',
)

/** State of an instance's current suspension. */
export const CurrentSuspension = Type.Object({
  state: State,
  since: { ...Timestamp, description: 'When the state began' },
})
export type CurrentSuspension = Static<typeof CurrentSuspension>

const fact = (description: string) => nullable({ ...Timestamp, description: `${description}; null = not observed` })
const process = nullable(Type.String({ description: 'Host name and process id of the service' }))

const Suspension = Type.Object({
  version: Type.Integer({ minimum: 0, description: 'The control version that suspended' }),
  state: State,
  reason: Type.String(),
  by: nullable(Type.String({ description: 'Key id, "system" or "cli"; null = from before this was recorded' })),
  by_name: nullable(Type.String({ description: 'Name of the key, also after it was revoked' })),
  requested_at: Timestamp,
  stored_at: fact('When the commit was answered'),
  published_at: fact('When the control message was published'),
  published_by: process,
  delivered_at: fact('When it was first written to a control stream of the instance or into an answer to it'),
  delivered_by: nullable(
    choice(
      ['stream', 'poll', 'answer'],
      'answer = only as the header Wardline-Suspended of an answer to another request, which a client may ignore',
    ),
  ),
  delivered_process: process,
  acknowledged_at: fact('When the agent acknowledged the suspension'),
  acknowledged_by: nullable(choice(['ack', 'heartbeat'])),
  can_acknowledge: Type.Boolean({ description: 'Whether the agent ever reported a control version' }),
  silent_at: fact('When the log showed no event of the agent for long enough after the acknowledgement'),
  quiet_at: fact('When the log showed no event for 90 seconds after the delivery to a client that cannot acknowledge'),
  enforced_at: fact('When something outside the agent held it'),
  enforced_by: nullable(
    choice(
      ['supervisor', 'gateway'],
      'supervisor = its processes are frozen or ended; gateway = its calls of models are refused and cut, which changes no state',
    ),
  ),
  held_processes: nullable({ ...Count, description: 'Processes that its supervisor held; null = not reported' }),
  left_processes: nullable({ ...Count, description: 'Known processes that its supervisor could not hold' }),
  ends_at: nullable({
    ...Timestamp,
    description: 'When a rule lets it end by itself; null: a person resumes the agent',
  }),
  resumed_at: nullable({
    ...Timestamp,
    description: 'When it was resumed, or taken over by another suspension; null while it lasts',
  }),
  breaches: { ...Count, description: 'Events of the agent later than 10 seconds after the delivery' },
  first_breach_at: nullable(Timestamp),
  last_breach_at: nullable(Timestamp),
  rule_id: nullable(Type.String({ description: 'The rule that caused it' })),
  event_id: nullable(Type.String({ description: 'The event that caused it' })),
  containment_id: nullable(Type.String({ description: 'The containment it belongs to' })),
  through: nullable(
    Type.String({ description: 'The parent whose suspension caused it, and with whose resume it ends' }),
  ),
  enforcement: Type.Array(EnforcementCall, { description: 'Calls to enforcement points, by name of the point' }),
})
export type Suspension = Static<typeof Suspension>

const SuspensionList = Type.Object({
  suspensions: Type.Array(Suspension, { description: `Newest first, at most ${limits.listedSuspensions}` }),
})

export const suspensionStages = ['stored', 'published', 'delivered', 'acknowledged', 'enforced', 'silent'] as const
export type SuspensionStage = (typeof suspensionStages)[number]

const milliseconds = nullable(Type.Integer({ minimum: 0 }))
const SuspensionCounts = Type.Object({
  from: { ...Timestamp, description: 'Suspensions requested since then are measured' },
  suspensions: { ...Count, description: `How many: the newest, at most ${limits.measuredSuspensions}` },
  stages: Type.Array(
    Type.Object({
      stage: choice(suspensionStages),
      measured: { ...Count, description: 'Suspensions for which this stage was observed' },
      p50_ms: milliseconds,
      p95_ms: milliseconds,
      p99_ms: milliseconds,
    }),
    { description: 'Milliseconds from the request to each stage; null where none was observed' },
  ),
  states: Type.Array(Type.Object({ state: State, count: Count }), {
    description: 'Those of the measured suspensions that still last, by state; without those that are 0',
  }),
  settings: Type.Object({
    silence_seconds: Type.Integer({ description: 'WARDLINE_SUSPENSION_SILENCE_SECONDS' }),
    acknowledge_seconds: Type.Integer({ description: 'WARDLINE_SUSPENSION_ACK_SECONDS' }),
  }),
})
export type SuspensionCounts = Static<typeof SuspensionCounts>

export const suspensionEndpoints = {
  listSuspensions: define({
    method: 'GET',
    path: '/api/instances/:instanceId/suspensions',
    access: access.readers,
    teams: 'agent',
    feature: 'suspensions',
    summary: 'List the suspensions of an instance with the times of their stages, newest first',
    params: InstanceParams,
    status: 200,
    reply: SuspensionList,
    failures: { 404: 'Unknown instance' },
  }),
  getSuspensionCounts: define({
    method: 'GET',
    path: '/api/suspension-counts',
    access: access.readers,
    teams: 'agents',
    feature: 'suspensions',
    summary: 'Get how long the stages of suspensions took in the last 24 hours',
    status: 200,
    reply: SuspensionCounts,
    failures: { 503: 'Too many queued searches and lists; retry after Retry-After seconds' },
  }),
}
