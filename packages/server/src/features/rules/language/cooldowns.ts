import { compactKey } from './group-keys.ts'
import type { MemoryLimit } from './memory-limit.ts'
import { type Owned, Shares } from './shares.ts'

/** A firing: its group, and the instance of the event that completed it, '' = none. */
export interface Fired {
  group: string
  instance: string
  time: number
}

/** When a group last fired for an instance. */
interface Cooldown extends Owned<Cooldown> {
  readonly key: string
}

/** Bytes of a cooldown with its key and its place in the map. */
const cooldownBytes = 288

/**
 * Cooldowns of a rule, for each group and instance: an agent that shares a group with another must not be able to silence
 * the group for it.
 */
export class Cooldowns {
  readonly #byKey = new Map<string, Cooldown>()
  readonly #shares: Shares<Cooldown>

  constructor(limit: MemoryLimit) {
    this.#shares = new Shares(limit, ({ key }) => this.#byKey.delete(key))
  }

  /** Whether a firing is over its cooldown and its budget. Only then it begins another cooldown, because it is stored. */
  mayFire(fired: Fired, cooldown: number, spend: () => boolean): boolean {
    if (cooldown === 0) return spend()
    const { time } = fired
    const key = keyOf(fired)
    const known = this.#byKey.get(key)
    if (known && time - known.at < cooldown) return false
    if (!spend()) return false
    this.#shares.dropBefore(time - cooldown, this.#note(key, fired))
    return true
  }

  /** Adds stored firings, oldest first. */
  restore(firings: readonly Fired[]): void {
    for (const fired of firings) this.#note(keyOf(fired), fired)
  }

  clear(): void {
    this.#shares.clear()
  }

  #note(key: string, { instance, time }: Fired): Cooldown {
    const known = this.#byKey.get(key)
    if (known) {
      known.at = Math.max(known.at, time)
      this.#shares.use(known, instance)
      return known
    }
    const cooldown: Cooldown = {
      key,
      at: time,
      bytes: cooldownBytes,
      share: undefined,
      older: undefined,
      newer: undefined,
    }
    this.#byKey.set(key, cooldown)
    this.#shares.add(cooldown, instance)
    return cooldown
  }
}

const keyOf = ({ group, instance }: Fired): string => compactKey(`${instance} ${group}`)
