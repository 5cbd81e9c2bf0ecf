import { type ChannelSettings, type ChannelType, channelKinds } from '@wardline/contract'
import { channelVariables } from '../../../config/alerts.ts'
import type { Config } from '../../../config/config.ts'
import type { Db } from '../../../db/database.ts'
import { destinationHost } from '../channels/all-channels.ts'
import { defaultOptions, optionColumns } from './channel-options.ts'
import { insertMissingChannel } from './queries.ts'
import type { SecretSettings } from './sealed-settings.ts'

/** A channel of the environment, without the options in its row. */
export interface EnvironmentChannel extends SecretSettings {
  id: string
  name: string
  type: ChannelType
}

/** Returns one channel per receiver in the configuration, which has all settings of a channel or none. */
export function environmentChannels(config: Config): EnvironmentChannel[] {
  const given = channelVariables.filter(({ name }) => config[name] !== undefined)
  return [...Map.groupBy(given, ({ channel }) => channel.type)].map(([type, variables]) => {
    const settings = Object.fromEntries(variables.map(({ name, channel }) => [channel.field, config[name]]))
    const [secret, ...older] = (type === 'webhook' && config.alertWebhookSecrets) || []
    return {
      id: `env-${type}`,
      name: `${channelKinds[type].label} (environment)`,
      type,
      settings: (secret === undefined ? settings : { ...settings, secret }) as ChannelSettings[ChannelType],
      previous_secrets: older.map((old) => ({ secret: old, until: null })),
    }
  })
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
