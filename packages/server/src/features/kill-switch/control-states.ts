import type { ControlMessage, KillSwitchState } from '@wardline/contract'
import type { Deps } from '../../deps.ts'
import { readControl } from './queries.ts'

export interface KnownState {
  version: number
  etag: string
  state: KillSwitchState
}

function known(version: number, suspended: boolean, reason: string | null): KnownState {
  return { version, etag: `W/"${version}"`, state: { suspended, reason } }
}

/**
 * The control state of the instances that were asked for, in memory, so that a poll costs no query.
 * Messages of the bus keep it current; only a higher version counts.
 */
export class ControlStates {
  readonly #deps: Deps
  readonly #states = new Map<string, KnownState>()

  constructor(deps: Deps) {
    this.#deps = deps
    deps.bus.onControl((message) => this.#apply(message))
  }

  /** The state at hand, or undefined when it must be read first. */
  peek(instanceId: string): KnownState | undefined {
    return this.#states.get(instanceId)
  }

  /** The state from the database; undefined for an unknown instance. */
  async read(instanceId: string): Promise<KnownState | undefined> {
    const row = await readControl(this.#deps.database.db, instanceId)
    if (!row) return undefined
    // A message may have come while the row was read.
    const current = this.#states.get(instanceId)
    if (current && current.version >= row.version) return current
    const state = known(row.version, row.suspended, row.reason)
    this.#states.set(instanceId, state)
    return state
  }

  #apply({ instance_id, action, reason, version }: ControlMessage): void {
    const current = this.#states.get(instance_id)
    if (current && current.version >= version) return
    this.#states.set(instance_id, known(version, action === 'suspend', reason ?? null))
  }
}
