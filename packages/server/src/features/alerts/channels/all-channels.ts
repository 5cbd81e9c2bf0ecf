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

/** Every type of channel: a new one gets its settings in the contract and its line here. */
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

/** Host of the receiver: all of its settings that may be shown. */
export function destinationHost<Type extends ChannelType>(type: Type, settings: ChannelSettings[Type]): string {
  const channel: { destination(settings: ChannelSettings[Type]): string } = allChannels[type]
  return channel.destination(settings)
}
