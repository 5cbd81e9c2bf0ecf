import { setTimeout as sleep } from 'node:timers/promises'
import type { Clock } from '../clock.ts'
import { AppError, DatabaseError } from '../errors.ts'
import type { Metrics } from '../metrics.ts'
import { FairQueue, type Queued } from './fair-queue.ts'

interface GroupCommitOptions<Entry, Result> {
  /** Value of the `queue` label in metrics. */
  queue: string
  clock: Clock
  metrics: Metrics
  /** Writes all entries in one transaction; resolves with a result for each, after the commit. */
  commit(entries: Entry[]): Promise<Result[]>
  /** Returns the entry's size, its owner, and whether it is committed ahead of ordinary entries. */
  weigh(entry: Entry): { rows: number; bytes: number; owner?: string; isUrgent?: boolean }
  /** See Database.collect. */
  collect?: () => void
  /** Whether a few rows wait for more: for rows that come all the time, and whose senders do not wait for the answer. */
  gathers?: boolean
}

/** A longer queue would only hide that the disk is too slow; refusing early lets callers retry. */
const waitMs = 2_000
const ordinaryBounds = { rows: 12_000, bytes: 48 * 1024 * 1024, waitMs }
const urgentBounds = { rows: 5_000, bytes: 16 * 1024 * 1024, waitMs }
/** Larger transactions are hardly faster and delay a kill. */
const maxBatchRows = 1_024
/** Rows of a batch reserved for ordinary entries, so a flood of breaches slows but never blocks them. */
const keptForOrdinary = 256
/** A commit costs as much as storing about twenty rows, so fewer than this wait for the end of the turn. */
const worthwhileRows = 32
const retryAfterSeconds = 1
/**
 * An unresponsive database is detected after 1.75 seconds. Callers must get the error within 2 seconds, so an entry
 * that has waited longer than this cannot wait for another commit.
 */
const secondChanceWithinMs = 100

interface Waiting<Entry, Result> extends Queued {
  entry: Entry
  resolve(result: Result): void
  reject(fault: unknown): void
}

interface Commit<Entry, Result> {
  batch: Waiting<Entry, Result>[]
  /** Monotonic milliseconds. */
  started: number
  written: Promise<Result[]>
}

/** Rows are gathered while more come, in slices: at most about twenty commits a second, and none of them is late. */
const gatherMs = 50
const gatherSliceMs = 5

/**
 * Groups the entries that arrive during a commit into the next one. An idle queue commits at once, a busy one shares each
 * disk sync among all waiting entries. Urgent entries have their own lane ahead of the others.
 * Owners take turns within each lane, so a flood by one owner delays only that owner.
 */
export class GroupCommit<Entry, Result> {
  readonly #options: GroupCommitOptions<Entry, Result>
  readonly #urgent = new FairQueue<Waiting<Entry, Result>>(urgentBounds)
  readonly #ordinary = new FairQueue<Waiting<Entry, Result>>(ordinaryBounds)
  #running = false
  #idle: (() => void)[] = []
  readonly #seconds
  readonly #batchRows

  constructor(options: GroupCommitOptions<Entry, Result>) {
    this.#options = options
    this.#seconds = options.metrics.commitSeconds.labels(options.queue)
    this.#batchRows = options.metrics.commitRows.labels(options.queue)
  }

