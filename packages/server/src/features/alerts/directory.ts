import type { AlertMatch, ChannelSettings, ChannelType, QuietHours } from '@wardline/contract'
import type { Rotated } from './channels/channel.ts'
import type { Severity } from './message.ts'

/** A signing secret that was replaced. */
export interface PreviousSecret {
  secret: string
  /** Epoch milliseconds until which it signs too; null for one that the environment names, which signs as long. */
  until: number | null
}

/** A channel with its settings opened. For a try take `signingSettings`: it knows which replaced secrets still sign. */
export interface KnownChannel {
  id: string
  name: string
  type: ChannelType
  managed_by: 'api' | 'environment'
  min_severity: Severity
  enabled: boolean
  send_resolved: boolean
  daily_check: boolean
  max_per_minute: number
  quiet_hours: QuietHours | null
  /** Those of its type; URLs of `environment` are the operator's own word and go through an egress without guard. */
  settings: ChannelSettings[ChannelType]
  /** Newest first; only webhooks have any. */
  previous_secrets: readonly PreviousSecret[]
}

export interface Route {
  match: AlertMatch
  channels: readonly string[]
}

export interface Silence {
  match: AlertMatch
  /** Epoch milliseconds. */
  ends_at: number
}

/** Channels, routes and silences as this process knows them. */
export interface Directory {
  channels: readonly KnownChannel[]
  routes: readonly Route[]
  silences: readonly Silence[]
}

/** The settings for a try at this instant, with the replaced secrets that still sign. */
export function signingSettings(
  { settings, previous_secrets }: KnownChannel,
  now: number,
): ChannelSettings[ChannelType] & Rotated {
  const signing = previous_secrets.filter(({ until }) => until === null || until > now)
  return signing.length === 0 ? settings : { ...settings, previous_secrets: signing.map(({ secret }) => secret) }
}
