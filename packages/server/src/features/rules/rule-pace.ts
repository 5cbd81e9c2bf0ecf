import { setImmediate as nextTurn, setTimeout as pause } from 'node:timers/promises'
import type { Clock } from '../../clock.ts'

/** Events per second of a process above which storing has priority over rules: more than fleets of thousands report. */
const busyPerSecond = 6_500
/**
 * Above that rate, rules use one part in this many of the time, and less with the square of the rate. Short bursts are
 * processed at once; after a flood the rules catch up.
 */
const busyParts = 12
/** Time until the end of a flood is detected. */
const maxPauseMs = 100
/** Shorter bursts, such as concurrent batches, are not floods. */
const measuredMs = 250

/** How long rules may block the event loop. */
const turnMs = 1

/** A turn of the event loop in which rules process events. */
export class RuleTurn {
  readonly #clock: Clock
  #since: number

  constructor(clock: Clock) {
    this.#clock = clock
    this.#since = clock.monotonic()
  }

  /** Call after each event: a single one may have a thousand values. */
  isOver(): boolean {
    return this.workedMs >= turnMs
  }

  get workedMs(): number {
    return this.#clock.monotonic() - this.#since
  }

  /** Call when the next turn begins. */
  begin(): void {
    this.#since = this.#clock.monotonic()
  }
}

/**
 * Shares the event loop between rules and ingestion. Rules run at once up to a rate, and yield during a flood; a metric
 * shows their lag.
 */
export class RulePace {
  readonly #clock: Clock
  #since: number
  #count = 0
  /** Rules use one part in this many of the time; undefined: no flood. */
  #parts: number | undefined

  constructor(clock: Clock) {
    this.#clock = clock
    this.#since = clock.monotonic()
  }

  /** Call with the number of stored events. */
  note(events: number): void {
    this.#count += events
    this.#measure()
  }

  #measure(): void {
    const passed = this.#clock.monotonic() - this.#since
    if (passed < measuredMs) return
    const perSecond = (this.#count * 1_000) / passed
    this.#parts = perSecond > busyPerSecond ? busyParts * (perSecond / busyPerSecond) ** 2 : undefined
    this.#since += passed
    this.#count = 0
  }

  /** Yields to other work after this many milliseconds. */
  async giveWay(workedMs: number): Promise<void> {
    this.#measure()
    if (this.#parts === undefined) await nextTurn()
    else await pause(Math.min(maxPauseMs, Math.max(1, workedMs * (this.#parts - 1))))
  }
}
