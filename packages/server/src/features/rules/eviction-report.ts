import { eventTypes } from '@wardline/contract'
import { minuteMs } from '../../clock.ts'
import type { Ingest } from '../events/ingest.ts'
import type { RunningRule } from './running-rule.ts'

/** Reports once a minute how many groups rules dropped, so that this never happens silently. */
export class EvictionReport {
  readonly #ingest: Ingest
  #reported = 0
  #reportedAt = -Infinity

  constructor(ingest: Ingest) {
    this.#ingest = ingest
  }

  async report(rules: readonly RunningRule[], now: number): Promise<void> {
    const counts = rules.map(({ row, state, history }) => ({
      rule: row.id,
      title: row.title,
      evicted: state.evicted + history.evicted,
    }))
    const total = counts.reduce((sum, { evicted }) => sum + evicted, 0)
    if (total <= this.#reported) {
      this.#reported = total
      return
    }
    if (now - this.#reportedAt < minuteMs) return
    const evicted = total - this.#reported
    await this.#ingest.store([
      this.#ingest.own({
        severity: 'warning',
        event_type: eventTypes.ruleStateEvicted,
        description: `Rules forgot ${evicted} groups that were used least recently, because there were too many`,
        metadata: { evicted, rules: counts.filter((each) => each.evicted > 0).slice(0, 20) },
      }),
    ])
    this.#reported = total
    this.#reportedAt = now
  }
}
