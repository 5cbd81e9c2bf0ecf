/** Queue entry. Linking entries by `next` avoids an array per owner. */
export interface Queued {
  rows: number
  bytes: number
  /** Monotonic milliseconds. */
  since: number
  next: Queued | undefined
}

interface QueueBounds {
  rows: number
  bytes: number
  waitMs: number
}

interface Share<Entry> {
  owner: string
  head: Entry
  tail: Entry
  rows: number
  bytes: number
  /** Rows left in the owner's turn. An entry larger than a turn makes it negative, which costs the next turns. */
  credit: number
  next: Share<Entry>
}

/** Rows per turn: small enough that one commit has room for thirty owners. */
const turnRows = 32
/** Extra capacity, relative to the bounds, for owners with nothing queued who add at most one turn's rows. */
const newcomersShare = 0.25

/**
 * Queue of entries waiting for a commit: in order of arrival per owner, taking turns between owners. An owner may use
 * at most as much as is left free, so a single owner gets half of the queue and each of two owners a third (Choudhury
 * and Hahne, Dynamic queue length thresholds, 1998). Since large entries could use up the free space, small entries of
 * new owners have extra capacity.
 */
export class FairQueue<Entry extends Queued> {
  readonly #bounds: QueueBounds
  readonly #shares = new Map<string, Share<Entry>>()
  /** The share whose turn was last; the ring continues with its `next`. */
  #last: Share<Entry> | undefined
  #rows = 0
  #bytes = 0

  constructor(bounds: QueueBounds) {
    this.#bounds = bounds
  }

  get rows(): number {
    return this.#rows
  }

  get isEmpty(): boolean {
    return this.#last === undefined
  }

  /** Adds the entry. False if the owner's share is full or its oldest entry has waited too long. */
  add(owner: string, entry: Entry): boolean {
    const share = this.#shares.get(owner)
    if (!this.#fits(share, entry.rows, entry.bytes, entry.since)) return false
    this.#rows += entry.rows
    this.#bytes += entry.bytes
    if (!share) {
      this.#open(owner, entry)
      return true
    }
    share.rows += entry.rows
    share.bytes += entry.bytes
    share.tail.next = entry
    share.tail = entry
    return true
  }

  /** Whether the queue would accept an entry of this size from the owner. */
  hasRoom(owner: string, rows: number, bytes: number, now: number): boolean {
    return this.#fits(this.#shares.get(owner), rows, bytes, now)
  }

  #fits(share: Share<Entry> | undefined, rows: number, bytes: number, now: number): boolean {
    if (share && now - share.head.since > this.#bounds.waitMs) return false
    const room = share === undefined && rows <= turnRows ? 1 + newcomersShare : 1
    return (
      (share?.rows ?? 0) + rows <= this.#bounds.rows * room - this.#rows &&
      (share?.bytes ?? 0) + bytes <= this.#bounds.bytes * room - this.#bytes
    )
  }

  #open(owner: string, entry: Entry): void {
    const { rows, bytes } = entry
    const share: Share<Entry> = { owner, head: entry, tail: entry, rows, bytes, credit: 0, next: undefined as never }
    share.next = this.#last?.next ?? share
    if (this.#last) this.#last.next = share
    this.#last = share
    this.#shares.set(owner, share)
  }

  /** Moves entries of up to `maxRows` rows to `batch`, at least one if `batch` is empty. Returns their rows. */
  take(batch: Entry[], maxRows: number): number {
    let rows = 0
    // Consecutive shares whose next entry is too large for the rest of the batch.
    let skipped = 0
    while (this.#last && rows < maxRows && skipped < this.#shares.size) {
      const share = this.#last.next
      share.credit = Math.min(share.credit + turnRows, turnRows)
      const before = rows
      let head: Entry | undefined = share.head
      while (head && share.credit > 0 && (rows + head.rows <= maxRows || batch.length === 0)) {
        batch.push(head)
        rows += head.rows
        share.credit -= head.rows
        head = this.#drop(share, head)
      }
      if (rows > before) skipped = 0
      else if (share.credit > 0) skipped += 1
      if (head) this.#last = share
    }
    return rows
  }

  /** Moves the entries queued before `since` to `late`. */
  takeOlder(late: Entry[], since: number): void {
    for (let count = this.#shares.size; count > 0; count--) {
      const share = this.#last!.next
      let head: Entry | undefined = share.head
      while (head && head.since < since) {
        late.push(head)
        head = this.#drop(share, head)
      }
      if (head) this.#last = share
    }
  }

  /** Removes the first entry of the current share, and the share if it is then empty. Returns the next entry. */
  #drop(share: Share<Entry>, head: Entry): Entry | undefined {
    const next = head.next as Entry | undefined
    head.next = undefined
    share.rows -= head.rows
    share.bytes -= head.bytes
    this.#rows -= head.rows
    this.#bytes -= head.bytes
    if (next) share.head = next
    else this.#close(share)
    return next
  }

  #close(share: Share<Entry>): void {
    this.#shares.delete(share.owner)
    if (share === this.#last) this.#last = undefined
    else this.#last!.next = share.next
  }
}
