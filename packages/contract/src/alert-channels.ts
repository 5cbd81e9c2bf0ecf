import type { Static } from 'typebox'
import { type ChannelSettings, type ChannelType, channelKinds, channelTypes } from './channel-kinds.ts'
import { access, define } from './endpoint.ts'
import { Count, choice, NotBlank, nullable, Pattern, Severity, Timestamp, Uuid } from './fields.ts'
import { Type } from './type.ts'

const ClockTime = Pattern('^([01][0-9]|2[0-3]):[0-5][0-9]$', 'must be a time of day such as 07:30', {
  description: 'HH:MM',
})
export const QuietHours = Type.Object(
  {
    from: ClockTime,
    to: ClockTime,
    time_zone: Type.String({ maxLength: 64, description: 'IANA name, such as Europe/Berlin' }),
    min_severity: Type.Optional(
      choice(['critical', 'breach'], 'Minimum severity that is still sent at once; default: critical'),
    ),
  },
  { additionalProperties: false, description: 'Less severe alerts of these hours are sent together at their end' },
)
export type QuietHours = Static<typeof QuietHours>

const ChannelName = NotBlank({ minLength: 1, maxLength: 80 })
const options = {
  min_severity: Type.Optional(Severity),
  enabled: Type.Optional(
    Type.Boolean({ description: 'A disabled channel receives no alerts, and alerts of that time are not sent later' }),
  ),
  send_resolved: Type.Optional(
    Type.Boolean({ description: 'Notify when an alert that was sent is resolved; default: true' }),
  ),
  daily_check: Type.Optional(
    Type.Boolean({ description: 'Send a daily check; a failure is reported to the other channels; default: true' }),
  ),
  personal_mail: Type.Optional(
    Type.Boolean({
      description:
        'Only of type email: its server sends people the alerts that they chose to get by mail; of several channels the oldest enabled one does; default: false',
    }),
  ),
  max_per_minute: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 60,
      description: 'Maximum messages a minute to people; further alerts are joined into one; default: 20',
    }),
  ),
  quiet_hours: Type.Optional(nullable(QuietHours)),
}

const CommonOfChannels = Type.Object({ name: ChannelName, ...options })
/** A channel type with its settings; `type` selects the settings' schema. */
type TypeAndSettings = { [Type in ChannelType]: { type: Type; settings: ChannelSettings[Type] } }[ChannelType]
export type NewChannel = Static<typeof CommonOfChannels> & TypeAndSettings
export const NewChannel = Type.Unsafe<NewChannel>({
  ...CommonOfChannels,
  discriminator: { propertyName: 'type' },
  oneOf: channelTypes.map((type) =>
    Type.Object({ type: Type.Literal(type), settings: channelKinds[type].settings }, { title: type }),
  ),
})

export const ChannelChange = Type.Object(
  {
    name: Type.Optional(ChannelName),
    settings: Type.Optional(
      Type.Object({}, { description: "Replaces all settings; the fields are those of the channel's type" }),
    ),
    ...options,
  },
  { additionalProperties: false, minProperties: 1 },
)
export type ChannelChange = Static<typeof ChannelChange>

export const ChannelId = Pattern(
  '^([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|env-[a-z]{1,20})$',
  'must be a UUID, or env-<type> for a channel set by environment variables',
  { description: 'UUID, or env-<type> for a channel set by environment variables' },
)
const ChannelParams = Type.Object({ id: ChannelId })

export const ChannelView = Type.Object({
  id: ChannelId,
  name: Type.String(),
  type: choice(channelTypes),
  managed_by: choice(['api', 'environment']),
  destination: Type.String({ description: 'Host only; the rest of the address is secret' }),
  min_severity: Severity,
  enabled: Type.Boolean(),
  decides: Type.Boolean({ description: 'Whether buttons of its messages decide approvals' }),
  send_resolved: Type.Boolean(),
  daily_check: Type.Boolean(),
  personal_mail: Type.Boolean(),
  max_per_minute: Type.Integer(),
  quiet_hours: nullable(QuietHours),
  state: choice(['ok', 'failing', 'disabled']),
  waiting: { ...Count, description: 'Messages that wait for delivery' },
  dead: { ...Count, description: 'Messages that could not be delivered; they can be replayed' },
  behind: { ...Count, description: 'Alerts that are not yet planned for this channel' },
  paused_until: nullable({
    ...Timestamp,
    description: 'After failed attempts none is made until then, except one for each new alert of the service itself',
  }),
  last_delivered_at: nullable(Timestamp),
  last_error: nullable(Type.String()),
  last_error_at: nullable(Timestamp),
})
export type ChannelView = Static<typeof ChannelView>

