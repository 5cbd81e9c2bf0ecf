import type { Static } from 'typebox'
import { Assigned, Assignee } from './alert-assignees.ts'
import { ChannelId } from './alert-channels.ts'
import { Comment, CommentText } from './alert-comments.ts'
import { access, define } from './endpoint.ts'
import { EventType } from './events.ts'
import {
  Count,
  choice,
  Digits,
  InstanceId,
  InstancePattern,
  limits,
  NotBlank,
  nullable,
  Pattern,
  Severity,
  severities,
  Timestamp,
  UpTo,
  Uuid,
} from './fields.ts'
import { Type } from './type.ts'

/** Alert types of the service that have no stored event. */
export const alertTypes = {
  instanceSuspended: 'instance_suspended',
  instanceResumed: 'instance_resumed',
  killConfirmed: 'kill_confirmed',
  killUnconfirmed: 'kill_unconfirmed',
  containmentStarted: 'containment_started',
  containmentCompleted: 'containment_completed',
  containmentIncomplete: 'containment_incomplete',
  fleetOutage: 'fleet_outage',
  fleetRecovered: 'fleet_recovered',
  channelFailing: 'alert_channel_failing',
  channelRecovered: 'alert_channel_recovered',
  alertsSummarized: 'alerts_summarized',
  alertingChanged: 'alerting_changed',
  protectionChanged: 'protection_changed',
} as const

export const alertStatuses = ['open', 'acknowledged', 'resolved'] as const
export const alertVerdicts = ['true_positive', 'false_positive'] as const

const outcomes = ['waiting', 'sent', 'joined', 'silenced', 'inhibited', 'dropped'] as const

export const Alert = Type.Object({
  id: { ...Uuid, description: 'The id of the event, or a separate id for an alert of the service itself' },
  seq: Type.Integer({ minimum: 1, description: 'Increases without gaps' }),
  severity: Severity,
  source: Type.String(),
  by_service: Type.Boolean({
    description: 'True when the service itself raised the alert, false when a caller reported an event of this type',
  }),
  event_type: Type.String(),
  description: Type.String(),
  instance_id: nullable(Type.String()),
  session_id: nullable(Type.String()),
  event_seq: nullable(Type.Integer({ minimum: 1 })),
  created_at: Timestamp,
  status: choice(
    alertStatuses,
    'Alerts of severity info, which only machines receive by default, and those that report the end of a problem are resolved from the beginning',
  ),
  verdict: nullable(choice(alertVerdicts)),
  assignee: nullable(
    Type.String({
      description: 'Id of the person, or of the first key in the rotation chain; a text that an older version stored',
    }),
  ),
  assignee_name: nullable(Type.String()),
  assignee_ended: Type.Boolean({
    description: 'Whether the assignee has no role or valid key any more that handles alerts',
  }),
  changed_at: nullable(Timestamp),
  comment_count: { ...Count, description: 'Comments that are not deleted' },
})
export type Alert = Static<typeof Alert>

export const AlertQuery = Type.Object({
  status: Type.Optional(choice(alertStatuses)),
  severity: Type.Optional(Severity),
  min_severity: Type.Optional(Severity),
  event_type: Type.Optional(EventType),
  instance_id: Type.Optional(InstanceId),
  assigned: Assigned,
  before: Type.Optional(Digits('Alerts below this seq: `next` of the previous page')),
  limit: Type.Optional(UpTo(1000, 'Alerts a page, 1 to 1000; default: 100')),
})
export type AlertQuery = Static<typeof AlertQuery>
const AlertList = Type.Object({ alerts: Type.Array(Alert), next: nullable(Type.String()) })

export const AlertCountQuery = Type.Object({
  event_type: Type.Optional(EventType),
  instance_id: Type.Optional(InstanceId),
  assigned: Assigned,
})
export type AlertCountQuery = Static<typeof AlertCountQuery>
const AlertCounts = Type.Object({
  counts: Type.Array(Type.Object({ status: choice(alertStatuses), severity: Severity, count: Count }), {
    description: 'Counts above 0',
  }),
  complete: Type.Boolean({
    description: `False when there are more than ${limits.countedAlerts}: of the unresolved ones above info only the newest so many are counted, of the others those among the newest so many alerts`,
  }),
})
export type AlertCounts = Static<typeof AlertCounts>

