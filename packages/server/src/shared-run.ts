import { type Clock, systemClock } from './clock.ts'

interface SharedRunOptions {
  clock?: Pick<Clock, 'monotonic'>
  /** A result serves callers until this long after its run began. Default: only those who asked before it began. */
  keptMs?: number
  /** Up to this age, callers get the last result while the next run is under way. */
  staleMs?: number
  /** Pause between two runs, so that many callers do not occupy the process. */
  restMs?: number
}

interface Run<Result> {
  at: number
  result: Promise<Result>
}

/**
 * Shares work whose result is the same for all callers. One run at a time serves all who asked before it began, so that a
 * caller after a change sees that change. Waiting callers share a failure, since a second wait for a database that is
 * down would take too long.
 */
export class SharedRun<Result> {
  readonly #work: () => Promise<Result>
  readonly #options: Required<SharedRunOptions>
  #last: Run<Result> | undefined
  #running: Run<Result> | undefined
  /** The run after the current one. */
  #next: PromiseWithResolvers<Result> | undefined

  constructor(
    work: () => Promise<Result>,
    { clock = systemClock, keptMs = 0, staleMs = keptMs, restMs = 0 }: SharedRunOptions = {},
  ) {
    this.#work = work
    this.#options = { clock, keptMs, staleMs, restMs }
  }

  get(): Promise<Result> {
    const { clock, keptMs, staleMs } = this.#options
    const now = clock.monotonic()
    const known = this.#last
    const age = known === undefined ? Infinity : now - known.at
    if (known && age < keptMs) return known.result
    const fresh = this.#fresh(now, keptMs)
    return known && age < staleMs ? known.result : fresh
  }

  /** No later caller gets a result of what was read until now. */
  forget(): void {
    this.#last = undefined
    if (this.#running) this.#running.at = -Infinity
  }

  #fresh(now: number, keptMs: number): Promise<Result> {
    if (!this.#running) return this.#begin(now)
    if (now - this.#running.at < keptMs) return this.#running.result
    if (!this.#next) {
      this.#next = Promise.withResolvers()
      // Callers who got a stale result do not wait for this one.
      this.#next.promise.catch(() => {})
    }
    return this.#next.promise
  }

  #begin(at: number): Promise<Result> {
    const run = { at, result: this.#work() }
    this.#running = run
    run.result.then(
      () => {
        if (run.at > -Infinity) this.#last = run
        if (this.#next && this.#options.restMs > 0) setTimeout(() => this.#continue(), this.#options.restMs)
        else this.#continue()
      },
      (fault) => {
        this.#running = undefined
        this.#next?.reject(fault)
        this.#next = undefined
      },
    )
    return run.result
  }

  #continue(): void {
    this.#running = undefined
    if (!this.#next) return
    const { resolve, reject } = this.#next
    this.#next = undefined
    this.#begin(this.#options.clock.monotonic()).then(resolve, reject)
  }
}
