import type { NewEvent } from './events.ts'

/** The service keeps this many baselines. The limit keeps generated names from filling the memory. */
const maxNames = 64
/** Names per event, whose description is limited to 1,000 characters. */
const namesPerEvent = 10

/** Sums by metric name since the last take(). */
export class SessionMetrics {
  #sums = new Map<string, number>()

  /** Returns an error text if the metric is invalid, otherwise undefined. */
  add(name: string, value: number): string | undefined {
    if (typeof name !== 'string' || !/^[A-Za-z][\w.-]{0,63}$/.test(name)) {
      return 'a metric must have a name of letters, digits, _, . and -, at most 64'
    }
    const sum = (this.#sums.get(name) ?? 0) + value
    if (typeof value !== 'number' || !Number.isFinite(sum)) return `the metric ${name} must be a finite number`
    if (!this.#sums.has(name) && this.#sums.size >= maxNames) {
      return `the metric ${name} is refused: the maximum is ${maxNames} names`
    }
    this.#sums.set(name, sum)
    return undefined
  }

  /** Returns events with the sums and resets them. */
  take(instanceId: string): NewEvent[] {
    const sums = [...this.#sums]
    this.#sums = new Map()
    const events: NewEvent[] = []
    for (let start = 0; start < sums.length; start += namesPerEvent) {
      events.push({
        severity: 'info',
        source: instanceId,
        event_type: 'session_metrics',
        description: JSON.stringify(Object.fromEntries(sums.slice(start, start + namesPerEvent))),
        instance_id: instanceId,
      })
    }
    return events
  }
}
