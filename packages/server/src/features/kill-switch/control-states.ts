import type { ControlMessage, KillSwitchState } from '@wardline/contract'
import type { Deps } from '../../deps.ts'
import { readControl } from '../instances/control-statements.ts'
import { type ControlState, controlHeaderValue } from './control-message.ts'

export interface KnownState {
  version: number
  etag: string
  issuedAt: number
  /** Signs the state for the agent, as a header. */
  control: string
  state: KillSwitchState
}

/** A reading of the database that has not ended, and the newest that was heard of the instance meanwhile. */
interface Reading {
  readers: number
  heard: KnownState | undefined
}

function newest(first: KnownState, ...others: (KnownState | undefined)[]): KnownState {
  return others.reduce<KnownState>((best, other) => (other && other.version > best.version ? other : best), first)
}

/**
 * The control state of the instances that were asked for, in memory. A process that is alone answers polls from it
 * without a query; one of several asks the database, and needs it only while that is away. Messages of the bus keep it
 * current; only a higher version counts.
 */
export class ControlStates {
  readonly #deps: Deps
  readonly #states = new Map<string, KnownState>()
  readonly #readings = new Map<string, Reading>()
  /** Grows with each reconnection: what was read before it may have changed unheard. */
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
   * The state at hand, or undefined when it must be read first. Where several processes share the database it always
   * must: a caller to whom one process confirmed a kill may ask another before its message arrives.
   */
  peek(instanceId: string): KnownState | undefined {
    return this.#deps.database.isShared ? undefined : this.#recall(instanceId)
  }

  /**
   * The state from the database; undefined for an unknown instance. Where others share the database, only it is right:
   * after a backup was restored, messages of the time before are signed, and have higher versions.
   */
  async read(instanceId: string): Promise<KnownState | undefined> {
    const epoch = this.#epoch
    const reading = this.#readings.get(instanceId) ?? { readers: 0, heard: undefined }
    this.#readings.set(instanceId, reading)
    reading.readers += 1
    try {
      const row = await readControl(this.#deps.database.db, instanceId)
      if (!row) return undefined
      // A message may have come while the row was read.
      const read = this.#known(instanceId, row, row.issuedAt)
      const state = newest(read, this.#states.get(instanceId), reading.heard)
      if (this.#deps.bus.receivesAll && epoch === this.#epoch) this.#states.set(instanceId, state)
      return this.#deps.database.isShared ? read : state
    } catch (fault) {
      // While the database is down no one can kill or resume: the last known state still holds.
      const state = this.#recall(instanceId)
      if (!state) throw fault
      return state
    } finally {
      reading.readers -= 1
      if (reading.readers === 0) this.#readings.delete(instanceId)
    }
  }

  /** An instance that was deleted is unknown from now on. */
  forget(instanceId: string): void {
    this.#states.delete(instanceId)
  }

  #known(instanceId: string, state: ControlState, issuedAt: number): KnownState {
    const { version, suspended, reason } = state
    const control = controlHeaderValue(instanceId, state, issuedAt, this.#deps.controlSigner)
    return { version, etag: `W/"${version}"`, issuedAt, control, state: { suspended, reason } }
  }

  #recall(instanceId: string): KnownState | undefined {
    return this.#deps.bus.receivesAll ? this.#states.get(instanceId) : undefined
  }

  /**
   * A message counts only beside what the database said: an old one that is published again has a valid signature too,
   * and would otherwise restore an old state for an instance that has not been read yet.
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
