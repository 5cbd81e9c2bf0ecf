import { AppError } from '../errors.ts'

/** One caller may wait with a few pages of a dashboard; more only costs the others. */
const maxWaitingPerCaller = 16
/** At some tens of milliseconds a scan, the last of them waits for a few seconds. */
const maxWaiting = 128
const retryAfterSeconds = 1

/**
 * Reads that may look at many rows (searches, lists, replays) run here, `width` at a time, so that the reads that agents
 * wait for never stand behind them. Callers take turns: one that asks for a hundred scans delays only its own.
 */
export class ScanLane {
  readonly #width: number
  /** Waiting work by caller; the first caller is the next one to be served. */
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

  /** Gives the place to the next caller, who then goes to the end of the line. */
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
