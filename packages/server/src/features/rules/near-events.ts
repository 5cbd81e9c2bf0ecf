import type { EventFields } from '../../db/schema/events.ts'

/** Rows that are kept: at 5,000 events a second, what comes during two seconds. Beyond, the database has them. */
const maxRows = 10_000

/** The newest events as the bus brought them, without a gap, so that a runner that follows closely reads no database. */
export class NearEvents {
  #rows: EventFields[] = []

  add(rows: readonly EventFields[]): void {
    for (const row of rows) {
      const last = this.#rows.at(-1)?.seq
      if (last !== undefined && row.seq <= last) continue
      // Behind a gap everything begins again: what is before it comes from the database.
      if (last !== undefined && row.seq !== last + 1) this.#rows = []
      this.#rows.push(row)
    }
    if (this.#rows.length > maxRows) this.#rows = this.#rows.slice(-maxRows / 2)
  }

  /** The newest seq that was heard of; 0: none. */
  get head(): number {
    return this.#rows.at(-1)?.seq ?? 0
  }

  /** The events after a seq, at most `limit`; undefined where the database must be asked. */
  after(seq: number, limit: number): EventFields[] | undefined {
    const first = this.#rows[0]?.seq
    if (first === undefined || first > seq + 1 || this.head <= seq) return undefined
    return this.#rows.slice(seq + 1 - first, seq + 1 - first + limit)
  }

  /** Forgets events up to a seq. */
  dropUpTo(seq: number): void {
    const first = this.#rows[0]?.seq
    if (first === undefined || first > seq) return
    this.#rows = this.#rows.slice(seq + 1 - first)
  }

  clear(): void {
    this.#rows = []
  }
}
