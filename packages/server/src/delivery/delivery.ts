import { setTimeout as pause } from 'node:timers/promises'
import { type LeasedQueue, releaseRows, type TimedClaim } from '../db/lease.ts'
import type { Deps } from '../deps.ts'
import { randomBetween, randomSecret } from '../ids.ts'

/** Maximum duration of an attempt: a second more than the egress allows a request, so that its error is reported. */
export const attemptWithinMs = 16_000
/** Results are kept in memory while the database is unavailable; otherwise what was delivered would be sent again. */
const retryResultMs = 250

/** A row of the queue that this process claimed. */
interface Claimed {
  /** The same at each attempt, so that receivers recognize a repetition. */
  id: string
  /** Earlier attempts. */
  attempts: number
}

/** Result of one attempt. */
interface Answer {
  delivered: boolean
  /** Minimum delay before the next attempt, as requested by the receiver. */
  retryAfterSeconds?: number
  /** No further attempt. */
  final?: true
}

/** An attempt with what is to be stored of it. */
export interface Attempted<Row, Verdict> {
  row: Row
  /** Holder of the lease. */
  owner: string
  verdict: Verdict
  now: number
  /** Time of the retry; undefined: delivered, or no retry. */
  nextAt: number | undefined
}

/** What differs between deliveries. A lane is a receiver, or a part of what it gets: no lane delays another. */
interface DeliveryPlan<Lane, Row extends Claimed, Verdict extends Answer> {
  queue: LeasedQueue
  /** How long a crashed process blocks a row: longer than an attempt. */
  leaseMs: number
  nameOf(lane: Lane): string
  /** Returns how many attempts may start now, and how many rows to claim at once for them. */
  capacity(lane: Lane): { free: number; claim: number }
  /** Claims due rows, oldest first. */
  claim(lane: Lane, claim: TimedClaim, limit: number): Promise<Row[]>
  /** Makes one attempt; resolves also if it failed. */
  attempt(lane: Lane, row: Row, signal: AbortSignal): Promise<Verdict>
  /** Pauses after failed attempts, one for each retry. */
  pausesMs(row: Row): readonly number[]
  /** Stores a result: a delivery even if another process took over the lease, a failure only for the holder. */
  store(attempted: Attempted<Row, Verdict>): Promise<unknown>
  /** Closes the connections to receivers. */
  close(): Promise<void>
  /** Called when the result is on disk; `durationMs` includes storing it. */
  stored(lane: Lane, attempted: Attempted<Row, Verdict>, durationMs: number): Promise<void> | void
}

const noop = () => {}

/**
 * Returns the time of the next attempt; undefined after the last. `spread`, from 0 to 1, varies a pause by up to a fifth, so
 * that what failed together is not retried together.
 */
function retryAt(pauseMs: number | undefined, now: number, spread: number, askedSeconds = 0): number | undefined {
  return pauseMs === undefined
    ? undefined
    : now + Math.max(Math.round(pauseMs * (0.8 + 0.4 * spread)), askedSeconds * 1_000)
}

interface LaneState<Row> {
  /** Claimed rows whose attempt has not started. */
  waiting: Row[]
  /** Monotonic time until which their lease covers an attempt. */
  startBy: number
  /** Number of running attempts. */
  running: number
  isClaiming: boolean
}

/**
 * Delivers the rows of a queue, in any number of processes. A row is claimed by a guarded update with a lease; if its
 * process crashes, another one takes over. If a response is lost, a receiver may get a row twice, with the same id.
 */
export class Delivery<Lane, Row extends Claimed, Verdict extends Answer> {
  /** Id of this process in leases. */
  readonly owner = randomSecret(12)
  readonly #deps: Pick<Deps, 'database' | 'clock' | 'log'>
  readonly #plan: DeliveryPlan<Lane, Row, Verdict>
  readonly #lanes = new Map<string, LaneState<Row>>()
  /** Includes running attempts, each until the start of its successor. */
  readonly #underWay = new Set<Promise<void>>()
  readonly #cut = new AbortController()
  #isClosing = false

  constructor(deps: Pick<Deps, 'database' | 'clock' | 'log'>, plan: DeliveryPlan<Lane, Row, Verdict>) {
    this.#deps = deps
    this.#plan = plan
  }

  /** Aborted when attempts on shutdown have had their time. */
  get cut(): AbortSignal {
    return this.#cut.signal
  }

