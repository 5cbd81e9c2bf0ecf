import type { EventRow } from '@wardline/contract'
import { hourMs, minuteMs, startOf } from '../../../clock.ts'
import { ByUse, type Keyed } from './by-use.ts'
import type { Bounds } from './correlation.ts'

/** The reporter of the event that completes a firing. */
type Reporter = Pick<EventRow, 'instance_id' | 'by_service'>

/** Firings of a reporter in the minute of the budget. */
export type SpentFirings = Reporter & { firings: number }

interface Spent extends Keyed<Spent> {
  firings: number
}

/**
 * What the service reports about an agent has a separate budget: an agent must not hide it behind a flood. Nor may agents
 * share one, or a flood of one would keep the response from another.
 */
const keyOf = ({ instance_id, by_service }: Reporter) => `${by_service ? 'service' : 'agent'} ${instance_id ?? ''}`

const none: readonly [number, number][] = []

/** Firings that a rule may still make in a minute of the events, for each instance; those beyond are counted. */
export class FiringBudget {
  #minute = Number.NEGATIVE_INFINITY
  #spent = new ByUse<Spent>()
  readonly #suppressed = new Map<number, number>()

  /** Takes a firing from the budget; false if the reporter's budget is spent. */
  take(
    reporter: Reporter,
    { time, bounds, counter }: { time: number; bounds: Bounds; counter: { evicted: number } },
  ): boolean {
    const minute = startOf(time, minuteMs)
    if (minute !== this.#minute) this.restore(minute, [])
    const key = keyOf(reporter)
    const known = this.#spent.get(key)
    if (!known) {
      this.#add(key, 1)
      if (this.#spent.size > bounds.instances) {
        this.#spent.delete(this.#spent.oldest!)
        counter.evicted += 1
      }
      return true
    }
    this.#spent.use(known)
    if (known.firings < bounds.firings) {
      known.firings += 1
      return true
    }
    return this.suppress(time)
  }

  /** Counts a firing as suppressed. */
  suppress(time: number): false {
    const hour = startOf(time, hourMs)
    this.#suppressed.set(hour, (this.#suppressed.get(hour) ?? 0) + 1)
    return false
  }

  /** Firings beyond the budget since the last call, by hour of the events. */
  takeSuppressed(): readonly [hour: number, count: number][] {
    if (this.#suppressed.size === 0) return none
    const counts = [...this.#suppressed]
    this.#suppressed.clear()
    return counts
  }

  /** Restores the spent budgets of a minute, ordered by last firing, oldest first. */
  restore(minute: number, spent: readonly SpentFirings[]): void {
    this.#minute = minute
    this.#spent = new ByUse()
    for (const { firings, ...reporter } of spent) this.#add(keyOf(reporter), firings)
  }

  #add(key: string, firings: number): void {
    this.#spent.add({ key, firings, older: undefined, newer: undefined })
  }
}
