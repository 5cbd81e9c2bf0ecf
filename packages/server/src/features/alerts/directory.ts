import type { AlertMatch, ChannelSettings, ChannelType, QuietHours } from '@wardline/contract'
import type { Rotated } from './channels/channel.ts'
import type { Severity } from './message.ts'

/** A channel with its settings opened. */
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
  settings: ChannelSettings[ChannelType] & Rotated
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
