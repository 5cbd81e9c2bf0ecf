import { type Static, Type } from 'typebox'
import { Count, choice, InstanceId, limits, nullable, Severity, severities, Timestamp, Uuid } from './fields.ts'

/** Event types that the service itself gives a meaning to; any other snake_case name is welcome. */
export const eventTypes = {
  toolCall: 'tool_call',
  sessionMetrics: 'session_metrics',
  injectionDetected: 'prompt_injection_detected',
  injectionBlocked: 'injection_blocked',
  policyViolation: 'policy_violation',
  egressBlocked: 'egress_blocked',
  toolBlocked: 'tool_blocked',
  honeypotTriggered: 'honeypot_triggered',
  anomalyDetected: 'anomaly_detected',
  instanceOffline: 'instance_offline',
  instanceRecovered: 'instance_recovered',
  activityWhileSuspended: 'activity_while_suspended',
} as const

/** Tools that GET /api/status always counts by name. */
export const knownTools = ['web-search', 'file-read', 'http-request', 'shell-exec', 'email-send', 'code-exec'] as const
export type KnownTool = (typeof knownTools)[number]

export const Metadata = Type.Record(Type.String(), Type.Unknown(), {
  description: `Any JSON object, at most ${limits.metadataBytes / 1024} KiB as JSON and ${limits.jsonDepth} levels deep`,
})

const EventType = Type.String({ pattern: '^[a-z0-9_]+$', maxLength: limits.eventType, description: 'snake_case' })
const SessionId = Type.String({ minLength: 1, maxLength: limits.sessionId })

export const NewEvent = Type.Object({
  severity: Severity,
  source: Type.String({ minLength: 1, maxLength: limits.source, description: 'Who reports' }),
  event_type: EventType,
  description: Type.String({
    minLength: 1,
    maxLength: limits.description,
    description: 'Summary for people; for session_metrics a JSON object of finite numbers, as text',
  }),
  instance_id: Type.Optional(InstanceId),
  session_id: Type.Optional(SessionId),
  metadata: Type.Optional(Metadata),
  ip_address: Type.Optional(Type.String({ maxLength: 45, description: "IP address; absent = the client's own" })),
})
export type NewEvent = Static<typeof NewEvent>

/** The stored event, as streamed and listed. `seq` grows without a gap in the order of commit. */
export const EventRow = Type.Object({
  id: Uuid,
  seq: Type.Integer({ minimum: 1 }),
  severity: Severity,
  source: Type.String(),
  event_type: Type.String(),
  description: Type.String(),
  instance_id: nullable(Type.String()),
  session_id: nullable(Type.String()),
  metadata: nullable(Metadata),
  ip_address: nullable(Type.String()),
  created_at: Timestamp,
})
export type EventRow = Static<typeof EventRow>

export const EventCreated = Type.Object({ ok: Type.Literal(true), id: Uuid })

export const EventBatchReply = Type.Object({
  ok: Type.Boolean({ description: 'True when every event was stored' }),
  ids: Type.Array(nullable(Uuid), { description: 'One per event in order; null where it was refused' }),
  errors: Type.Array(Type.Object({ index: Count, error: Type.String() })),
})
export type EventBatchReply = Static<typeof EventBatchReply>

const isoInstant = '^\\d{4}-\\d{2}-\\d{2}T\\d{2}:\\d{2}:\\d{2}(\\.\\d{1,9})?(Z|[+-]\\d{2}:\\d{2})$'
const Instant = (description: string) => Type.String({ pattern: isoInstant, maxLength: 40, description })
const Digits = (description: string) => Type.String({ pattern: '^[0-9]{1,15}$', description })

export const EventQuery = Type.Object({
  severity: Type.Optional(choice(severities)),
  instance_id: Type.Optional(InstanceId),
  session_id: Type.Optional(SessionId),
  event_type: Type.Optional(EventType),
  q: Type.Optional(Type.String({ minLength: 1, maxLength: 200, description: 'Text in source, type or description' })),
  from: Type.Optional(Instant('At or after this ISO 8601 instant')),
  to: Type.Optional(Instant('Before this ISO 8601 instant')),
  before: Type.Optional(Digits('Cursor: `next` of the previous page')),
  limit: Type.Optional(Digits(`Rows a page, 1 to ${limits.pageSize}; 100 unless told`)),
})
export type EventQuery = Static<typeof EventQuery>

export const EventList = Type.Object({
  events: Type.Array(EventRow),
  next: nullable(Type.String({ description: 'Give it back as `before`; null on the last page' })),
})
export type EventList = Static<typeof EventList>

export const SeverityCounts = Type.Object({ critical: Count, warning: Count, info: Count, breach: Count })
export type SeverityCounts = Static<typeof SeverityCounts>
