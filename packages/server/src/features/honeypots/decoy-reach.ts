import { mayActFor, type Principal } from '../../http/auth.ts'

/** The parts of live decoys' places that callers need to know. */
interface PlantedDecoys {
  hasKeys: boolean
  /** Instances with decoy paths; undefined when they are too many to keep in memory. */
  pathInstances: readonly string[] | undefined
}

/** Informs agents that no decoy can match for them, so that they need not ask before every call. */
export class DecoyReach {
  #planted: PlantedDecoys = { hasKeys: true, pathInstances: undefined }
  #answers = new WeakMap<Principal, boolean>()

  update(planted: PlantedDecoys): void {
    this.#planted = planted
    this.#answers = new WeakMap()
  }

  /**
   * Whether any decoy could match what this caller asks about: keys match for every caller, paths for their own
   * instances.
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
