import type { Principal } from '../../http/auth.ts'
import { everyAgent, mayTrip } from './decoy-scope.ts'

/** Where live decoys are planted, as far as callers need to know. */
interface PlantedDecoys {
  hasKeys: boolean
  /** Instances with decoy paths; undefined if they are too many to keep in memory. */
  pathInstances: readonly string[] | undefined
}

/** Tells agents whether any decoy can match for them, so that agents without one need no check before every call. */
export class DecoyReach {
  #planted: PlantedDecoys = { hasKeys: true, pathInstances: undefined }
  #pathInstances: ReadonlySet<string> | undefined
  #answers = new WeakMap<Principal, boolean>()

  update(planted: PlantedDecoys): void {
    this.#planted = planted
    this.#pathInstances = planted.pathInstances && new Set(planted.pathInstances)
    this.#answers = new WeakMap()
  }

  /**
   * Whether any decoy can match for this caller: keys match for every caller, paths for their own instance or for every agent.
   */
  reaches(principal: Principal): boolean {
    const known = this.#answers.get(principal)
    if (known !== undefined) return known
    const { hasKeys, pathInstances } = this.#planted
    const answer = hasKeys || (pathInstances?.some((id) => mayTrip(principal, { instance_id: id })) ?? true)
    this.#answers.set(principal, answer)
    return answer
  }

  get hasKeys(): boolean {
    return this.#planted.hasKeys
  }

  /** Whether a decoy path can match for this agent; undefined: one that is not named. */
  reachesPathsOf(instanceId: string | undefined): boolean {
    const known = this.#pathInstances
    return known?.has(everyAgent) !== false || (instanceId !== undefined && known.has(instanceId))
  }
}
