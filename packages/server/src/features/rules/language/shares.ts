import { type Linked, UseOrder } from './by-use.ts'
import type { MemoryLimit } from './memory-limit.ts'

/** Share of what several instances use. No instance has this name. */
const severalName = '*'
/** Bytes of a share itself, with its place in the map. */
const shareBytes = 224
/** Shares below this size are not compared: a limit has room for a few thousand larger ones. */
const largeBytes = 16 * 1024
/** One part in this many of small shares gives way at once, so that several holders lose some and none loses much. */
const smallParts = 16
/** Items without use dropped per event. More than an event adds, and little: they may all have had their last use at once. */
const maxOld = 16

/** Something that a rule keeps, in the share of the instance that caused it. */
export interface Owned<Item extends Owned<Item>> extends Linked<Item> {
  share: Share<Item> | undefined
  bytes: number
  /** Time of its last use. */
  at: number
}

/** Items of one instance, in the order of use. One object with its own places, because each event touches it. */
class Share<Item extends Owned<Item>> extends UseOrder<Item> implements Linked<Share<Item>> {
  readonly name: string
  bytes = 0
  older: Share<Item> | undefined = undefined
  newer: Share<Item> | undefined = undefined
  /** Time of its last use, and the time when it came to its place among the shares. */
  at: number
  placedAt: number

  constructor(name: string, time: number) {
    super()
    this.name = name
    this.at = time
    this.placedAt = time
  }
}

/** Items by the instance that caused them, within a limit of bytes. */
export class Shares<Item extends Owned<Item>> {
  readonly #limit: MemoryLimit
  readonly #dropped: (item: Item) => void
  readonly #byName = new Map<string, Share<Item>>()
  /** In the order of their places. A share that was used since keeps its place until it is looked at. */
  readonly #order = new UseOrder<Share<Item>>()
  readonly #large = new Set<Share<Item>>()
  bytes = 0

  /** `dropped` is called for each item that leaves. */
  constructor(limit: MemoryLimit, dropped: (item: Item) => void) {
    this.#limit = limit
    this.#dropped = dropped
    limit.add(this)
  }

  get severalBytes(): number {
    return this.#byName.get(severalName)?.bytes ?? 0
  }

  get largestBytes(): number {
    return this.#largest?.bytes ?? 0
  }

  /** The largest share of one instance; undefined if all are small. */
  get #largest(): Share<Item> | undefined {
    let largest: Share<Item> | undefined
    for (const share of this.#large) if (largest === undefined || share.bytes > largest.bytes) largest = share
    return largest
  }

  /** Adds an item as the most recently used of an instance. */
  add(item: Item, name: string): void {
    let share = this.#byName.get(name)
    if (share) share.at = item.at
    else {
      share = new Share(name, item.at)
      this.#byName.set(name, share)
      this.#order.append(share)
      this.#grow(share, shareBytes)
    }
    item.share = share
    share.append(item)
    this.#grow(share, item.bytes)
  }

  /** Call when the time of an item changed: it becomes the most recently used, and of several if the instance is another. */
  use(item: Item, name: string): void {
    const share = item.share!
    if (share.name !== name && share.name !== severalName) {
      this.#leave(item)
      this.add(item, severalName)
      return
    }
    share.use(item)
    share.at = item.at
  }

  resize(item: Item, bytes: number): void {
    if (bytes === item.bytes) return
    this.#grow(item.share!, bytes - item.bytes)
    item.bytes = bytes
  }

  /**
   * Drops some items last used before a time: those in the share of an item that was just used, and in shares without use.
   * What is left has no effect, and goes with the next events.
   */
  dropBefore(time: number, { share: used, at }: Item): void {
    if (used!.oldest!.at >= time && this.#order.oldest!.placedAt >= time) return
    let left = maxOld - this.#dropOld(used!, time, maxOld)
    for (let share = this.#order.oldest!; left > 0 && share.placedAt < time; share = this.#order.oldest!) {
      left -= 1 + this.#dropOld(share, time, left)
      if (share.oldest !== undefined && share.oldest.at >= time) this.#place(share, at)
    }
  }

  /** Drops the oldest items of an instance until its share has at most so many bytes. */
  trim(name: string, bytes: number): void {
    const share = this.#byName.get(name)
    while (share && share.bytes > bytes) this.#evict(share, name)
  }

  giveWay(isOfSeveral: boolean, cause: string, isEnough: () => boolean): void {
    const share = isOfSeveral ? this.#byName.get(severalName)! : this.#largest
    const bytes = () => (share ? share.bytes : this.bytes - this.severalBytes)
    const left = share ? share.bytes / 2 : bytes() * (1 - 1 / smallParts)
    do this.#evict(share ?? this.#oldestOfOne(), cause)
    while (!isEnough() && bytes() > left)
  }

  clear(): void {
    for (let share = this.#order.oldest; share; share = this.#order.oldest) this.#remove(share.oldest!)
  }

  /** Returns how many were dropped, at most `max`. */
  #dropOld(share: Share<Item>, time: number, max: number): number {
    let dropped = 0
    for (let { oldest } = share; oldest && oldest.at < time && dropped < max; { oldest } = share) {
      this.#remove(oldest)
      dropped += 1
    }
    return dropped
  }

  /** The share of one instance that was used longest ago. */
  #oldestOfOne(): Share<Item> {
    for (let share = this.#order.oldest!; ; share = this.#order.oldest!) {
      if (share.name !== severalName && share.at <= share.placedAt) return share
      this.#place(share, share.at)
    }
  }

  #place(share: Share<Item>, time: number): void {
    share.placedAt = time
    this.#order.use(share)
  }

  /** What several instances use counts for the one whose event was processed. */
  #evict(share: Share<Item>, cause: string): void {
    this.#remove(share.oldest!)
    this.#limit.count(share.name === severalName ? cause : share.name)
  }

  #remove(item: Item): void {
    this.#leave(item)
    this.#dropped(item)
  }

  #leave(item: Item): void {
    const share = item.share!
    share.unlink(item)
    this.#grow(share, -item.bytes)
    if (share.oldest !== undefined) return
    this.#grow(share, -share.bytes)
    this.#byName.delete(share.name)
    this.#order.unlink(share)
  }

  #grow(share: Share<Item>, bytes: number): void {
    const before = share.bytes
    share.bytes += bytes
    this.bytes += bytes
    this.#limit.grow(bytes)
    if (before < largeBytes === share.bytes < largeBytes || share.name === severalName) return
    if (share.bytes >= largeBytes) this.#large.add(share)
    else this.#large.delete(share)
  }
}
