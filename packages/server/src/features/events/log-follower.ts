import { readCounter } from '../../db/counters.ts'
import type { EventFields } from '../../db/schema/events.ts'
import type { Deps } from '../../deps.ts'
import { parseEventRow } from './event-row.ts'
import { readEventIds, readEventsAfter } from './log-statements.ts'
import { RecentEvents } from './recent-events.ts'

const pageRows = 250
/** Processes sometimes announce rows out of order. An early row waits this long for the rows before it. */
const patienceMs = 20
/** Maximum early rows kept; further ones are read from the database. */
const maxEarlyRows = 1_000
/** Maximum passed rows of which the ids are kept until they are checked; 2 MB. */
const maxUnchecked = 10_000

type Passed = Pick<EventFields, 'seq' | 'id'>

/** Gets each stored event; returns whether it, or an earlier one, may soon be read again by `after`. */
type Listener = (row: EventFields) => boolean

/**
 * Follows the event log: passes the rows announced on the bus on in order of seq, each once. Missing rows are read from the
 * database. Keeps the newest rows in memory, so that who keeps up does not read the database.
 */
export class LogFollower {
  readonly #deps: Deps
  readonly #listeners: Listener[] = []
  readonly #recent = new RecentEvents()
  readonly #early = new Map<number, EventFields>()
  #head = 0
  #unchecked: Passed[] = []
  /** Highest seq announced. */
  #announced = 0
  #isOpen = false
  #timer: NodeJS.Timeout | undefined
  #filling: Promise<void> | undefined

  constructor(deps: Deps) {
    this.#deps = deps
    deps.bus.onEvents((rows) => this.#receive(rows), parseEventRow)
    deps.bus.onReconnect(() => {
      this.reconcile().catch((fault) =>
        deps.log.warn({ err: fault }, 'missed events could not be read; retrying in a second'),
      )
    })
  }

  listen(listener: Listener): void {
    this.#listeners.push(listener)
  }

  /** Returns up to `limit` rows after `seq` and up to the head; undefined when some of them are no longer in memory. */
  after(seq: number, limit: number): EventFields[] | undefined {
    return this.#recent.after(seq, limit)
  }

  /** Seq of the last row passed on in order. */
  get head(): number {
    return this.#head
  }

  /** The rows passed on since the last call of `checked`, and the one before, oldest first; none of a SQLite file. */
  get unchecked(): readonly Passed[] {
    return this.#unchecked
  }

  /** Call when the rows up to this one are known to be stored. */
  checked({ seq }: Passed): void {
    this.#unchecked = this.#unchecked.filter((row) => row.seq >= seq)
  }

  /** Starts at the newest stored event. */
  async open(): Promise<void> {
    this.#head = await readCounter(this.#deps.database.db, 'event_seq')
    if (this.#deps.database.isShared) {
      const ids = await readEventIds(this.#deps.database.db, [this.#head])
      this.#unchecked = [...ids].map(([seq, id]) => ({ seq, id }))
    }
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
      if (this.#deps.database.isShared && this.#unchecked.length < maxUnchecked)
        this.#unchecked.push({ seq: next.seq, id: next.id })
      let isKept = false
      for (const listener of this.#listeners) isKept = listener(next) || isKept
      if (isKept) this.#recent.add(next)
      else this.#recent.clear()
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
      this.#deps.log.warn({ err: fault }, 'missing events could not be read; retrying at the next event')
    }
    for (const seq of this.#early.keys()) if (seq <= this.#head || seq > this.#announced) this.#early.delete(seq)
  }

  /** Skips rows that retention removed before they could be read. */
  #passOver(next: EventFields | undefined): void {
    if (!next || next.seq <= this.#head + 1) return
    this.#head = next.seq - 1
    this.#recent.clear()
  }
}
