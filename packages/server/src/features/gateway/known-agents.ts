import type { ControlMessage } from '@wardline/contract'
import type { KnownState } from '../control/control-states.ts'

/** As many as can have a call open at once, about 300 bytes each. */
const maxKnown = 10_000

type Known = Pick<KnownState, 'version' | 'state'>

/**
 * Agents that were found active or suspended in the database, for the time while it is away. Their kills and resumes are
 * heard on the bus; what is forgotten counts as unknown, so that no suspension is lost without the agent's right to call.
 */
export class KnownAgents {
  /** The one that was found longest ago first. */
  readonly #states = new Map<string, Known>()
  readonly #max: number

  constructor(max = maxKnown) {
    this.#max = max
  }

  get(instanceId: string): Known | undefined {
    return this.#states.get(instanceId)
  }

  /** Notes what the database said. `before`: what was known when it was asked; a message since then is newer. */
  note(instanceId: string, { version, state }: Known, before: Known | undefined): void {
    const heard = this.#states.get(instanceId)
    const isNewer = heard !== before && heard !== undefined && heard.version > version
    this.#set(instanceId, isNewer ? heard : { version, state })
  }

  hear({ instance_id: id, action, reason, version }: ControlMessage): void {
    const known = this.#states.get(id)
    if (known && known.version >= version) return
    this.#set(id, { version, state: { suspended: action === 'suspend', reason: reason ?? null } })
  }

  #set(instanceId: string, known: Known): void {
    this.#states.delete(instanceId)
    const [oldest] = this.#states.keys()
    if (this.#states.size >= this.#max) this.#states.delete(oldest!)
    this.#states.set(instanceId, known)
  }
}
