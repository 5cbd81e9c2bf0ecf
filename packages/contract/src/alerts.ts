import { type Static, Type } from 'typebox'
import { ChannelId } from './alert-channels.ts'
import { Count, choice, InstanceId, limits, nullable, Severity, severities, Timestamp, Uuid } from './fields.ts'

/** What the service alerts of without a stored event. */
export const alertTypes = {
  instanceSuspended: 'instance_suspended',
  instanceResumed: 'instance_resumed',
  killConfirmed: 'kill_confirmed',
  killUnconfirmed: 'kill_unconfirmed',
  fleetOutage: 'fleet_outage',
  fleetRecovered: 'fleet_recovered',
  channelFailing: 'alert_channel_failing',
  channelRecovered: 'alert_channel_recovered',
} as const

export const alertStatuses = ['open', 'acknowledged', 'resolved'] as const
export const alertVerdicts = ['true_positive', 'false_positive'] as const

export const outcomes = ['waiting', 'told', 'joined', 'silenced', 'inhibited', 'dropped'] as const

export const Alert = Type.Object({
  id: { ...Uuid, description: 'The id of the event that it is about, or an id of its own' },
  seq: Type.Integer({ minimum: 1, description: 'Grows without a gap' }),
  severity: Severity,
  source: Type.String(),
  by_service: Type.Boolean({ description: 'The service itself says so, not whoever reported an event of this type' }),
  event_type: Type.String(),
  description: Type.String(),
  instance_id: nullable(Type.String()),
  session_id: nullable(Type.String()),
  event_seq: nullable(Type.Integer({ minimum: 1 })),
  created_at: Timestamp,
  status: choice(alertStatuses),
  verdict: nullable(choice(alertVerdicts)),
  assignee: nullable(Type.String()),
  note: nullable(Type.String()),
  changed_at: nullable(Timestamp),
})
export type Alert = Static<typeof Alert>

const PageNumber = (description: string) => Type.String({ pattern: '^[0-9]{1,15}$', description })

export const AlertQuery = Type.Object({
  status: Type.Optional(choice(alertStatuses)),
  severity: Type.Optional(Severity),
  event_type: Type.Optional(Type.String({ pattern: '^[a-z0-9_]+$', maxLength: limits.eventType })),
  instance_id: Type.Optional(InstanceId),
  before: Type.Optional(PageNumber('Alerts below this seq: `next` of the page before')),
  limit: Type.Optional(PageNumber('Alerts a page, 1 to 1000; 100 unless told')),
})
export type AlertQuery = Static<typeof AlertQuery>
export const AlertList = Type.Object({ alerts: Type.Array(Alert), next: nullable(Type.String()) })

/** What became of an alert at one channel. */
export const AlertDelivery = Type.Object({
  channel_id: ChannelId,
  outcome: choice(outcomes, 'joined = told within another message; dropped = the channel was removed or switched off'),
  message_id: nullable(Uuid),
  state: nullable(choice(['pending', 'delivered', 'dead'])),
  attempts: Count,
  last_status: nullable(Type.Integer()),
  last_answer: nullable(Type.String({ description: 'The beginning of what the receiver answered' })),
  last_error: nullable(Type.String()),
  delivered_at: nullable(Timestamp),
})
export const AlertDetail = Type.Object({ ...Alert.properties, deliveries: Type.Array(AlertDelivery) })
export type AlertDetail = Static<typeof AlertDetail>

export const AlertParams = Type.Object({ id: Uuid })
export const AlertChange = Type.Object(
  {
    status: Type.Optional(choice(alertStatuses)),
    verdict: Type.Optional(nullable(choice(alertVerdicts, 'Only with status resolved'))),
    assignee: Type.Optional(nullable(Type.String({ minLength: 1, maxLength: 100, pattern: '\\S' }))),
    note: Type.Optional(nullable(Type.String({ minLength: 1, maxLength: 1000, pattern: '\\S' }))),
    whole_group: Type.Optional(
      Type.Boolean({ description: 'Also change every unresolved alert of the same type and instance' }),
    ),
  },
  { additionalProperties: false, minProperties: 1 },
)
export type AlertChange = Static<typeof AlertChange>
export const AlertChanged = Type.Object({ ok: Type.Literal(true), id: Uuid, changed: Count })

