import type { Static, TSchema } from 'typebox'
import { choice, Pattern } from './fields.ts'
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
/** One address: what separates, quotes or comments it is not of it. */
export const mailAddressPattern = '^[^\\s<>,;:"@]{1,64}@[^\\s<>,;:"@]{1,255}$'
const MailAddress = Pattern(mailAddressPattern, 'must be a mail address, without a name', {
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
        decides: Type.Optional(Decides),
        approvers: Type.Optional(
          Type.Array(Pattern('^[0-9]{1,20}$', 'must be the number of a Telegram user', { maxLength: 20 }), {
            minItems: 1,
            maxItems: 50,
            description: 'Numbers of the Telegram users whose presses decide',
          }),
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
