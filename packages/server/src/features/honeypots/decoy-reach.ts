import { mayActFor, type Principal } from '../../http/auth.ts'

/** Where live decoys are planted, as far as callers need to know. */
interface PlantedDecoys {
  hasKeys: boolean
  /** Instances with decoy paths; undefined if they are too many to keep in memory. */
  pathInstances: readonly string[] | undefined
}

/** Tells agents whether any decoy can match for them, so that agents without one need no check before every call. */
export class DecoyReach {
  #planted: PlantedDecoys = { hasKeys: true, pathInstances: undefined }
  #answers = new WeakMap<Principal, boolean>()

  update(planted: PlantedDecoys): void {
    this.#planted = planted
    this.#answers = new WeakMap()
  }

  /**
   * Whether any decoy can match for this caller: keys match for every caller, paths only for their own instances.
   */
  reaches(principal: Principal): boolean {
    const known = this.#answers.get(principal)
    if (known !== undefined) return known
    const { hasKeys, pathInstances } = this.#planted
    const answer = hasKeys || (pathInstances?.some((id) => mayActFor(principal, id)) ?? true)
    this.#answers.set(principal, answer)
    return answer
  }
}
