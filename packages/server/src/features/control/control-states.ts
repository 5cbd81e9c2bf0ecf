import type { ControlMessage, KillSwitchState } from '@wardline/contract'
import type { Deps } from '../../deps.ts'
import { SharedRun } from '../../shared-run.ts'
import { type ControlRow, readControls } from '../instances/control-statements.ts'
import { type ControlState, controlHeaderValue } from './control-message.ts'

export interface KnownState {
  version: number
  etag: string
  issuedAt: number
  /** Signs the state for the agent, as a header. */
  control: string
  state: KillSwitchState
}

/** Instances of one query: each connection may poll another one, and a longer answer would hold the event loop. */
const maxRead = 1_000

/** A pending read of the database, and the newest state received for the instance in the meantime. */
interface Reading {
  readers: number
  heard: KnownState | undefined
}

function newest(first: KnownState, ...others: (KnownState | undefined)[]): KnownState {
  return others.reduce<KnownState>((best, other) => (other && other.version > best.version ? other : best), first)
}

/**
 * Caches the control state of polled instances. A single process answers polls from this cache without a query. One of
 * several processes queries the database and falls back to the cache while the database is unavailable. Messages of
 * the bus keep the cache current; only a higher version replaces a state.
 */
export class ControlStates {
  readonly #deps: Deps
  readonly #states = new Map<string, KnownState>()
  readonly #readings = new Map<string, Reading>()
  /** Instances that the next read of the database is for: after a start, all agents poll within half a minute. */
  readonly #wanted = new Set<string>()
  readonly #read = new SharedRun(() => this.#readWanted())
  /** Incremented on each reconnection: states read before it may have changed without a message. */
  #epoch = 0

  constructor(deps: Deps) {
    this.#deps = deps
    deps.bus.onControl((message) => this.#apply(message))
    deps.bus.onReconnect(() => {
      this.#epoch += 1
      this.#states.clear()
    })
  }

  /**
   * Returns the cached state, or undefined when it must be read first. Always undefined if several processes share the
   * database: a caller whose kill one process confirmed may poll another before the message arrives there.
   */
  peek(instanceId: string): KnownState | undefined {
    return this.#deps.database.isShared ? undefined : this.#recall(instanceId)
  }

  /** Like `readStored`, and returns the last known state while the database is unavailable. */
  async read(instanceId: string): Promise<KnownState | undefined> {
    try {
      return await this.readStored(instanceId)
    } catch (fault) {
      // While the database is unavailable nobody can kill or resume, so the last known state is still valid.
      const state = this.#recall(instanceId)
      if (!state) throw fault
      return state
    }
  }

  /**
   * Returns the state from the database; undefined for an unknown instance. If several processes share the database,
   * only the database counts: after a restore, recorded messages from before it have valid signatures and higher versions.
   */
  async readStored(instanceId: string): Promise<KnownState | undefined> {
    const epoch = this.#epoch
    const reading = this.#readings.get(instanceId) ?? { readers: 0, heard: undefined }
    this.#readings.set(instanceId, reading)
    reading.readers += 1
    try {
      this.#wanted.add(instanceId)
      const row = (await this.#read.get()).get(instanceId)
      if (!row) return undefined
      // A message may have arrived while the row was read.
      const read = this.#known(instanceId, row, row.issuedAt)
      const state = newest(read, this.#states.get(instanceId), reading.heard)
      if (this.#deps.bus.receivesAll && epoch === this.#epoch) this.#states.set(instanceId, state)
      return this.#deps.database.isShared ? read : state
    } finally {
      reading.readers -= 1
      if (reading.readers === 0) this.#readings.delete(instanceId)
    }
  }

  /** Removes a deleted instance. */
  forget(instanceId: string): void {
    this.#states.delete(instanceId)
  }

  async #readWanted(): Promise<Map<string, ControlRow>> {
    const ids = [...this.#wanted]
    this.#wanted.clear()
    const rows = new Map<string, ControlRow>()
    for (let first = 0; first < ids.length; first += maxRead) {
      const some = await readControls(this.#deps.database, ids.slice(first, first + maxRead))
      for (const [id, row] of some) rows.set(id, row)
    }
    return rows
  }

  #known(instanceId: string, state: ControlState, issuedAt: number): KnownState {
    const { version, suspended, reason } = state
    const known = this.#states.get(instanceId)
    // Of several processes each reads the database at each poll. A signature takes longer than all the rest of a poll.
    const isKnown = known?.version === version && known.issuedAt === issuedAt
    if (isKnown && known.state.suspended === suspended && known.state.reason === reason) return known
    const control = controlHeaderValue(instanceId, state, issuedAt, this.#deps.controlSigner)
    return { version, etag: `W/"${version}"`, issuedAt, control, state: { suspended, reason } }
  }

  #recall(instanceId: string): KnownState | undefined {
    return this.#deps.bus.receivesAll ? this.#states.get(instanceId) : undefined
  }

  /**
   * Applies a message only to a state that was read from the database. A replayed message has a valid signature, and
   * would otherwise restore an old state of an instance that has not been read yet.
   */
  #apply({ instance_id, action, reason, version, issued_at }: ControlMessage): void {
    const current = this.#states.get(instance_id)
    const reading = this.#readings.get(instance_id)
    if (!current && !reading) return
    const message = this.#known(
      instance_id,
      { version, suspended: action === 'suspend', reason: reason ?? null },
      Date.parse(issued_at),
    )
    if (current) this.#states.set(instance_id, newest(current, message))
    if (reading) reading.heard = newest(message, reading.heard)
  }
}