const ChannelCreated = Type.Object({
  ok: Type.Literal(true),
  id: ChannelId,
  secret: Type.Optional(Type.String({ description: 'The generated signing secret; shown only here' })),
})
const ChannelList = Type.Object({ channels: Type.Array(ChannelView) })
const ChannelChanged = Type.Object({ ok: Type.Literal(true), id: ChannelId })
const SecretRotation = Type.Object({
  overlap_seconds: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: 30 * 86_400,
      description: 'How long messages are also signed with the old secret; default: one day',
    }),
  ),
})
const SecretRotated = Type.Object({ ok: Type.Literal(true), id: ChannelId, secret: Type.String() })

export const ChannelTested = Type.Object({
  ok: Type.Boolean({ description: 'Whether the receiver accepted the message' }),
  message_id: Uuid,
  status: nullable(Type.Integer({ description: 'HTTP status, or reply code of SMTP' })),
  answer: nullable(Type.String({ description: 'The beginning of the answer of the receiver' })),
  error: nullable(Type.String()),
  duration_ms: Count,
})
export type ChannelTested = Static<typeof ChannelTested>

export const Replayed = Type.Object({ ok: Type.Literal(true), replayed: Count })

export const channelEndpoints = {
  listChannels: define({
    method: 'GET',
    path: '/api/alert-channels',
    access: access.readers,
    teams: 'refused',
    feature: 'alerts',
    summary: 'List channels with their delivery state, never their secrets',
    status: 200,
    reply: ChannelList,
  }),
  getChannel: define({
    method: 'GET',
    path: '/api/alert-channels/:id',
    access: access.readers,
    teams: 'refused',
    feature: 'alerts',
    summary: 'Get a channel',
    params: ChannelParams,
    status: 200,
    reply: ChannelView,
    failures: { 404: 'Unknown channel' },
  }),
  createChannel: define({
    method: 'POST',
    path: '/api/alert-channels',
    access: access.operators,
    teams: 'refused',
    feature: 'alerts',
    summary: 'Create a channel; its settings are stored encrypted and never returned',
    body: NewChannel,
    status: 201,
    reply: ChannelCreated,
  }),
  changeChannel: define({
    method: 'PATCH',
    path: '/api/alert-channels/:id',
    access: access.operators,
    teams: 'refused',
    feature: 'alerts',
    summary: 'Update a channel; the settings of an env-<type> channel cannot be changed here',
    params: ChannelParams,
    body: ChannelChange,
    status: 200,
    reply: ChannelChanged,
    failures: { 404: 'Unknown channel' },
  }),
  deleteChannel: define({
    method: 'DELETE',
    path: '/api/alert-channels/:id',
    access: access.operators,
    teams: 'refused',
    feature: 'alerts',
    summary: 'Delete a channel and the messages that wait for it',
    params: ChannelParams,
    status: 200,
    reply: ChannelChanged,
    failures: { 404: 'Unknown channel' },
  }),
  rotateChannelSecret: define({
    method: 'POST',
    path: '/api/alert-channels/:id/rotate-secret',
    access: access.operators,
    teams: 'refused',
    feature: 'alerts',
    summary: 'Rotate the signing secret of a webhook; messages are also signed with the old one during the overlap',
    params: ChannelParams,
    body: SecretRotation,
    status: 201,
    reply: SecretRotated,
    failures: { 404: 'Unknown channel' },
  }),
  testChannel: define({
    method: 'POST',
    path: '/api/alert-channels/:id/test',
    access: access.operators,
    teams: 'refused',
    feature: 'alerts',
    summary: 'Send a test message like any alert, and return the answer of the receiver',
    params: ChannelParams,
    status: 200,
    reply: ChannelTested,
    failures: { 404: 'Unknown channel' },
  }),
  replayChannel: define({
    method: 'POST',
    path: '/api/alert-channels/:id/replay',
    access: access.operators,
    teams: 'refused',
    feature: 'alerts',
    summary: 'Retry all undelivered messages of a channel, with their original ids',
    params: ChannelParams,
    status: 200,
    reply: Replayed,
    failures: { 404: 'Unknown channel' },
  }),
}
