import { clearTimeout, setTimeout } from 'node:timers'

const afterFaultMs = 3_000

/** Starts a timer that does not keep the process alive. Returns a function that cancels it. */
export function unrefTimeout(ms: number, work: () => void): () => void {
  const timer = setTimeout(work, ms)
  timer.unref()
  return () => clearTimeout(timer)
}

/**
 * Runs `work` repeatedly, never concurrently, until the signal aborts. Each run returns the milliseconds until the
 * next; Infinity waits for a call of `within`.
 */
export class Repeat {
  readonly #work: () => Promise<number>
  readonly #signal: AbortSignal | undefined
  #isRunning = false
  #cancel = () => {}
  #dueAt = Number.POSITIVE_INFINITY
  #sooner = Number.POSITIVE_INFINITY

  constructor(work: () => Promise<number>, firstAfterMs: number, signal?: AbortSignal) {
    this.#work = work
    this.#signal = signal
    signal?.addEventListener('abort', () => this.#cancel(), { once: true })
    this.#arm(firstAfterMs)
  }

  /** Shortens the current wait, or the next one if the work is running. */
  within(ms: number): void {
    if (this.#isRunning) this.#sooner = Math.min(ms, this.#sooner)
    else if (performance.now() + ms < this.#dueAt) this.#arm(ms)
  }

  #arm(ms: number): void {
    this.#cancel()
    if (ms === Number.POSITIVE_INFINITY || this.#signal?.aborted) return
    this.#dueAt = performance.now() + ms
    this.#cancel = unrefTimeout(ms, () => void this.#run())
  }

  async #run(): Promise<void> {
    this.#isRunning = true
    this.#dueAt = Number.POSITIVE_INFINITY
    this.#sooner = Number.POSITIVE_INFINITY
    // No work is known to reject. If it does, the kill switch must still be polled.
    const wait = await this.#work().catch(() => afterFaultMs)
    this.#isRunning = false
    this.#arm(Math.min(wait, this.#sooner))
  }
}
