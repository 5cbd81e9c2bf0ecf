import type { Witness } from '@wardline/contract'
import type { Deps } from '../../deps.ts'
import { AppError } from '../../errors.ts'
import type { Principal } from '../../http/auth.ts'
import type { HeardBy } from './heard-by.ts'
import type { Heartbeats } from './instances.ts'
import { readTraits } from './traits.ts'

/** Between two heartbeats for an agent that is only observed: an outage of up to five of them is no silence. */
const heartbeatMs = 15_000
/** Agents that are remembered as heard: more than are heard within a few seconds, about 200 bytes each. */
const maxHeard = 10_000

export interface ObservedParts {
  heartbeats: Pick<Heartbeats, 'beat'>
  heardBy: Pick<HeardBy, 'note'>
}

/** By what agents are observed, and the type of those that only this observes. */
interface Observer {
  witness: Witness
  agentType: string
}

interface Said {
  /** Agents that were not looked at for a while. */
  due: string[]
  /** Those that were not registered. */
  unknown: Set<string>
  /** Why agents beyond the limit of instances are not registered. */
  refused: Map<string, AppError>
}

/** Registers agents that something other than a client of theirs shows, and sends the heartbeats of those that have none. */
export class ObservedAgents {
  readonly #deps: Pick<Deps, 'database' | 'clock'>
  readonly #parts: ObservedParts
  readonly #observer: Observer
  /** When this process last looked at an agent, in monotonic milliseconds. */
  readonly #heard = new Map<string, number>()

  constructor(deps: Pick<Deps, 'database' | 'clock'>, parts: ObservedParts, observer: Observer) {
    this.#deps = deps
    this.#parts = parts
    this.#observer = observer
  }

  has(instanceId: string): boolean {
    return this.#heard.has(instanceId)
  }

  /** Rejects with AppError, but not for agents beyond the limit of instances. */
  async sayAlive(agents: Iterable<string>, principal: Principal, address: string | null): Promise<Said> {
    const { clock, database } = this.#deps
    const { heartbeats, heardBy } = this.#parts
    const { witness, agentType } = this.#observer
    const now = clock.monotonic()
    const due = [...agents].filter((id) => now - (this.#heard.get(id) ?? -Infinity) >= heartbeatMs)
    const known = await readTraits(database.db, due)
    const unknown = new Set(due.filter((id) => !known.has(id)))
    const refused = new Map<string, AppError>()
    const beat = async (id: string) => {
      try {
        await heartbeats.beat({ instance_id: id, name: id, agent_type: agentType }, principal, address)
      } catch (fault) {
        if (!(fault instanceof AppError && fault.code === 'instance_limit')) throw fault
        refused.set(id, fault)
      }
    }
    await Promise.all(due.filter((id) => unknown.has(id) || known.get(id)!.agentType === agentType).map(beat))
    const heard = due.filter((id) => !refused.has(id))
    if (this.#heard.size + heard.length > maxHeard) this.#heard.clear()
    for (const id of heard) {
      this.#heard.set(id, now)
      heardBy.note(id, witness, clock.now())
    }
    return { due, unknown, refused }
  }
}
