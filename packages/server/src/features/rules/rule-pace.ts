import { setImmediate as nextTurn, setTimeout as pause } from 'node:timers/promises'
import type { Clock } from '../../clock.ts'

/** Events a second of a process from which on storing them goes before the rules: more than fleets of thousands report. */
const busyPerSecond = 6_500
/**
 * From then on rules take one part of so many of the time, and less the larger the flood is, by its square: a short burst
 * is followed at once, and what a flood makes them miss they catch up afterwards.
 */
const busyParts = 12
/** The end of a flood is noticed so soon. */
const maxPauseMs = 100
/** Shorter bursts, such as batches that come together, are no flood. */
const measuredMs = 250

/** How long taking events through rules may hold the event loop, and events after which the time is looked at. */
const turnMs = 1
const lookAtTimeEvery = 16

/** A turn of the event loop in which events are taken through rules. */
export class RuleTurn {
  readonly #clock: Clock
  #since: number
  #events = 0

  constructor(clock: Clock) {
    this.#clock = clock
    this.#since = clock.monotonic()
  }

  /** To be asked after each event. */
  isOver(): boolean {
    this.#events += 1
    return this.#events % lookAtTimeEvery === 0 && this.workedMs >= turnMs
  }

  get workedMs(): number {
    return this.#clock.monotonic() - this.#since
  }

  /** The next turn begins. */
  begin(): void {
    this.#since = this.#clock.monotonic()
  }
}

/**
 * Shares the event loop with those who report. Rules follow at once up to the rate at which they must be fast, and give
 * way in a flood: the gauge of their lag says how far.
 */
export class RulePace {
  readonly #clock: Clock
  #since: number
  #count = 0
  /** Parts of the time, of which rules take one; undefined: the process is not busy. */
  #parts: number | undefined

  constructor(clock: Clock) {
    this.#clock = clock
    this.#since = clock.monotonic()
  }

  /** Notes events that were stored. */
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

  /** Lets everything else run after so many milliseconds of work. */
  async giveWay(workedMs: number): Promise<void> {
    this.#measure()
    if (this.#parts === undefined) await nextTurn()
    else await pause(Math.min(maxPauseMs, Math.max(1, workedMs * (this.#parts - 1))))
  }
}
