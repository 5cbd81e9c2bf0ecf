import { readCounter } from '../../db/counters.ts'
import type { EventFields } from '../../db/schema/events.ts'
import type { Deps } from '../../deps.ts'
import { parseEventRow } from '../events/event-row.ts'
import { readEventsAfter } from '../events/log-statements.ts'

const pageRows = 250
/** Processes sometimes announce rows out of order. An early row waits this long for the rows before it. */
const patienceMs = 20
/** Maximum early rows kept; further ones are read from the database. */
const maxEarlyRows = 1_000

/** Orders the rows announced on the bus by seq, each once. Missing rows are read from the database. */
export class EventSequence {
  readonly #deps: Deps
  readonly #next: (row: EventFields) => void
  readonly #skipped: () => void
  readonly #early = new Map<number, EventFields>()
  #head = 0
  /** Highest seq announced. */
  #announced = 0
  #isOpen = false
  #timer: NodeJS.Timeout | undefined
  #filling: Promise<void> | undefined

  /** `next` gets each row in order. `skipped` is called when rows are no longer available. */
  constructor(deps: Deps, next: (row: EventFields) => void, skipped: () => void) {
    this.#deps = deps
    this.#next = next
    this.#skipped = skipped
    deps.bus.onEvents((rows) => this.#receive(rows), parseEventRow)
    deps.bus.onReconnect(() => {
      this.reconcile().catch((fault) =>
        deps.log.warn({ err: fault }, 'the stream could not read missed events; retrying in a second'),
      )
    })
  }

  /** Seq of the last row passed on in order. */
  get head(): number {
    return this.#head
  }

  /** Starts at the newest stored event. */
  async open(): Promise<void> {
    this.#head = await readCounter(this.#deps.database.db, 'event_seq')
    this.#isOpen = true
    // Another process may have published its events since the read.
    this.#fillGap()
  }

  /**
   * Picks up events that were stored but not announced: their commit was confirmed too late to publish, or another
   * process failed to publish them.
   */
  async reconcile(): Promise<void> {
    this.#announced = Math.max(this.#announced, await readCounter(this.#deps.database.db, 'event_seq'))
    this.#fillGap()
  }

  close(): void {
    clearTimeout(this.#timer)
    this.#isOpen = false
  }

  #receive(rows: readonly EventFields[]): void {
    for (const row of rows) {
      const seq = row.seq
      this.#announced = Math.max(this.#announced, seq)
      if (!this.#isOpen) continue
      if (seq === this.#head + 1) this.#append(row)
      else if (seq > this.#head && this.#early.size < maxEarlyRows) this.#early.set(seq, row)
    }
    if (!this.#isOpen || this.#announced <= this.#head || this.#timer) return
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      this.#fillGap()
    }, patienceMs)
  }

  #append(row: EventFields): void {
    let next: EventFields | undefined = row
    while (next) {
      this.#head = next.seq
      this.#next(next)
      next = this.#early.get(this.#head + 1)
      this.#early.delete(this.#head + 1)
    }
  }

  /** Reads rows that the bus lost from the database. */
  #fillGap(): void {
    if (!this.#isOpen || this.#announced <= this.#head) return
    this.#filling ??= this.#readMissing().finally(() => {
      this.#filling = undefined
    })
  }

  async #readMissing(): Promise<void> {
    try {
      while (this.#isOpen && this.#announced > this.#head) {
        const announced = this.#announced
        const rows = await readEventsAfter(this.#deps.database.db, this.#head, pageRows)
        this.#passOver(rows[0])
        for (const row of rows) if (row.seq === this.#head + 1) this.#append(row)
        // A row that was announced but is not stored was forged or has been deleted.
        if (rows.length === 0 && this.#announced === announced) this.#announced = this.#head
      }
    } catch (fault) {
      this.#deps.log.warn({ err: fault }, 'the stream could not read missing events; retrying at the next event')
    }
    for (const seq of this.#early.keys()) if (seq <= this.#head || seq > this.#announced) this.#early.delete(seq)
  }

  /** Skips rows that retention removed before they could be read. */
  #passOver(next: EventFields | undefined): void {
    if (!next || next.seq <= this.#head + 1) return
    this.#head = next.seq - 1
    this.#skipped()
  }
}
