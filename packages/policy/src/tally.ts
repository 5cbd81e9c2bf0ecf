/** Entries of one limit that are kept apart; more are joined by fiftieths of the window. */
const maxEntries = 50
/** Entries of all limits of a session, about 20 KiB. */
const maxTotal = 800

/** What was counted at a time, in milliseconds since the epoch: calls, or amounts. */
type Entry = [at: number, amount: number]

/**
 * What the limits of a session have counted, by the key of the limit. Bounded: entries are joined rather than forgotten, and
 * count as the later of them, so that a limit holds a little longer and never loosens.
 */
export class Tally {
  readonly #entries = new Map<string, Entry[]>()

  constructor(stored: Readonly<Record<string, readonly number[]>> = {}) {
    this.addAll(stored)
  }

  /** Adds what another tally has stored. */
  addAll(stored: Readonly<Record<string, readonly number[]>>): void {
    for (const [key, numbers] of Object.entries(stored)) {
      const entries = this.#entries.get(key) ?? []
      for (let at = 0; at + 1 < numbers.length; at += 2) entries.push([numbers[at]!, numbers[at + 1]!])
      if (entries.length > 0)
        this.#entries.set(
          key,
          entries.sort(([one], [other]) => one - other),
        )
    }
    this.#bound()
  }

  /** Returns the numbers in pairs of time and amount. */
  stored(): Record<string, number[]> {
    return Object.fromEntries([...this.#entries].map(([key, entries]) => [key, entries.flat()]))
  }

  /** Returns the sum of what was counted in the window that ends at a time. */
  sum(key: string, withinMs: number, at: number): number {
    let sum = 0
    for (const [time, amount] of this.#entries.get(key) ?? []) if (time > at - withinMs) sum += amount
    return sum
  }

  add(key: string, withinMs: number, at: number, amount: number): void {
    const recent = (this.#entries.get(key) ?? []).filter(([time]) => time > at - withinMs)
    recent.push([at, amount])
    const width = withinMs / maxEntries
    const joined = recent.length > maxEntries ? joinedBy(recent, (one) => Math.floor(one[0] / width)) : recent
    this.#entries.delete(key)
    this.#entries.set(key, joined)
    this.#bound()
  }

  #bound(): void {
    let total = 0
    for (const entries of this.#entries.values()) total += entries.length
    while (total > maxTotal) {
      const [key, longest] = [...this.#entries].reduce((one, other) => (other[1].length > one[1].length ? other : one))
      // More limits than entries: the one that was counted longest ago goes.
      if (longest.length === 1) {
        this.#entries.delete(this.#entries.keys().next().value!)
        total -= 1
        continue
      }
      const joined = joinedBy(longest, (_entry, at) => Math.floor(at / 2))
      this.#entries.set(key, joined)
      total -= longest.length - joined.length
    }
  }
}

/** Joins neighbours of the same group into one entry at the later time. */
function joinedBy(entries: readonly Entry[], groupOf: (entry: Entry, at: number) => number): Entry[] {
  const joined: Entry[] = []
  let last: number | undefined
  for (const [at, entry] of entries.entries()) {
    const group = groupOf(entry, at)
    const previous = joined.at(-1)
    if (previous && group === last) {
      joined[joined.length - 1] = [Math.max(previous[0], entry[0]), previous[1] + entry[1]]
    } else joined.push(entry)
    last = group
  }
  return joined
}
