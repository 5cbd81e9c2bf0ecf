import { type Linked, UseOrder } from './by-use.ts'
import type { MemoryLimit } from './memory-limit.ts'

/** Share of what several instances use. No instance has this name. */
const severalName = '*'
/** Bytes of a share itself, with its place in the map. */
const shareBytes = 224
/** Shares below this size are not compared: a limit has room for a few thousand larger ones. */
const largeBytes = 16 * 1024

/** Something that a rule keeps, in the share of the instance that caused it. */
export interface Owned<Item extends Owned<Item>> extends Linked<Item> {
  share: Share<Item> | undefined
  bytes: number
  /** Time of its last use. */
  at: number
}

export interface Share<Item extends Owned<Item>> extends Linked<Share<Item>> {
  readonly name: string
  bytes: number
  /** Oldest first. */
  readonly items: UseOrder<Item>
}

/** Items by the instance that caused them, within a limit of bytes. */
export class Shares<Item extends Owned<Item>> {
  readonly #limit: MemoryLimit
  readonly #dropped: (item: Item) => void
  readonly #byName = new Map<string, Share<Item>>()
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
    if (share) this.#order.use(share)
    else {
      share = { name, bytes: 0, items: new UseOrder(), older: undefined, newer: undefined }
      this.#byName.set(name, share)
      this.#order.append(share)
      this.#grow(share, shareBytes)
    }
    item.share = share
    share.items.append(item)
    this.#grow(share, item.bytes)
  }

  /** Makes an item the most recently used; an item of another instance becomes one of several. */
  use(item: Item, name: string): void {
    const share = item.share!
    if (share.name !== name && share.name !== severalName) {
      this.#leave(item)
      this.add(item, severalName)
      return
    }
    share.items.use(item)
    this.#order.use(share)
  }

  resize(item: Item, bytes: number): void {
    if (bytes === item.bytes) return
    this.#grow(item.share!, bytes - item.bytes)
    item.bytes = bytes
  }

  /** Drops items last used before a time: those in the share of an item that was just used, and in shares without use. */
  dropBefore(time: number, { share: used }: Item): void {
    for (let share = this.#order.oldest!; share !== used && this.#dropOld(share, time); share = this.#order.oldest!);
    this.#dropOld(used!, time)
  }

  /** Drops the oldest items of an instance until its share has at most so many bytes. */
  trim(name: string, bytes: number): void {
    const share = this.#byName.get(name)
    while (share && share.bytes > bytes) this.#evict(share, name)
  }

  giveWay(isOfSeveral: boolean, cause: string, isEnough: () => boolean): void {
    const share = isOfSeveral ? this.#byName.get(severalName)! : (this.#largest ?? this.#oldestOfOne()!)
    const half = share.bytes / 2
    do this.#evict(share, cause)
    while (!isEnough() && share.bytes > half)
  }

  clear(): void {
    for (let share = this.#order.oldest; share; share = this.#order.oldest) this.#remove(share.items.oldest!)
  }

  /** Returns whether the share is empty then. */
  #dropOld(share: Share<Item>, time: number): boolean {
    const { items } = share
    for (let { oldest } = items; oldest && oldest.at < time; { oldest } = items) this.#remove(oldest)
    return items.oldest === undefined
  }

  #oldestOfOne(): Share<Item> | undefined {
    const { oldest } = this.#order
    return oldest?.name === severalName ? oldest.newer : oldest
  }

  /** What several instances use counts for the one whose event was processed. */
  #evict(share: Share<Item>, cause: string): void {
    this.#remove(share.items.oldest!)
    this.#limit.count(share.name === severalName ? cause : share.name)
  }

  #remove(item: Item): void {
    this.#leave(item)
    this.#dropped(item)
  }

  #leave(item: Item): void {
    const share = item.share!
    share.items.unlink(item)
    this.#grow(share, -item.bytes)
    if (share.items.oldest !== undefined) return
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
