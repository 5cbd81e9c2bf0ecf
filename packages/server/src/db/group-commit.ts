import type { Clock } from '../clock.ts'
import { AppError, DatabaseError } from '../errors.ts'
import type { Metrics } from '../metrics.ts'

export interface GroupCommitOptions<Entry, Result> {
  /** Name in the metrics. */
  queue: string
  clock: Clock
  metrics: Metrics
  /** Writes all entries in one transaction; resolves with a result for each, after the commit. */
  commit(entries: Entry[]): Promise<Result[]>
  /** Rows and bytes that an entry brings. */
  weigh(entry: Entry): { rows: number; bytes: number }
}

/** Beyond these a queue only hides that the disk is too slow: better say so while the caller can still wait. */
const maxQueuedRows = 10_000
const maxQueuedBytes = 32 * 1024 * 1024
const maxQueuedMs = 2_000
/** A larger transaction is hardly faster, and keeps a kill waiting. */
const maxBatchRows = 1_024
const retryAfterSeconds = 1
/** A database that does not answer is noticed after 1.75 seconds; who is to hear of it within 2 cannot wait twice. */
const secondChanceWithinMs = 100

interface Waiting<Entry, Result> {
  entry: Entry
  rows: number
  bytes: number
  since: number
  resolve(result: Result): void
  reject(fault: unknown): void
}

/**
 * Joins what arrives while a commit is under way into the next one. There is no timer: an idle queue commits at once,
 * a busy one shares each sync of the disk among all that wait.
 */
export class GroupCommit<Entry, Result> {
  readonly #options: GroupCommitOptions<Entry, Result>
  #queue: Waiting<Entry, Result>[] = []
  #rows = 0
  #bytes = 0
  #running = false
  #idle: (() => void)[] = []
  readonly #seconds
  readonly #batchRows

  constructor(options: GroupCommitOptions<Entry, Result>) {
    this.#options = options
    this.#seconds = options.metrics.commitSeconds.labels(options.queue)
    this.#batchRows = options.metrics.commitRows.labels(options.queue)
  }

  /** Resolves after the entry is on disk. Rejects with AppError `overloaded` when the queue is full, or DatabaseError. */
  add(entry: Entry): Promise<Result> {
    const { rows, bytes } = this.#options.weigh(entry)
    const since = this.#options.clock.monotonic()
    const oldest = this.#queue[0]
    const full =
      this.#rows + rows > maxQueuedRows ||
      this.#bytes + bytes > maxQueuedBytes ||
      (oldest !== undefined && since - oldest.since > maxQueuedMs)
    if (full) {
      this.#options.metrics.queueRejects.inc({ queue: this.#options.queue })
      const message = 'The queue of the database is full; try again in a moment.'
      return Promise.reject(new AppError('overloaded', message, retryAfterSeconds))
    }
    return new Promise((resolve, reject) => {
      this.#queue.push({ entry, rows, bytes, since, resolve, reject })
      this.#rows += rows
      this.#bytes += bytes
      if (this.#running) return
      this.#running = true
      // Everything that arrived in this turn of the event loop goes into the first commit.
      setImmediate(() => void this.#drain())
    })
  }

  /** Whether entries wait while others are being committed. */
  get isWaiting(): boolean {
    return this.#queue.length > 0
  }

  /** Resolves when nothing waits any more. */
  whenIdle(): Promise<void> {
    return this.#running ? new Promise((resolve) => this.#idle.push(resolve)) : Promise.resolve()
  }

  async #drain(): Promise<void> {
    while (this.#queue.length > 0) await this.#commit(this.#take())
    this.#running = false
    for (const resolve of this.#idle.splice(0)) resolve()
  }

  #take(): Waiting<Entry, Result>[] {
    let count = 0
    let rows = 0
    for (const waiting of this.#queue) {
      if (count > 0 && rows + waiting.rows > maxBatchRows) break
      count += 1
      rows += waiting.rows
      this.#bytes -= waiting.bytes
    }
    this.#rows -= rows
    const batch = this.#queue.slice(0, count)
    this.#queue = this.#queue.slice(count)
    return batch
  }

  /** Those who wait so long already that another failure would reach them too late. */
  #takeLate(): Waiting<Entry, Result>[] {
    const since = this.#options.clock.monotonic() - secondChanceWithinMs
    const fresh = this.#queue.findIndex((waiting) => waiting.since >= since)
    const late = this.#queue.splice(0, fresh < 0 ? this.#queue.length : fresh)
    for (const { rows, bytes } of late) {
      this.#rows -= rows
      this.#bytes -= bytes
    }
    return late
  }

  async #commit(batch: Waiting<Entry, Result>[]): Promise<void> {
    const started = this.#options.clock.monotonic()
    try {
      const results = await this.#options.commit(batch.map(({ entry }) => entry))
      for (const [index, { resolve }] of batch.entries()) resolve(results[index]!)
    } catch (fault) {
      const alone = batch.length === 1
      const refused = fault instanceof DatabaseError && fault.constraint
      // One bad entry must not fail its neighbours; a broken database fails them all at once.
      if (refused && !alone) for (const waiting of batch) await this.#commit([waiting])
      else for (const { reject } of refused ? batch : [...batch, ...this.#takeLate()]) reject(fault)
    }
    this.#seconds.observe((this.#options.clock.monotonic() - started) / 1000)
    this.#batchRows.observe(batch.reduce((sum, { rows }) => sum + rows, 0))
  }
}