const AlertDelivery = Type.Object({
  channel_id: ChannelId,
  outcome: choice(outcomes, 'joined = sent as part of another message; dropped = the channel was deleted or disabled'),
  message_id: nullable(Uuid),
  state: nullable(choice(['pending', 'delivered', 'dead'])),
  attempts: Count,
  last_status: nullable(Type.Integer()),
  last_answer: nullable(Type.String({ description: 'The beginning of the answer of the receiver' })),
  last_error: nullable(Type.String()),
  due_at: nullable({ ...Timestamp, description: 'Time of the next attempt' }),
  delivered_at: nullable(Timestamp),
})

/** The fields that people change. Null for a value that became unreadable because the audit log was edited. */
const AlertState = Type.Object({
  status: nullable(choice(alertStatuses)),
  verdict: nullable(choice(alertVerdicts)),
  assignee: nullable(Type.String({ description: 'Name of the person or key' })),
})
const AlertHistory = Type.Array(
  Type.Object({
    at: Timestamp,
    by: Type.String({ description: 'Name of the key, `Wardline` or `the command line`' }),
    before: AlertState,
    after: AlertState,
    alerts: { ...Count, description: 'How many alerts of the same problem were changed together' },
  }),
  {
    description: `Who changed this alert, newest first, at most ${limits.alertHistory}. A change made together with another alert is in the history of that alert`,
  },
)
export const AlertDetail = Type.Object({
  ...Alert.properties,
  deliveries: Type.Array(AlertDelivery),
  comments: Type.Array(Comment, { description: 'Oldest first' }),
  history: AlertHistory,
})
export type AlertDetail = Static<typeof AlertDetail>

const AlertParams = Type.Object({ id: Uuid })
export const AlertChange = Type.Object(
  {
    status: Type.Optional(choice(alertStatuses)),
    verdict: Type.Optional(nullable(choice(alertVerdicts, 'Only with status resolved'))),
    assignee: Type.Optional(nullable(Assignee)),
    comment: Type.Optional({ ...CommentText, description: 'Added to this alert, also with whole_group' }),
    whole_group: Type.Optional(
      Type.Boolean({ description: 'Also update every unresolved alert of the same type and instance' }),
    ),
  },
  { additionalProperties: false, minProperties: 1 },
)
export type AlertChange = Static<typeof AlertChange>
const AlertChanged = Type.Object({ ok: Type.Literal(true), id: Uuid, changed: Count })

/** An event type: an exact name, or a prefix followed by *. */
const TypePattern = Pattern('^[a-z0-9_]+\\*?$', 'must be a type of event, or a prefix followed by *', {
  maxLength: 101,
  description: 'A type, or a prefix and *',
})

/** Every given field must match; an absent field matches everything. */
export const AlertMatch = Type.Object(
  {
    severities: Type.Optional(Type.Array(Severity, { minItems: 1, maxItems: severities.length })),
    types: Type.Optional(Type.Array(TypePattern, { minItems: 1, maxItems: 100 })),
    instances: Type.Optional(Type.Array(InstancePattern, { minItems: 1, maxItems: 100 })),
  },
  { additionalProperties: false, description: 'Every given field must match; an absent field matches everything' },
)
export type AlertMatch = Static<typeof AlertMatch>