  /** Releases what an earlier process claimed, where that process cannot be running any more. */
  async open(): Promise<void> {
    const { database } = this.#deps
    if (!database.isShared) await releaseRows(database.db, this.#plan.queue)
  }

  /** Number of running attempts. */
  running(lane: Lane): number {
    return this.#stateOf(lane).running
  }

  /** Starts the due attempts of a lane, as many as may run. Resolves before they end. */
  send(lane: Lane): Promise<void> {
    const sending = this.#send(lane)
    this.track(sending)
    return sending
  }

  async #send(lane: Lane): Promise<void> {
    const state = this.#stateOf(lane)
    if (state.isClaiming) return
    state.isClaiming = true
    try {
      for (let hasMore = true; hasMore; ) {
        hasMore = false
        // The attempts before took so long that another process might send these too.
        if (this.#isLate(state)) await this.#releaseWaiting(state)
        const { free, claim } = this.#capacity(lane)
        if (state.waiting.length === 0 && free > 0) {
          const { leaseMs } = this.#plan
          const { clock } = this.#deps
          state.startBy = clock.monotonic() + leaseMs - attemptWithinMs
          state.waiting = await this.#plan.claim(lane, { holder: this.owner, now: clock.now(), leaseMs }, claim)
          hasMore = state.waiting.length === claim
        }
        while (state.waiting.length > 0 && !this.#isLate(state) && this.#capacity(lane).free > 0)
          this.#begin(lane, state.waiting.shift()!)
        hasMore &&= state.waiting.length === 0
      }
      // No running attempt would continue with them.
      if (state.running === 0) await this.#releaseWaiting(state)
    } finally {
      state.isClaiming = false
    }
  }

  #isLate = ({ startBy }: LaneState<Row>): boolean => this.#deps.clock.monotonic() > startBy

  async #releaseWaiting(state: LaneState<Row>): Promise<void> {
    const ids = state.waiting.splice(0).map(({ id }) => id)
    if (ids.length > 0) await releaseRows(this.#deps.database.db, this.#plan.queue, this.owner, ids)
  }

  /**
   * Makes one attempt of a row that this process holds. Resolves once the result is on disk. Rejects if it could not be
   * stored before the lease ended; the row is then sent again. An attempt cut off by the shutdown is not a failure.
   */
  attempt(lane: Lane, row: Row): Promise<Verdict> {
    const attempt = this.#attempt(lane, row)
    this.track(attempt)
    return attempt
  }

  async #attempt(lane: Lane, row: Row): Promise<Verdict> {
    const { clock } = this.#deps
    const plan = this.#plan
    const started = clock.monotonic()
    const verdict = await plan.attempt(lane, row, AbortSignal.any([this.cut, AbortSignal.timeout(attemptWithinMs)]))
    if (this.cut.aborted && !verdict.delivered) return verdict
    const now = clock.now()
    const pauseMs = verdict.delivered || verdict.final ? undefined : plan.pausesMs(row)[row.attempts]
    const nextAt = retryAt(pauseMs, now, randomBetween(0, 1_000) / 1_000, verdict.retryAfterSeconds)
    const attempted = { row, owner: this.owner, verdict, now, nextAt }
    await this.#store(attempted, started + plan.leaseMs)
    await plan.stored(lane, attempted, clock.monotonic() - started)
    return verdict
  }

  /** Lets `whenIdle` wait for further work. */
  track(work: Promise<unknown>): void {
    const tracked: Promise<void> = work.then(noop, noop).then(() => void this.#underWay.delete(tracked))
    this.#underWay.add(tracked)
  }

  /** Resolves when nothing is running. */
  async whenIdle(): Promise<void> {
    while (this.#underWay.size > 0) await Promise.all(this.#underWay)
  }

  /** Starts nothing new, gives running attempts a moment to end, aborts the others, and leaves the rest to the next process. */
  async close(graceMs: number): Promise<void> {
    this.#isClosing = true
    const cut = setTimeout(() => this.#cut.abort(), graceMs)
    await this.whenIdle()
    clearTimeout(cut)
    this.#cut.abort()
    await this.#plan.close()
    await releaseRows(this.#deps.database.db, this.#plan.queue, this.owner).catch(this.#logFault)
  }

  #stateOf(lane: Lane): LaneState<Row> {
    const name = this.#plan.nameOf(lane)
    const known = this.#lanes.get(name) ?? { waiting: [], startBy: 0, running: 0, isClaiming: false }
    this.#lanes.set(name, known)
    return known
  }

  #capacity(lane: Lane): { free: number; claim: number } {
    return this.#isClosing ? { free: 0, claim: 0 } : this.#plan.capacity(lane)
  }

  #begin(lane: Lane, row: Row): void {
    const state = this.#stateOf(lane)
    state.running += 1
    const work = this.#attempt(lane, row)
      .catch(this.#logFault)
      .then(() => {
        state.running -= 1
        return this.#send(lane)
      })
    this.track(work.catch(this.#logFault))
  }

  async #store(attempted: Attempted<Row, Verdict>, until: number): Promise<void> {
    for (;;) {
      try {
        await this.#plan.store(attempted)
        return
      } catch (fault) {
        if (this.#deps.clock.monotonic() >= until) throw fault
        await pause(retryResultMs)
      }
    }
  }

  readonly #logFault = (fault: unknown): void => {
    const queue = this.#plan.queue.table
    this.#deps.log.error({ err: fault, queue }, 'deliveries are delayed; they continue as soon as the fault is over')
  }
}