/** A type of event, an exact name or a prefix followed by *. */
const TypePattern = Type.String({
  pattern: '^[a-z0-9_]+\\*?$',
  maxLength: 101,
  description: 'A type, or a prefix and *',
})
const InstancePattern = Type.String({
  pattern: '^[a-z0-9_-]+\\*?$',
  maxLength: 65,
  description: 'An instance id, or a prefix followed by *',
})

/** Every given part must match; one that is absent matches all. */
export const AlertMatch = Type.Object(
  {
    severities: Type.Optional(Type.Array(Severity, { minItems: 1, maxItems: severities.length })),
    types: Type.Optional(Type.Array(TypePattern, { minItems: 1, maxItems: 100 })),
    instances: Type.Optional(Type.Array(InstancePattern, { minItems: 1, maxItems: 100 })),
  },
  { additionalProperties: false, description: 'Every given part must match; one that is absent matches all' },
)
export type AlertMatch = Static<typeof AlertMatch>

export const NewRoute = Type.Object({
  name: Type.String({ minLength: 1, maxLength: 80, pattern: '\\S' }),
  match: AlertMatch,
  channels: Type.Array(ChannelId, { minItems: 1, maxItems: 100 }),
})
export type NewRoute = Static<typeof NewRoute>
export const RouteView = Type.Object({
  id: Uuid,
  name: Type.String(),
  match: AlertMatch,
  channels: Type.Array(ChannelId),
  created_at: Timestamp,
})
export type RouteView = Static<typeof RouteView>
export const RouteList = Type.Object({ routes: Type.Array(RouteView) })
export const RuleParams = Type.Object({ id: Uuid })
export const RuleCreated = Type.Object({ ok: Type.Literal(true), id: Uuid })

export const NewSilence = Type.Object({
  match: AlertMatch,
  reason: Type.String({ minLength: 1, maxLength: limits.reason, pattern: '\\S' }),
  ends_at: Type.String({ format: 'date-time', maxLength: 40, description: 'At most a year ahead' }),
})
export type NewSilence = Static<typeof NewSilence>
export const SilenceView = Type.Object({
  id: Uuid,
  match: AlertMatch,
  reason: Type.String(),
  created_by: Type.String(),
  created_at: Timestamp,
  ends_at: Timestamp,
})
export type SilenceView = Static<typeof SilenceView>
export const SilenceList = Type.Object({ silences: Type.Array(SilenceView) })

export const messageKinds = ['alert', 'digest', 'reminder', 'resolved', 'test', 'check'] as const
export const MessageQuery = Type.Object({
  channel_id: Type.Optional(ChannelId),
  state: Type.Optional(choice(['pending', 'delivered', 'dead'])),
  before: Type.Optional(Uuid),
  limit: Type.Optional(PageNumber('Messages a page, 1 to 1000; 100 unless told')),
})
export type MessageQuery = Static<typeof MessageQuery>
export const MessageView = Type.Object({
  id: Uuid,
  channel_id: ChannelId,
  kind: choice(messageKinds),
  title: Type.String(),
  severity: Severity,
  state: choice(['pending', 'delivered', 'dead']),
  attempts: Count,
  created_at: Timestamp,
  due_at: nullable(Timestamp),
  delivered_at: nullable(Timestamp),
  last_status: nullable(Type.Integer()),
  last_answer: nullable(Type.String()),
  last_error: nullable(Type.String()),
})
export type MessageView = Static<typeof MessageView>
export const MessageList = Type.Object({ messages: Type.Array(MessageView), next: nullable(Uuid) })