  /** Resolves once the entry is on disk. Rejects with AppError `overloaded` if the queue is full, or DatabaseError. */
  add(entry: Entry): Promise<Result> {
    const { rows, bytes, owner = '', isUrgent = false } = this.#options.weigh(entry)
    const since = this.#options.clock.monotonic()
    const lane = isUrgent ? this.#urgent : this.#ordinary
    return new Promise((resolve, reject) => {
      if (!lane.add(owner, { entry, rows, bytes, since, next: undefined, resolve, reject })) {
        reject(this.#refusal())
        return
      }
      if (this.#running) {
        // With many requests in one turn of the event loop, the database would idle until the end of the turn.
        if (this.#rows >= worthwhileRows) this.#options.collect?.()
        return
      }
      this.#running = true
      // Everything that arrived in this turn of the event loop goes into the first commit.
      setImmediate(() => void this.#drain())
    })
  }

  /** Throws AppError `overloaded` if an ordinary entry of this size from the owner would not fit. */
  assertRoom(owner: string, rows: number, bytes: number): void {
    if (!this.#ordinary.hasRoom(owner, rows, bytes, this.#options.clock.monotonic())) throw this.#refusal()
  }

  #refusal(): AppError {
    this.#options.metrics.queueRejects.inc({ queue: this.#options.queue })
    return new AppError('overloaded', 'The queue of the database is full; retry in a moment.', retryAfterSeconds)
  }

  /** Whether entries wait while others are being committed. */
  get isWaiting(): boolean {
    return !this.#urgent.isEmpty || !this.#ordinary.isEmpty
  }

  /** Resolves once the queue is empty and no commit is running. */
  whenIdle(): Promise<void> {
    return this.#running ? new Promise((resolve) => this.#idle.push(resolve)) : Promise.resolve()
  }

  async #drain(): Promise<void> {
    let commit = this.#begin()
    while (commit) {
      const results = await this.#settle(commit)
      // Start the next commit before resolving this one's entries, so that the disk does not idle.
      const next = this.#mayGather ? undefined : this.#begin()
      const { batch, started } = commit
      if (results) for (let index = 0; index < batch.length; index++) batch[index]!.resolve(results[index]!)
      this.#seconds.observe((this.#options.clock.monotonic() - started) / 1000)
      this.#batchRows.observe(batch.reduce((sum, { rows }) => sum + rows, 0))
      if (this.#mayGather) await this.#gather()
      commit = next ?? this.#begin()
    }
    this.#running = false
    for (const resolve of this.#idle.splice(0)) resolve()
  }

  get #rows(): number {
    return this.#urgent.rows + this.#ordinary.rows
  }

  get #mayGather(): boolean {
    return this.#options.gathers === true && this.isWaiting && this.#rows < worthwhileRows
  }

  async #gather(): Promise<void> {
    for (let waited = 0, rows = 0; waited < gatherMs && rows < this.#rows && this.#rows < maxBatchRows; ) {
      rows = this.#rows
      await sleep(gatherSliceMs)
      waited += gatherSliceMs
    }
  }

  #take(): Waiting<Entry, Result>[] {
    const batch: Waiting<Entry, Result>[] = []
    const rows = this.#urgent.take(batch, this.#ordinary.isEmpty ? maxBatchRows : maxBatchRows - keptForOrdinary)
    this.#ordinary.take(batch, maxBatchRows - rows)
    return batch
  }

  /** Takes the entries that have waited so long that an error of another commit would reach them too late. */
  #takeLate(): Waiting<Entry, Result>[] {
    const late: Waiting<Entry, Result>[] = []
    const since = this.#options.clock.monotonic() - secondChanceWithinMs
    for (const lane of [this.#urgent, this.#ordinary]) lane.takeOlder(late, since)
    return late
  }

  #begin(): Commit<Entry, Result> | undefined {
    return this.isWaiting ? this.#write(this.#take()) : undefined
  }

  #write(batch: Waiting<Entry, Result>[]): Commit<Entry, Result> {
    const written = this.#options.commit(batch.map(({ entry }) => entry))
    return { batch, started: this.#options.clock.monotonic(), written }
  }

  /** Returns the commit's results; undefined if it failed, after resolving or rejecting each of its entries. */
  async #settle({ batch, written }: Commit<Entry, Result>): Promise<Result[] | undefined> {
    try {
      return await written
    } catch (fault) {
      const alone = batch.length === 1
      const refused = fault instanceof DatabaseError && fault.constraint
      // One invalid entry must not fail the others in its batch. A broken database fails all of them at once.
      if (refused && !alone) for (const waiting of batch) await this.#writeAlone(waiting)
      else for (const { reject } of refused ? batch : [...batch, ...this.#takeLate()]) reject(fault)
      return undefined
    }
  }

  async #writeAlone(waiting: Waiting<Entry, Result>): Promise<void> {
    const results = await this.#settle(this.#write([waiting]))
    if (results) waiting.resolve(results[0]!)
  }
}
