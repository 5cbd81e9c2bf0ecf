import type { EventFields } from '../../db/schema/events.ts'

/** Rows kept: two seconds at 5,000 events a second. Older ones are read from the database. */
const maxRows = 10_000

/** The newest events from the bus, without gaps, so that a runner that keeps up does not read the database. */
export class NearEvents {
  #rows: EventFields[] = []

  add(rows: readonly EventFields[]): void {
    for (const row of rows) {
      const last = this.#rows.at(-1)?.seq
      if (last !== undefined && row.seq <= last) continue
      // After a gap start again; earlier events are read from the database.
      if (last !== undefined && row.seq !== last + 1) this.#rows = []
      this.#rows.push(row)
    }
    if (this.#rows.length > maxRows) this.#rows = this.#rows.slice(-maxRows / 2)
  }

  /** Newest seq received; 0: none. */
  get head(): number {
    return this.#rows.at(-1)?.seq ?? 0
  }

  /** Returns at most `limit` events after a seq; undefined if they must be read from the database. */
  after(seq: number, limit: number): EventFields[] | undefined {
    const first = this.#rows[0]?.seq
    if (first === undefined || first > seq + 1 || this.head <= seq) return undefined
    return this.#rows.slice(seq + 1 - first, seq + 1 - first + limit)
  }

  /** Drops events up to a seq. */
  dropUpTo(seq: number): void {
    const first = this.#rows[0]?.seq
    if (first === undefined || first > seq) return
    this.#rows = this.#rows.slice(seq + 1 - first)
  }

  clear(): void {
    this.#rows = []
  }
}