export const NewRoute = Type.Object({
  name: NotBlank({ minLength: 1, maxLength: 80 }),
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
const RouteList = Type.Object({ routes: Type.Array(RouteView) })
const RuleParams = Type.Object({ id: Uuid })
const RuleCreated = Type.Object({ ok: Type.Literal(true), id: Uuid })

export const NewSilence = Type.Object({
  match: AlertMatch,
  reason: NotBlank({ minLength: 1, maxLength: limits.reason }),
  ends_at: Type.String({ format: 'date-time', maxLength: 40, description: 'At most a year ahead' }),
})
export type NewSilence = Static<typeof NewSilence>
export const SilenceView = Type.Object({
  id: Uuid,
  match: AlertMatch,
  reason: Type.String(),
  created_by: Type.String({ description: 'Key id, "system" or "cli"' }),
  created_by_name: nullable(Type.String({ description: 'Name of the key, also after it was revoked' })),
  created_at: Timestamp,
  ends_at: Timestamp,
})
export type SilenceView = Static<typeof SilenceView>
const SilenceList = Type.Object({ silences: Type.Array(SilenceView) })

const previewOutcomes = ['receives', 'silenced', 'disabled', 'below_severity', 'no_route', 'never_alerted'] as const

const AlertPreviewRequest = Type.Object(
  {
    severity: Severity,
    event_type: EventType,
    instance_id: Type.Optional(InstanceId),
    by_service: Type.Optional(
      Type.Boolean({
        description: 'Whether the service itself reports it; default: true for types that only the service reports',
      }),
    ),
  },
  { additionalProperties: false },
)
export type AlertPreviewRequest = Static<typeof AlertPreviewRequest>

const AlertPreview = Type.Object({
  channels: Type.Array(
    Type.Object({
      channel_id: ChannelId,
      name: Type.String(),
      type: Type.String(),
      outcome: choice(
        previewOutcomes,
        'receives = sent now, or together with others; silenced = suppressed by a silence; no_route = routes name the channel and none matches',
      ),
      routes: Type.Array(Uuid, { description: 'Routes to this channel that match' }),
    }),
  ),
})
export type AlertPreview = Static<typeof AlertPreview>

export const alertEndpoints = {
  listAlerts: define({
    method: 'GET',
    path: '/api/alerts',
    access: access.readers,
    teams: 'agents',
    feature: 'alerts',
    summary: 'List alerts, newest first: of every severity from warning on, and of info those that a channel accepts',
    query: AlertQuery,
    status: 200,
    reply: AlertList,
  }),
  countAlerts: define({
    method: 'GET',
    path: '/api/alert-counts',
    access: access.readers,
    teams: 'agents',
    feature: 'alerts',
    summary: 'Count alerts by status and severity',
    query: AlertCountQuery,
    status: 200,
    reply: AlertCounts,
  }),
  getAlert: define({
    method: 'GET',
    path: '/api/alerts/:id',
    access: access.readers,
    teams: 'agents',
    feature: 'alerts',
    summary: 'Get an alert with its delivery state at each channel, its comments, and who changed it',
    params: AlertParams,
    status: 200,
    reply: AlertDetail,
    failures: { 404: 'Unknown alert' },
  }),
  changeAlert: define({
    method: 'PATCH',
    path: '/api/alerts/:id',
    access: access.operators,
    teams: 'agents',
    feature: 'alerts',
    summary: 'Acknowledge, assign or resolve an alert, with a comment if given',
    params: AlertParams,
    body: AlertChange,
    status: 200,
    reply: AlertChanged,
    failures: { 404: 'Unknown alert' },
  }),
  listRoutes: define({
    method: 'GET',
    path: '/api/alert-routes',
    access: access.readers,
    teams: 'refused',
    feature: 'alerts',
    summary: 'List routes: which alerts go to which channels',
    status: 200,
    reply: RouteList,
  }),
  previewAlert: define({
    method: 'POST',
    path: '/api/alert-routes/preview',
    access: access.readers,
    teams: 'refused',
    feature: 'alerts',
    summary: 'Show which channels would receive an alert now, and which routes match it; nothing is sent',
    body: AlertPreviewRequest,
    status: 200,
    reply: AlertPreview,
  }),
  createRoute: define({
    method: 'POST',
    path: '/api/alert-routes',
    access: access.operators,
    teams: 'refused',
    feature: 'alerts',
    summary: 'Create a route; a channel named in routes receives only alerts that match one of them',
    body: NewRoute,
    status: 201,
    reply: RuleCreated,
  }),
  deleteRoute: define({
    method: 'DELETE',
    path: '/api/alert-routes/:id',
    access: access.operators,
    teams: 'refused',
    feature: 'alerts',
    summary: 'Delete a route',
    params: RuleParams,
    status: 200,
    reply: RuleCreated,
    failures: { 404: 'Unknown route' },
  }),
  replaceRoute: define({
    method: 'PUT',
    path: '/api/alert-routes/:id',
    access: access.operators,
    teams: 'refused',
    feature: 'alerts',
    summary: 'Replace a route',
    params: RuleParams,
    body: NewRoute,
    status: 200,
    reply: RuleCreated,
    failures: { 404: 'Unknown route' },
  }),
  listSilences: define({
    method: 'GET',
    path: '/api/silences',
    access: access.readers,
    teams: 'refused',
    feature: 'alerts',
    summary: 'List silences that have not ended',
    status: 200,
    reply: SilenceList,
  }),
  createSilence: define({
    method: 'POST',
    path: '/api/silences',
    access: access.operators,
    teams: 'refused',
    feature: 'alerts',
    summary: 'Suppress matching alerts for people until an instant; machines still receive them',
    body: NewSilence,
    status: 201,
    reply: RuleCreated,
  }),
  deleteSilence: define({
    method: 'DELETE',
    path: '/api/silences/:id',
    access: access.operators,
    teams: 'refused',
    feature: 'alerts',
    summary: 'End a silence',
    params: RuleParams,
    status: 200,
    reply: RuleCreated,
    failures: { 404: 'Unknown silence, or it has ended' },
  }),
}
