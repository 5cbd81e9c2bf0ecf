import type { EventFields } from '../../db/schema/events.ts'

/** Two seconds at 5,000 events a second; older rows come from the database. */
const maxRows = 10_000
const maxBytes = 8 * 1024 * 1024
/** Dropped rows stay in memory until there are this many to remove at once. */
const maxDroppedRows = 256

const bytesOf = (row: EventFields) => 300 + row.description.length + (row.metadata?.length ?? 0)

/** Keeps the newest rows in memory, without gaps. */
export class RecentEvents {
  #rows: EventFields[] = []
  #start = 0
  #bytes = 0

  /** Appends the row that follows the newest one. */
  add(row: EventFields): void {
    this.#rows.push(row)
    this.#bytes += bytesOf(row)
    while (this.#rows.length - this.#start > maxRows || this.#bytes > maxBytes) {
      this.#bytes -= bytesOf(this.#rows[this.#start]!)
      this.#start += 1
    }
    // Removes dropped rows in batches, because shifting each time would move the whole array.
    if (this.#start > maxDroppedRows) {
      this.#rows = this.#rows.slice(this.#start)
      this.#start = 0
    }
  }

  /** Starts over after a gap. */
  clear(): void {
    if (this.#rows.length === 0) return
    this.#rows = []
    this.#start = 0
    this.#bytes = 0
  }

  /** Returns up to `limit` rows after `seq`; undefined when some of them are no longer in memory. */
  after(seq: number, limit: number): EventFields[] | undefined {
    const oldest = this.#rows[this.#start]
    if (!oldest || seq + 1 < oldest.seq) return undefined
    const from = this.#start + (seq + 1 - oldest.seq)
    return this.#rows.slice(from, from + limit)
  }
}
