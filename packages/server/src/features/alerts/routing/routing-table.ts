import type { AlertMatch, ChannelType } from '@wardline/contract'
import type { Deps } from '../../../deps.ts'
import type { DecidingChannel } from '../channels/press-token.ts'
import {
  type AlertFacts,
  facesOf,
  isAtOrAbove,
  isProtectionChange,
  isSummary,
  type MatchedFacts,
  matchesAlert,
} from '../outbox/alert.ts'
import type { Recipients } from '../outbox/outbox.ts'
import { type ChannelOptions, optionsOf } from './channel-options.ts'
import { type EnvironmentChannel, environmentChannels, syncEnvironmentChannels } from './environment-channels.ts'
import { type ChannelRow, readChannelRows, readConfigVersion, readRouteRows, readSilenceRows } from './queries.ts'
import { openSettings, receiverMark, type SecretSettings } from './sealed-settings.ts'

/** A channel with decrypted settings. */
export interface KnownChannel extends ChannelOptions, SecretSettings {
  id: string
  name: string
  type: ChannelType
  /** URLs of `environment` are set by the operator and use an unrestricted egress. */
  managed_by: 'api' | 'environment'
}

/** Whether buttons of the channel decide approvals. */
export const decides = ({ enabled, settings }: Pick<KnownChannel, 'enabled' | 'settings'>): boolean =>
  enabled && 'decides' in settings && settings.decides === true

export interface Route {
  match: AlertMatch
  channels: readonly string[]
}

export interface Silence {
  match: AlertMatch
  /** Epoch milliseconds. */
  ends_at: number
}

/** Channels, routes and silences as of one read. */
interface Routing {
  channels: readonly KnownChannel[]
  routes: readonly Route[]
  silences: readonly Silence[]
}

type Matches = (match: AlertMatch, alert: MatchedFacts) => boolean

/** A summary may contain reports of any type and, without an instance, of any instance. */
const matchesSummary: Matches = ({ severities, instances }, alert) => {
  const isNarrowed = instances !== undefined && alert.instance_id !== null
  return matchesAlert({ ...(severities && { severities }), ...(isNarrowed && { instances }) }, alert)
}

function takesAs(
  { id, min_severity }: KnownChannel,
  routes: Routing['routes'],
  alert: MatchedFacts,
  matches: Matches,
): boolean {
  if (!isAtOrAbove(alert.severity, min_severity)) return false
  const own = routes.filter(({ channels }) => channels.includes(id))
  return own.length === 0 || own.some(({ match }) => matches(match, alert))
}

/**
 * Whether a channel accepts an alert. A channel named in routes accepts what one of them matches, any other accepts all;
 * never below its minimum severity. Changes of alerting and of other protection go to all channels, because their author could have
 * restricted the others first.
 */
export function takes(channel: KnownChannel, routes: Routing['routes'], alert: AlertFacts): boolean {
  if (!channel.enabled) return false
  if (isProtectionChange(alert)) return true
  const { only_channels: only = null } = alert
  if (only !== null && !(JSON.parse(only) as string[]).includes(channel.name)) return false
  const matches = isSummary(alert) ? matchesSummary : matchesAlert
  return facesOf(alert).some((face) => takesAs(channel, routes, face, matches))
}

/**
 * Channels, routes and silences in memory. Refreshed after every change here, and every second for changes by other
 * processes. A channel of the environment exists while the environment of this process contains it.
 */
export class RoutingTable implements Recipients {
  readonly #deps: Pick<Deps, 'database' | 'clock' | 'log' | 'secrets'>
  readonly #environment: ReadonlyMap<string, EnvironmentChannel>
  #version = -1
  #current: Routing = { channels: [], routes: [], silences: [] }

  constructor(deps: Pick<Deps, 'config' | 'database' | 'clock' | 'log' | 'secrets'>) {
    this.#deps = deps
    this.#environment = new Map(environmentChannels(deps.config).map((channel) => [channel.id, channel]))
  }

  /** State as of the last refresh, including disabled channels. A silence may have ended since. */
  get current(): Routing {
    return this.#current
  }

  get hasAny(): boolean {
    return this.#current.channels.length > 0
  }

  /** The channel whose server sends mail to people: the oldest that may. */
  get personal(): KnownChannel | undefined {
    return this.#current.channels.find(({ enabled, personal_mail }) => enabled && personal_mail)
  }

  /** Whether any channel accepts an alert. */
  take(alert: AlertFacts): boolean {
    const { channels, routes } = this.#current
    return channels.some((channel) => takes(channel, routes, alert))
  }

  /** The channel whose buttons decide approvals; undefined if there is none with this id that does. */
  deciding(id: string): DecidingChannel | undefined {
    const channel = this.#current.channels.find((known) => known.id === id)
    return channel && decides(channel) ? { id, name: channel.name, mark: receiverMark(channel) } : undefined
  }

  /** Creates rows for the channels of the environment, and reads everything for the first time. */
  async open(): Promise<void> {
    const { database, clock } = this.#deps
    await syncEnvironmentChannels(database.db, [...this.#environment.values()], clock.now())
    await this.refresh()
  }

  /** Reloads after changes since the last call; without any, this costs one small query. */
  async refresh(): Promise<void> {
    const { database, clock } = this.#deps
    const version = await readConfigVersion(database.db)
    if (version === this.#version) return
    const channels = await readChannelRows(database.db)
    const routes = await readRouteRows(database.db)
    const silences = await readSilenceRows(database.db, clock.now())
    // A slower read that started earlier must not replace the result of a later one.
    if (version <= this.#version) return
    this.#version = version
    this.#current = {
      channels: channels.flatMap((row) => this.#known(row) ?? []),
      routes: routes.map((row) => ({ match: JSON.parse(row.match), channels: JSON.parse(row.channels) })),
      silences: silences.map((row) => ({ match: JSON.parse(row.match), ends_at: row.ends_at })),
    }
  }

  /** Whether this process has the channel of a row. Rows stay after a setting was removed from the environment. */
  has({ id, managed_by }: Pick<ChannelRow, 'id' | 'managed_by'>): boolean {
    return managed_by === 'api' || this.#environment.has(id)
  }

  #known(row: ChannelRow): KnownChannel | undefined {
    const { id, name, type, managed_by, sealed } = row
    const options = { ...optionsOf(row), managed_by }
    if (sealed === null) {
      const named = this.#environment.get(id)
      return named && { ...named, ...options }
    }
    try {
      return { ...openSettings(id, sealed, this.#deps.secrets.channelKey), ...options, id, name, type }
    } catch (fault) {
      // A corrupted row must not stop the alerts of all other channels.
      this.#deps.log.error({ err: fault, channel: id }, 'an alert channel is left out')
      return undefined
    }
  }
}
