import type { ChannelSettings, ChannelType } from '@wardline/contract'
import { apprise } from './apprise.ts'
import type { HttpChannel, SocketChannel } from './channel.ts'
import { discord } from './discord.ts'
import { email } from './email.ts'
import { ntfy } from './ntfy.ts'
import { pagerduty } from './pagerduty.ts'
import { slack } from './slack.ts'
import { splunk } from './splunk.ts'
import { syslog } from './syslog.ts'
import { teams } from './teams.ts'
import { telegram } from './telegram.ts'
import { webhook } from './webhook.ts'

/** All channel types. A new type also needs its settings in the contract. */
export const allChannels: { readonly [Type in ChannelType]: HttpChannel<Type> | SocketChannel<Type> } = {
  webhook,
  slack,
  discord,
  teams,
  telegram,
  pagerduty,
  email,
  ntfy,
  apprise,
  syslog,
  splunk,
}

/** Returns the host of the receiver, the only part of the settings that may be shown. */
export function destinationHost<Type extends ChannelType>(type: Type, settings: ChannelSettings[Type]): string {
  const channel: { destination(settings: ChannelSettings[Type]): string } = allChannels[type]
  return channel.destination(settings)
}
