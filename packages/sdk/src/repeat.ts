import { clearTimeout, setTimeout } from 'node:timers'

const afterFaultMs = 3_000

/** A timer that lets the process end. Returns what takes it back. */
export function unrefTimeout(ms: number, work: () => void): () => void {
  const timer = setTimeout(work, ms)
  timer.unref()
  return () => clearTimeout(timer)
}

/**
 * Runs `work` again and again, never twice at once, each time after the milliseconds it asked for, until the signal
 * aborts. Infinity = not before `within` is called.
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

  /** Shortens the present wait; while the work runs, the next one. */
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
    // Nothing is known to reject; should it, the kill switch must be asked all the same.
    const wait = await this.#work().catch(() => afterFaultMs)
    this.#isRunning = false
    this.#arm(Math.min(wait, this.#sooner))
  }
}
