import { type ChannelSettings, type ChannelType, channelKinds, WebhookSecret } from '@wardline/contract'
import type { TSchema } from 'typebox'
import { patternRule } from '../validation.ts'
import { urlFault, webhookSecretFault } from './setting-faults.ts'
import { cidrs, refuse, setting } from './values.ts'

/** Parses text by the contract's schema, so that environment variables accept the same values as the API. */
const byContract =
  (schema: TSchema, fault: (value: string) => string | undefined = () => undefined) =>
  (value: string): string => {
    const { pattern = '', maxLength = Infinity } = schema as { pattern?: string; maxLength?: number }
    if (Array.from(value).length > maxLength) refuse(`must have at most ${maxLength} characters`)
    if (!new RegExp(pattern, 'u').test(value)) refuse(patternRule(schema))
    const broken = fault(value)
    return broken === undefined ? value : refuse(broken)
  }

const secret = byContract(WebhookSecret, webhookSecretFault)
/** Accepts two secrets for a rotation, while receivers switch from the old to the new one. */
const webhookSecrets = (value: string): string[] => {
  const parts = value.split(/\s+/)
  if (parts.length > 2) refuse('must contain one secret, or the new and the old one separated by a space')
  return parts.map(secret)
}

const listByContract =
  ({ items, maxItems = Infinity }: { items: TSchema; maxItems?: number }) =>
  (value: string): string[] => {
    const parts = value.split(',').map((part) => part.trim())
    if (parts.length > maxItems) refuse(`must name at most ${maxItems} addresses`)
    return parts.map(byContract(items))
  }

interface FieldSchema {
  items?: TSchema
  writeOnly?: boolean
}

/** A setting of the environment that gives a setting of a channel. The contract checks it. */
function ofChannel<Type extends ChannelType>(
  type: Type,
  field: keyof ChannelSettings[Type] & string,
  env: string,
  meaning: string,
) {
  const properties: Record<string, TSchema> = channelKinds[type].settings.properties
  const schema = properties[field] as FieldSchema
  const { items } = schema
  const isUrl = field === 'url'
  const parse: (value: string) => string | string[] = items
    ? listByContract({ ...schema, items })
    : byContract(schema, isUrl ? urlFault : undefined)
  const secret = isUrl || schema.writeOnly ? { secret: true } : {}
  return { ...setting({ env, unset: undefined, meaning, parse, ...secret }), channel: { type, field } }
}

/** Settings of channels defined in the environment, and of the addresses allowed to others. All are optional. */
export const alertSettings = {
  alertWebhookUrl: ofChannel(
    'webhook',
    'url',
    'ALERT_WEBHOOK_URL',
    'URL that receives each alert separately, by POST as Standard Webhooks 1.0',
  ),
  alertWebhookSecrets: setting({
    env: 'ALERT_WEBHOOK_SECRET',
    unset: undefined,
    meaning:
      'Secret that signs these alerts: `whsec_` and the base64 of 24 to 64 bytes. During a rotation, the new and the old secret separated by a space. Default: not signed',
    parse: webhookSecrets,
    secret: true,
  }),
  slackWebhookUrl: ofChannel('slack', 'url', 'SLACK_WEBHOOK_URL', 'Incoming webhook of Slack that receives alerts'),
  discordWebhookUrl: ofChannel(
    'discord',
    'url',
    'DISCORD_WEBHOOK_URL',
    'Webhook of a Discord channel that receives alerts',
  ),
  teamsWebhookUrl: ofChannel(
    'teams',
    'url',
    'TEAMS_WEBHOOK_URL',
    'Microsoft Teams Workflow, started by webhook request, that receives alerts',
  ),
  telegramBotToken: ofChannel(
    'telegram',
    'token',
    'TELEGRAM_BOT_TOKEN',
    'Token of the Telegram bot that sends alerts; needs TELEGRAM_CHAT_ID',
  ),
  telegramChatId: ofChannel(
    'telegram',
    'chat_id',
    'TELEGRAM_CHAT_ID',
    'Telegram chat for alerts: the number of the chat, or @ and the name of the channel',
  ),
  pagerdutyRoutingKey: ofChannel(
    'pagerduty',
    'routing_key',
    'PAGERDUTY_ROUTING_KEY',
    'Integration key of PagerDuty (Events API v2) for alerts',
  ),
  smtpUrl: ofChannel(
    'email',
    'url',
    'SMTP_URL',
    'Mail server for alerts: `smtp://<user>:<password>@<host>:<port>`, or `smtps://…`; needs ALERT_EMAIL_FROM and ALERT_EMAIL_TO',
  ),
  alertEmailFrom: ofChannel('email', 'from', 'ALERT_EMAIL_FROM', 'Sender of alert mails, an address without a name'),
  alertEmailTo: ofChannel('email', 'to', 'ALERT_EMAIL_TO', 'Recipients of alert mails, comma-separated'),
  ntfyUrl: ofChannel('ntfy', 'url', 'NTFY_URL', 'ntfy topic that receives alerts, such as https://ntfy.sh/<topic>'),
  alertAllowCidrs: setting({
    env: 'WARDLINE_ALERT_ALLOW_CIDRS',
    unset: undefined,
    meaning:
      'CIDR ranges of private addresses to which channels created by API may send, comma-separated; channels set by environment variables always may',
    parse: cidrs,
  }),
}

type AlertSettings = typeof alertSettings
type AlertConfig = {
  readonly [Name in keyof AlertSettings]: ReturnType<AlertSettings[Name]['parse']> | undefined
}

const inWords = (names: string[]): string => `${names.slice(0, -1).join(', ')} and ${names.at(-1)}`

/** The settings of channels, with their names. */
export const channelVariables = Object.entries(alertSettings).flatMap(([name, entry]) =>
  'channel' in entry ? [{ name: name as keyof AlertSettings, ...entry }] : [],
)

/** Returns one sentence per incompletely configured channel. */
export function incompleteChannels(config: AlertConfig): string[] {
  const faults = [...Map.groupBy(channelVariables, ({ channel }) => channel.type).values()]
    .filter((group) => group.some(({ name }) => config[name]) && !group.every(({ name }) => config[name]))
    .map((group) => `${inWords(group.map(({ env }) => env))} belong together: set all of them, or none.`)
  if (config.alertWebhookSecrets && !config.alertWebhookUrl) {
    faults.push('ALERT_WEBHOOK_SECRET needs ALERT_WEBHOOK_URL: set both, or neither.')
  }
  return faults
}
