import { AppError } from '../errors.ts'
import { OwnerTurns } from '../owner-turns.ts'

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
  readonly #waiting = new OwnerTurns<() => void>()
  #running = 0

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
    if (this.#waiting.waitingOf(caller) >= maxWaitingPerCaller || this.#waiting.size >= maxWaiting) {
      throw new AppError('overloaded', 'Too many queued searches and lists; retry in a moment.', retryAfterSeconds)
    }
    return new Promise((resolve) => this.#waiting.add(caller, resolve))
  }

  #passOn(): void {
    const start = this.#waiting.take()
    if (start) start()
    else this.#running -= 1
  }
}
