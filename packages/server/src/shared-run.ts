import { type Clock, systemClock } from './clock.ts'

interface SharedRunOptions {
  clock?: Pick<Clock, 'monotonic'>
  /** A result serves callers until this long after its run began. Default: only those who asked before it began. */
  keptMs?: number
  /** Up to this age, callers get the last result while the next run is under way. */
  staleMs?: number
  /** Pause between two runs, so that many callers do not occupy the process. */
  restMs?: number
  /** Largest share of the time that runs may take: after a long run its result is kept, and pauses are, accordingly longer. */
  maxShare?: number
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
  #tookMs = 0
  /** The run after the current one. */
  #next: PromiseWithResolvers<Result> | undefined

  constructor(
    work: () => Promise<Result>,
    { clock = systemClock, keptMs = 0, staleMs = keptMs, restMs = 0, maxShare = 1 }: SharedRunOptions = {},
  ) {
    this.#work = work
    this.#options = { clock, keptMs, staleMs, restMs, maxShare }
  }

  get(): Promise<Result> {
    const { clock, staleMs } = this.#options
    const now = clock.monotonic()
    const keptMs = Math.max(this.#options.keptMs, this.#pauseMs())
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

  /** How long to wait after the last run for runs to take their share of the time only. */
  #pauseMs(): number {
    return this.#tookMs * (1 / this.#options.maxShare - 1)
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
        this.#tookMs = this.#options.clock.monotonic() - at
        if (run.at > -Infinity) this.#last = run
        const { restMs } = this.#options
        const pauseMs = Math.max(this.#pauseMs(), this.#next ? restMs : 0)
        if (pauseMs >= 1) setTimeout(() => this.#continue(), pauseMs)
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

/** One shared run for each question, of those asked first lately. */
export class SharedRuns<Result> {
  readonly #max: number
  readonly #options: SharedRunOptions
  readonly #runs = new Map<string, SharedRun<Result>>()

  /** Keeps the runs of at most `max` questions. */
  constructor(max: number, options: SharedRunOptions) {
    this.#max = max
    this.#options = options
  }

  get(question: string, work: () => Promise<Result>): Promise<Result> {
    let run = this.#runs.get(question)
    if (!run) {
      const [first] = this.#runs.keys()
      if (first !== undefined && this.#runs.size >= this.#max) this.#runs.delete(first)
      run = new SharedRun(work, this.#options)
      this.#runs.set(question, run)
    }
    return run.get()
  }

  /** No later caller gets a result of what was read until now. */
  forget(): void {
    for (const run of this.#runs.values()) run.forget()
  }
}
