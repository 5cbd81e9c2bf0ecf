import type { ChannelSettings, ChannelType } from '@wardline/contract'
import type { Config } from '../../../config/config.ts'
import type { Db } from '../../../db/database.ts'
import { destinationHost } from '../channels/all-channels.ts'
import { defaultOptions, optionColumns } from './channel-options.ts'
import { insertMissingChannel } from './queries.ts'
import type { PreviousSecret, SecretSettings } from './sealed-settings.ts'

/** A channel of the environment, without the options in its row. */
export interface EnvironmentChannel extends SecretSettings {
  id: string
  name: string
  type: ChannelType
}

function channel<Type extends ChannelType>(
  type: Type,
  label: string,
  settings: ChannelSettings[Type],
  previous_secrets: PreviousSecret[] = [],
): EnvironmentChannel {
  return { id: `env-${type}`, name: `${label} (environment)`, type, settings, previous_secrets }
}

/** Returns one channel per receiver in the configuration. */
export function environmentChannels(config: Config): EnvironmentChannel[] {
  const { alertWebhookUrl, alertWebhookSecrets = [], slackWebhookUrl, discordWebhookUrl, teamsWebhookUrl } = config
  const { telegramBotToken, telegramChatId, pagerdutyRoutingKey, smtpUrl, alertEmailFrom, alertEmailTo } = config
  const [secret, ...older] = alertWebhookSecrets
  const previous = older.map((old) => ({ secret: old, until: null }))
  return [
    alertWebhookUrl !== undefined &&
      channel('webhook', 'Webhook', { url: alertWebhookUrl, ...(secret === undefined ? {} : { secret }) }, previous),
    slackWebhookUrl !== undefined && channel('slack', 'Slack', { url: slackWebhookUrl }),
    discordWebhookUrl !== undefined && channel('discord', 'Discord', { url: discordWebhookUrl }),
    teamsWebhookUrl !== undefined && channel('teams', 'Teams', { url: teamsWebhookUrl }),
    telegramBotToken !== undefined &&
      telegramChatId !== undefined &&
      channel('telegram', 'Telegram', { token: telegramBotToken, chat_id: telegramChatId }),
    pagerdutyRoutingKey !== undefined && channel('pagerduty', 'PagerDuty', { routing_key: pagerdutyRoutingKey }),
    smtpUrl !== undefined &&
      alertEmailFrom !== undefined &&
      alertEmailTo !== undefined &&
      channel('email', 'Email', { url: smtpUrl, from: alertEmailFrom, to: alertEmailTo }),
    config.ntfyUrl !== undefined && channel('ntfy', 'ntfy', { url: config.ntfyUrl }),
  ].filter((found) => found !== false)
}

/**
 * Creates missing rows, which contain the options that operators may change. A new channel starts with future alerts.
 * Several processes may do this concurrently.
 */
export async function syncEnvironmentChannels(
  db: Db,
  channels: readonly EnvironmentChannel[],
  now: number,
): Promise<void> {
  for (const { id, name, type, settings } of channels) {
    await insertMissingChannel(db, {
      ...optionColumns(defaultOptions(type)),
      id,
      name,
      type,
      managed_by: 'environment',
      sealed: null,
      destination: destinationHost(type, settings),
      created_at: now,
    })
  }
}
