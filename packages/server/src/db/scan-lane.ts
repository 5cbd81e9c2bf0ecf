import { AppError } from '../errors.ts'

/** Enough for a few dashboard pages of one caller; more would only delay other callers. */
const maxWaitingPerCaller = 16
/** At some tens of milliseconds per scan, the last one waits a few seconds. */
const maxWaiting = 128
const retryAfterSeconds = 1

/**
 * Runs reads of many rows (searches, lists, replays), `width` at a time, so that they never delay the reads that agents
 * wait for. Callers take turns: a caller with a hundred scans delays only its own.
 */
export class ScanLane {
  readonly #width: number
  /** Waiting scans by caller; the first caller is served next. */
  readonly #waiting = new Map<string, (() => void)[]>()
  #running = 0
  #count = 0

  constructor(width: number) {
    this.#width = width
  }

  /** Rejects with AppError `overloaded` when the caller, or all callers together, have too many scans waiting. */
  async run<Result>(caller: string, scan: () => Promise<Result>): Promise<Result> {
    if (this.#running >= this.#width) await this.#wait(caller)
    else this.#running += 1
    try {
      return await scan()
    } finally {
      this.#passOn()
    }
  }

  #wait(caller: string): Promise<void> {
    const own = this.#waiting.get(caller) ?? []
    if (own.length >= maxWaitingPerCaller || this.#count >= maxWaiting) {
      throw new AppError('overloaded', 'Too many queued searches and lists; retry in a moment.', retryAfterSeconds)
    }
    return new Promise((resolve) => {
      own.push(resolve)
      this.#waiting.set(caller, own)
      this.#count += 1
    })
  }

  /** Starts the next caller's scan and moves that caller to the end of the queue. */
  #passOn(): void {
    const [next] = this.#waiting
    if (!next) {
      this.#running -= 1
      return
    }
    const [caller, own] = next
    this.#waiting.delete(caller)
    const start = own.shift()!
    if (own.length > 0) this.#waiting.set(caller, own)
    this.#count -= 1
    start()
  }
}
