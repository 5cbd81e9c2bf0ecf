import type { IndexCheck } from '@wardline/contract'
import { readCounter, readCounters } from '../../db/counters.ts'
import type { Database } from '../../db/database.ts'
import { claimFact, isFactKnown } from '../../db/facts.ts'
import type { Deps } from '../../deps.ts'
import { complete, countIncomplete, indexAfter } from './index-queries.ts'
import { readOldest } from './queries.ts'

/** Events indexed per transaction: some ten milliseconds, which a kill may have to wait. */
const batchRows = 1_000
/** Indexing pauses while events wait to be stored, but only up to this backlog, because lists scan unindexed events. */
const patientUpTo = 500_000
/** Events checked per query: some ten milliseconds, on the connections of scans. */
const pageRows = 1_000
/** Pages checked per request, so that a request takes about a tenth of a second. */
const requestPages = 10
/** Events checked after a failed run, which may have left the result of one transaction uncertain: that of ten. */
const nearRows = 10_000

/** Indexes the events since the last call by instance, session and type. */
export async function indexEvents(
  database: Database,
  isBusy: () => boolean = () => false,
  stopping?: AbortSignal,
): Promise<void> {
  const { event_seq: upTo, indexed_seq: first } = await readCounters(database.db)
  let place = first
  while (place < upTo && !stopping?.aborted) {
    if (isBusy() && upTo - place <= patientUpTo) return
    await indexAfter(database, place, batchRows)
    place = await readCounter(database.db, 'indexed_seq')
  }
}

/** A check on its way from newer to older events. */
interface Walk {
  /** Events with a lower seq are still to be checked. */
  below: number
  floor: number
}

/** Keeps the index of events up to date, and checks that it is complete: at startup, and after each failed run. */
export class EventIndex {
  readonly #deps: Pick<Deps, 'database' | 'log' | 'metrics'>
  #walk: Walk | undefined
  #isCheckDue = true

  constructor(deps: Pick<Deps, 'database' | 'log' | 'metrics'>) {
    this.#deps = deps
  }

  /** Periodic job. */
  async run(isBusy: () => boolean, stopping?: AbortSignal): Promise<void> {
    try {
      await indexEvents(this.#deps.database, isBusy, stopping)
    } catch (fault) {
      this.#isCheckDue = true
      throw fault
    }
    if (isBusy() || stopping?.aborted) return
    if (this.#isCheckDue) await this.#beginWalk()
    if (this.#walk) await this.#step(this.#walk)
  }

  /** Checks a limited number of events below a seq, by default the newest, and adds missing entries. */
  async check(caller: string, before = Number.MAX_SAFE_INTEGER): Promise<IndexCheck> {
    const { end, oldest } = await this.#range(before)
    const first = Math.max(oldest, end - requestPages * pageRows)
    let missing = 0
    for (let page = end; page > first; page -= pageRows) {
      missing += await this.#checkPage(caller, Math.max(first, page - pageRows), page)
    }
    return { checked: Math.max(0, end - first), missing, next: first > oldest ? first : null }
  }

  /** Returns the indexed part of the events below a seq, as [oldest, end). */
  async #range(below: number): Promise<{ end: number; oldest: number }> {
    const { db } = this.#deps.database
    const { oldest } = await readOldest(db)
    const end = Math.min(below, (await readCounter(db, 'indexed_seq')) + 1)
    return { end, oldest: oldest?.seq ?? end }
  }

  /** Checks all events once, because earlier versions left some out of the index, and after that the newest. */
  async #beginWalk(): Promise<void> {
    const { end } = await this.#range(Number.MAX_SAFE_INTEGER)
    const isKnown = await isFactKnown(this.#deps.database.db, 'event_index')
    this.#walk = { below: end, floor: isKnown ? end - nearRows : 0 }
    this.#isCheckDue = false
  }

  async #step(walk: Walk): Promise<void> {
    const { end, oldest } = await this.#range(walk.below)
    const first = Math.max(oldest, walk.floor, end - pageRows)
    if (end > first) await this.#checkPage('event index', first, end)
    walk.below = first
    if (first > oldest && first > walk.floor) return
    this.#walk = undefined
    if (walk.floor === 0) await claimFact(this.#deps.database.db, 'event_index', 'complete')
  }

  /** Returns the number of events in [first, end) that lacked entries. */
  async #checkPage(caller: string, first: number, end: number): Promise<number> {
    const { database, log, metrics } = this.#deps
    const missing = await database.scan(caller, (db) => countIncomplete(db, first, end))
    if (missing === 0) return 0
    await complete(database, first, end)
    metrics.indexRepairs.inc(missing)
    log.warn({ events: missing, first, last: end - 1 }, 'events were missing in the index and were added to it')
    return missing
  }
}
