/**
 * A reconnecting fleet behind one address gets its rows within seconds; a caller that replays continuously costs a
 * fifth of a core.
 */
const rowsPerSecond = 10_000
/** Two full replays at once. */
const burstRows = 20_000
/** Limit for all callers together: half a core, mostly of the reader thread. */
const allRowsPerSecond = 25_000
const allBurstRows = 25_000
/** Above this number, callers with a full burst available are removed. */
const maxCallers = 1_000

/**
 * Generic cell rate algorithm: stores only the monotonic time in milliseconds at which the rows taken so far are worked
 * off.
 */
class Pace {
  readonly #msPerRow: number
  readonly #burstMs: number
  #workedOffAt = -Infinity

  constructor(perSecond: number, burst: number) {
    this.#msPerRow = 1_000 / perSecond
    this.#burstMs = burst * this.#msPerRow
  }

  waitMs(now: number): number {
    return Math.max(0, this.#workedOffAt - this.#burstMs - now)
  }

  take(rows: number, now: number): void {
    this.#workedOffAt = Math.max(this.#workedOffAt, now) + rows * this.#msPerRow
  }

  isFull(now: number): boolean {
    return this.#workedOffAt <= now
  }
}

/** Limits replayed rows per caller and in total. */
export class ReplayPace {
  readonly #callers = new Map<string, Pace>()
  readonly #all = new Pace(allRowsPerSecond, allBurstRows)

  /** Milliseconds until the caller may get another page. */
  waitMs(caller: string, now: number): number {
    return Math.max(this.#all.waitMs(now), this.#callers.get(caller)?.waitMs(now) ?? 0)
  }

  take(caller: string, rows: number, now: number): void {
    this.#all.take(rows, now)
    let pace = this.#callers.get(caller)
    if (!pace) {
      this.#forgetIdle(now)
      pace = new Pace(rowsPerSecond, burstRows)
      this.#callers.set(caller, pace)
    }
    pace.take(rows, now)
  }

  #forgetIdle(now: number): void {
    if (this.#callers.size < maxCallers) return
    for (const [caller, pace] of this.#callers) if (pace.isFull(now)) this.#callers.delete(caller)
  }
}
