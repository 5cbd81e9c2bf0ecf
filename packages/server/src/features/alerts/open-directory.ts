import type { Deps } from '../../deps.ts'
import { optionsOf } from './channel-options.ts'
import type { Directory, KnownChannel } from './directory.ts'
import {
  type ChannelRow,
  readChannelRows,
  readConfigVersion,
  readRouteRows,
  readSilenceRows,
} from './directory-queries.ts'
import { type EnvironmentChannel, environmentChannels, syncEnvironmentChannels } from './environment-channels.ts'
import { openSettings } from './sealed-settings.ts'

/**
 * Channels, routes and silences in memory. Refreshed after every change here, and every second for changes made by
 * other processes. A channel of the environment is there as long as the environment of this process names it.
 */
export class ChannelDirectory {
  readonly #deps: Pick<Deps, 'database' | 'clock' | 'log' | 'secrets'>
  readonly #environment: ReadonlyMap<string, EnvironmentChannel>
  #version = -1
  #current: Directory = { channels: [], routes: [], silences: [] }

  constructor(deps: Pick<Deps, 'config' | 'database' | 'clock' | 'log' | 'secrets'>) {
    this.#deps = deps
    this.#environment = new Map(environmentChannels(deps.config).map((channel) => [channel.id, channel]))
  }

  /** As of the last refresh, channels enabled or not; a silence may have ended since. */
  get current(): Directory {
    return this.#current
  }

  /** Gives the channels of the environment their rows, and reads everything for the first time. */
  async open(): Promise<void> {
    const { database, clock } = this.#deps
    await syncEnvironmentChannels(database.db, [...this.#environment.values()], clock.now())
    await this.refresh()
  }

  /** Reads anew what changed since the last call; mostly nothing, which costs one small query. */
  async refresh(): Promise<void> {
    const { database, clock } = this.#deps
    const version = await readConfigVersion(database.db)
    if (version === this.#version) return
    const channels = await readChannelRows(database.db)
    const routes = await readRouteRows(database.db)
    const silences = await readSilenceRows(database.db, clock.now())
    // A slower reading that began earlier must not take back what a later one brought.
    if (version <= this.#version) return
    this.#version = version
    this.#current = {
      channels: channels.flatMap((row) => this.#known(row) ?? []),
      routes: routes.map((row) => ({ match: JSON.parse(row.match), channels: JSON.parse(row.channels) })),
      silences: silences.map((row) => ({ match: JSON.parse(row.match), ends_at: Number(row.ends_at) })),
    }
  }

  /** Whether the channel of a row is one for this process; a row outlives the setting that it was made for. */
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
      // One row that somebody broke must not keep the alerts from all other channels.
      this.#deps.log.error({ err: fault, channel: id }, 'an alert channel is left out')
      return undefined
    }
  }
}
