/** Things that rules keep, in shares of the instances that caused them. */
interface Holder {
  readonly bytes: number
  /** Bytes of what several instances use. */
  readonly severalBytes: number
  /** Bytes of the largest share of one instance; 0 if all are small. */
  readonly largestBytes: number
  /**
   * Drops what was used longest ago, until it is enough or half of the share is gone: from the share of several instances,
   * or from the largest one. If all are small, from those used longest ago, until a part of them is gone.
   */
  giveWay(isOfSeveral: boolean, cause: string, isEnough: () => boolean): void
}

/** Instances named in an eviction report; the others are only counted. */
const maxNamed = 1_000
/** One part in this many of the limit is freed at once, so that looking for the largest share costs little per event. */
const slackParts = 256
/** Shares of this part of the largest one give way together with it. */
const similar = 7 / 8

/**
 * Maximum bytes of what rules keep. Beyond it the largest share loses what was used longest ago in it: a flood makes the
 * service forget what the flooding instance caused, and nothing else. What several instances use goes first only while it
 * is more than half, because no instance fills that alone. Instances that all have little lose it in the order of use.
 */
export class MemoryLimit {
  readonly #max: number
  readonly #holders: Holder[] = []
  #within: MemoryLimit | undefined
  bytes = 0
  /** Dropped at the limit, in total and by instance; the eviction report clears the latter. */
  evicted = 0
  readonly evictedBy = new Map<string, number>()

  constructor(max: number) {
    this.#max = max
  }

  add(holder: Holder): void {
    this.#holders.push(holder)
  }

  /** Limits the sum of several limits. Each belongs to the sum that it joined last. */
  join(limit: MemoryLimit): void {
    limit.#within = this
    this.bytes += limit.bytes
    this.#holders.push(...limit.#holders)
  }

  grow(bytes: number): void {
    this.bytes += bytes
    if (this.#within) this.#within.bytes += bytes
  }

  /** Drops what is too much. `cause`: instance of the event that was processed. */
  settle(cause: string): void {
    if (this.bytes > this.#max) this.#evict(cause)
    this.#within?.settle(cause)
  }

  count(instance: string): void {
    this.evicted += 1
    const before = this.evictedBy.get(instance)
    if (before !== undefined || this.evictedBy.size < maxNamed) this.evictedBy.set(instance, (before ?? 0) + 1)
  }

  #evict(cause: string): void {
    const low = this.#max - Math.floor(this.#max / slackParts)
    const isEnough = () => this.bytes <= low
    while (this.bytes > this.#max) {
      const several = this.#holders.reduce((sum, { severalBytes }) => sum + severalBytes, 0)
      const isOfSeveral = several > this.bytes / 2
      for (const holder of this.#fullest(isOfSeveral)) {
        holder.giveWay(isOfSeveral, cause, isEnough)
        if (isEnough()) return
      }
    }
  }

  /**
   * The holder with the largest share, and after it those with almost as much: hundreds of rules may have the same little
   * shares, and to look for the largest after each of them takes longer than everything else.
   */
  #fullest(isOfSeveral: boolean): Holder[] {
    const sized = (sizeOf: (holder: Holder) => number) => {
      const sizes = this.#holders.map(sizeOf)
      const largest = sizes.reduce((found, size) => Math.max(found, size), 0)
      const first = sizes.indexOf(largest)
      const others = this.#holders.filter((_, index) => index !== first && sizes[index]! >= similar * largest)
      return { largest, holders: [this.#holders[first]!, ...others] }
    }
    if (isOfSeveral) return sized(({ severalBytes }) => severalBytes).holders
    const { largest, holders } = sized(({ largestBytes }) => largestBytes)
    return largest > 0 ? holders : sized(({ bytes, severalBytes }) => bytes - severalBytes).holders
  }
}
