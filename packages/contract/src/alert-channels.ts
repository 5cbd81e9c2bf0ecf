import type { Static, TSchema } from 'typebox'
import { access, define } from './endpoint.ts'
import { Count, choice, NotBlank, nullable, Pattern, Severity, Timestamp, Uuid } from './fields.ts'
import { Type } from './type.ts'

const HttpUrl = (description: string) =>
  Pattern('^https?://', 'must be an http:// or https:// URL', {
    maxLength: 2048,
    description: `http(s) URL ${description}`,
  })
/** A value used in a header or a line must not contain a line break; visible ASCII is enough for every such setting. */
const Word = (description: string, options = {}) =>
  Pattern('^[!-~]+$', 'may contain only visible ASCII characters, and no spaces', {
    maxLength: 500,
    description,
    ...options,
  })
/** Forms mask a setting that is `writeOnly`. */
const secret = { writeOnly: true }
const strict = { additionalProperties: false }
const MailAddress = Pattern('^[^\\s<>,;:"@]{1,64}@[^\\s<>,;:"@]{1,255}$', 'must be a mail address, without a name', {
  maxLength: 320,
  description: 'Mail address, without a name',
})

const Decides = Type.Boolean({
  title: 'Approve and deny',
  description: 'Buttons that decide approvals: everyone who can read the channel can approve calls; default: no',
})

/** Secret of a Standard Webhooks 1.0 webhook: `whsec_` and the base64 of 24 to 64 bytes. */
export const WebhookSecret = Pattern(
  '^whsec_[A-Za-z0-9+/]{32,86}={0,2}$',
  'must be whsec_ and the base64 of 24 to 64 bytes',
  { description: '`whsec_` and the base64 of 24 to 64 random bytes', ...secret },
)

/** An audience of people gets related alerts in one message, machines get each alert separately and at once. */
interface ChannelKind {
  label: string
  audience: 'people' | 'machines'
  settings: TSchema
}

/** All types of alert channels. Their settings are stored encrypted and never shown again; a `title` is their label. */
export const channelKinds = {
  webhook: {
    label: 'Webhook',
    audience: 'machines',
    settings: Type.Object(
      {
        url: HttpUrl('that takes signed POST requests'),
        secret: Type.Optional(WebhookSecret),
        format: Type.Optional(choice(['standard', 'cloudevents'], 'Form of the body; default: standard')),
      },
      { ...strict, description: 'Signed as Standard Webhooks 1.0; default: a generated secret' },
    ),
  },
  slack: {
    label: 'Slack',
    audience: 'people',
    settings: Type.Object({ url: HttpUrl('of an incoming webhook') }, strict),
  },
  discord: {
    label: 'Discord',
    audience: 'people',
    settings: Type.Object({ url: HttpUrl('of a channel webhook') }, strict),
  },
  teams: {
    label: 'Microsoft Teams',
    audience: 'people',
    settings: Type.Object({ url: HttpUrl('of a Workflow that starts on a webhook request') }, strict),
  },
  telegram: {
    label: 'Telegram',
    audience: 'people',
    settings: Type.Object(
      {
        token: Pattern('^[0-9]{1,20}:[A-Za-z0-9_-]{10,100}$', 'must be the token of a bot, such as 123456:ABC-DEF', {
          description: 'Token of the bot',
          ...secret,
        }),
        chat_id: Pattern(
          '^(-?[0-9]{1,20}|@[A-Za-z0-9_]{1,64})$',
          'must be the number of a chat, or @ and the name of a channel',
          { title: 'Chat', description: 'Chat, or @channel' },
        ),
      },
      strict,
    ),
  },
  pagerduty: {
    label: 'PagerDuty',
    audience: 'people',
    settings: Type.Object(
      {
        routing_key: Pattern('^[A-Za-z0-9]{32}$', 'must be 32 letters and digits', {
          title: 'Integration key',
          description: 'Integration key of Events API v2',
          ...secret,
        }),
        region: Type.Optional(choice(['us', 'eu'], 'Region; default: us')),
      },
      strict,
    ),
  },
  email: {
    label: 'E-mail',
    audience: 'people',
    settings: Type.Object(
      {
        url: Pattern(
          '^smtps?://',
          'must be smtp://<user>:<password>@<host>:<port>, or smtps://… for TLS from the first byte',
          {
            maxLength: 2048,
            description: '`smtp://<user>:<password>@<host>:<port>`, or `smtps://…` for TLS from the first byte',
          },
        ),
        from: MailAddress,
        to: Type.Array(MailAddress, { minItems: 1, maxItems: 50 }),
      },
      strict,
    ),
  },
  ntfy: {
    label: 'ntfy',
    audience: 'people',
    settings: Type.Object(
      {
        url: Pattern(
          '^https?://[^/?#]+/[^?#]*[^/?#]/?$',
          'must be the http:// or https:// URL of a topic, such as https://ntfy.sh/alerts',
          { maxLength: 2048, description: 'http(s) URL of a topic, such as https://ntfy.sh/<topic>' },
        ),
        token: Type.Optional(Word('Access token', secret)),
        decides: Type.Optional(Decides),
      },
      strict,
    ),
  },
  apprise: {
    label: 'Apprise',
    audience: 'people',
    settings: Type.Object(
      {
        url: HttpUrl('of an Apprise API, such as https://apprise.example.com/notify/<key>'),
        tags: Type.Optional(Word('Tags that choose among the services stored under the key')),
      },
      strict,
    ),
  },
  syslog: {
    label: 'Syslog',
    audience: 'machines',
    settings: Type.Object(
      {
        url: Pattern('^(tcp|tls)://', 'must be tcp://<host>:<port>, or tls://… for TLS', {
          maxLength: 2048,
          description: '`tcp://<host>:<port>`, or `tls://…` (RFC 5425)',
        }),
        format: Type.Optional(choice(['json', 'cef'], 'Form of the message; default: json')),
      },
      strict,
    ),
  },
  splunk: {
    label: 'Splunk',
    audience: 'machines',
    settings: Type.Object(
      {
        url: HttpUrl('of the HTTP Event Collector, such as https://splunk.example.com:8088'),
        token: Word('Token of the collector', secret),
        index: Type.Optional(Word('Index; default: the index of the token')),
      },
      strict,
    ),
  },
} as const satisfies Record<string, ChannelKind>

export type ChannelType = keyof typeof channelKinds
export const channelTypes = Object.keys(channelKinds) as ChannelType[]
export type ChannelSettings = { [Type in ChannelType]: Static<(typeof channelKinds)[Type]['settings']> }

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
    feature: 'alerts',
    summary: 'List channels with their delivery state, never their secrets',
    status: 200,
    reply: ChannelList,
  }),
  getChannel: define({
    method: 'GET',
    path: '/api/alert-channels/:id',
    access: access.readers,
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
    feature: 'alerts',
    summary: 'Retry all undelivered messages of a channel, with their original ids',
    params: ChannelParams,
    status: 200,
    reply: Replayed,
    failures: { 404: 'Unknown channel' },
  }),
}
