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
/** How often the rate is measured. */
const measuredMs = 250
/**
 * Events above that rate that are not a flood yet: what waited while a process stood still for 0.17 s at 5,000 events a
 * second. More would hide a flood for seconds, because rules that run beside it slow it down.
 */
const burstEvents = 500
/** Events above the rate that are counted, so that the end of a long flood is noticed within a second. */
const maxExcess = 1.25 * burstEvents

/** How long rules may block the event loop: longer if other work does, or they would get next to nothing beside it. */
const turnMs = { shortest: 1, longest: 5, partOfOthers: 4 }
/** Counted slices after which a turn ends in any case. What is counted is the worst case: most take a few microseconds. */
const maxSlices = 8

/** A turn of the event loop in which rules process events. */
export class RuleTurn {
  readonly #clock: Clock
  #since: number
  #ms = turnMs.shortest
  #slices = 0

  constructor(clock: Clock) {
    this.#clock = clock
    this.#since = clock.monotonic()
  }

  /** Call after each event: a single one may have a thousand values. */
  isOver(): boolean {
    return this.workedMs >= this.#ms
  }

  /** Call after each counted slice of an event. */
  isOverAfterSlice(): boolean {
    this.#slices += 1
    return this.#slices >= maxSlices || this.isOver()
  }

  get workedMs(): number {
    return this.#clock.monotonic() - this.#since
  }

  /** Call when the next turn begins, with the milliseconds that other work took before it. */
  begin(othersMs = 0): void {
    this.#since = this.#clock.monotonic()
    this.#slices = 0
    this.#ms = Math.max(turnMs.shortest, Math.min(turnMs.longest, othersMs / turnMs.partOfOthers))
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
  /** Events above the rate of late. */
  #excess = 0
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
    const more = this.#count - (busyPerSecond * passed) / 1_000
    this.#excess = Math.min(maxExcess, Math.max(0, this.#excess + more))
    const isFlood = this.#excess >= burstEvents
    this.#parts = isFlood ? busyParts * Math.max(1, perSecond / busyPerSecond) ** 2 : undefined
    this.#since += passed
    this.#count = 0
  }

  /** Yields to other work after this many milliseconds. Returns how long it took; 0 in a flood, when it has priority. */
  async giveWay(workedMs: number): Promise<number> {
    this.#measure()
    const since = this.#clock.monotonic()
    if (this.#parts === undefined) {
      await nextTurn()
      return this.#clock.monotonic() - since
    }
    await pause(Math.min(maxPauseMs, Math.max(1, workedMs * (this.#parts - 1))))
    return 0
  }
}
