import { channelSettings } from '@wardline/contract'
import type { TSchema } from 'typebox'
import { patternRule } from '../validation.ts'
import { urlFault, webhookSecretFault } from './setting-faults.ts'
import { cidrs, refuse, type Setting, setting } from './values.ts'

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

const url = (schema: TSchema) => byContract(schema, urlFault)
const { webhook, slack, discord, teams, telegram, pagerduty, email, ntfy } = channelSettings

const secret = byContract(webhook.properties.secret, webhookSecretFault)
/** Accepts two secrets for a rotation, while receivers switch from the old to the new one. */
const webhookSecrets = (value: string): string[] => {
  const parts = value.split(/\s+/)
  if (parts.length > 2) refuse('must contain one secret, or the new and the old one separated by a space')
  return parts.map(secret)
}

const recipients = (value: string): string[] => {
  const { maxItems = Infinity, items }: { maxItems?: number; items: TSchema } = email.properties.to
  const parts = value.split(',').map((part) => part.trim())
  if (parts.length > maxItems) refuse(`must name at most ${maxItems} addresses`)
  return parts.map(byContract(items))
}

/** Settings of channels defined in the environment, and of the addresses allowed to others. All are optional. */
export const alertSettings = {
  alertWebhookUrl: setting({
    env: 'ALERT_WEBHOOK_URL',
    unset: undefined,
    meaning: 'URL that receives each alert separately, by POST as Standard Webhooks 1.0',
    parse: url(webhook.properties.url),
    secret: true,
  }),
  alertWebhookSecrets: setting({
    env: 'ALERT_WEBHOOK_SECRET',
    unset: undefined,
    meaning:
      'Secret that signs these alerts: `whsec_` and the base64 of 24 to 64 bytes. During a rotation, the new and the old secret separated by a space. Default: not signed',
    parse: webhookSecrets,
    secret: true,
  }),
  slackWebhookUrl: setting({
    env: 'SLACK_WEBHOOK_URL',
    unset: undefined,
    meaning: 'Incoming webhook of Slack that receives alerts',
    parse: url(slack.properties.url),
    secret: true,
  }),
  discordWebhookUrl: setting({
    env: 'DISCORD_WEBHOOK_URL',
    unset: undefined,
    meaning: 'Webhook of a Discord channel that receives alerts',
    parse: url(discord.properties.url),
    secret: true,
  }),
  teamsWebhookUrl: setting({
    env: 'TEAMS_WEBHOOK_URL',
    unset: undefined,
    meaning: 'Microsoft Teams Workflow, started by webhook request, that receives alerts',
    parse: url(teams.properties.url),
    secret: true,
  }),
  telegramBotToken: setting({
    env: 'TELEGRAM_BOT_TOKEN',
    unset: undefined,
    meaning: 'Token of the Telegram bot that sends alerts; needs TELEGRAM_CHAT_ID',
    parse: byContract(telegram.properties.token),
    secret: true,
  }),
  telegramChatId: setting({
    env: 'TELEGRAM_CHAT_ID',
    unset: undefined,
    meaning: 'Telegram chat for alerts: the number of the chat, or @ and the name of the channel',
    parse: byContract(telegram.properties.chat_id),
  }),
  pagerdutyRoutingKey: setting({
    env: 'PAGERDUTY_ROUTING_KEY',
    unset: undefined,
    meaning: 'Integration key of PagerDuty (Events API v2) for alerts',
    parse: byContract(pagerduty.properties.routing_key),
    secret: true,
  }),
  smtpUrl: setting({
    env: 'SMTP_URL',
    unset: undefined,
    meaning:
      'Mail server for alerts: `smtp://<user>:<password>@<host>:<port>`, or `smtps://…`; needs ALERT_EMAIL_FROM and ALERT_EMAIL_TO',
    parse: url(email.properties.url),
    secret: true,
  }),
  alertEmailFrom: setting({
    env: 'ALERT_EMAIL_FROM',
    unset: undefined,
    meaning: 'Sender of alert mails, an address without a name',
    parse: byContract(email.properties.from),
  }),
  alertEmailTo: setting({
    env: 'ALERT_EMAIL_TO',
    unset: undefined,
    meaning: 'Recipients of alert mails, comma-separated',
    parse: recipients,
  }),
  ntfyUrl: setting({
    env: 'NTFY_URL',
    unset: undefined,
    meaning: 'ntfy topic that receives alerts, such as https://ntfy.sh/<topic>',
    parse: url(ntfy.properties.url),
    secret: true,
  }),
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

/** Groups of settings that must be set together. */
const together: (keyof AlertSettings)[][] = [
  ['telegramBotToken', 'telegramChatId'],
  ['smtpUrl', 'alertEmailFrom', 'alertEmailTo'],
]

/** Returns one sentence per incompletely configured channel. */
export function incompleteChannels(config: AlertConfig): string[] {
  const faults = together
    .filter((group) => group.some((name) => config[name]) && !group.every((name) => config[name]))
    .map((group) => {
      const names = group.map((name) => (alertSettings[name] as Setting<unknown>).env)
      return `${inWords(names)} belong together: set all of them, or none.`
    })
  if (config.alertWebhookSecrets && !config.alertWebhookUrl) {
    faults.push('ALERT_WEBHOOK_SECRET needs ALERT_WEBHOOK_URL: set both, or neither.')
  }
  return faults
}
