import { eventTypes } from '@wardline/contract'
import { minuteMs } from '../../clock.ts'
import type { Ingest } from '../events/ingest.ts'
import type { RunningRule } from './running-rule.ts'

/** Rules in a report, and agents named for each: what a person reads. */
const maxRules = 20
const maxAgents = 5

const agentsOf = (evictedBy: ReadonlyMap<string, number>) =>
  [...evictedBy]
    // Groups of values that an older version stored name no instance.
    .filter(([reporter]) => reporter !== '' && !reporter.includes('['))
    .sort(([, a], [, b]) => b - a)
    .slice(0, maxAgents)
    .map(([instance_id, evicted]) => ({ instance_id, evicted }))

/** Reports once a minute what rules forgot at their limits and which agents caused it, so that this never happens silently. */
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
      history,
    }))
    const total = counts.reduce((sum, { evicted }) => sum + evicted, 0)
    if (total <= this.#reported) {
      this.#reported = total
      return
    }
    if (now - this.#reportedAt < minuteMs) return
    const evicted = total - this.#reported
    const named = counts
      .filter((each) => each.evicted > 0)
      .slice(0, maxRules)
      .map(({ history, ...rest }) => ({ ...rest, instances: agentsOf(history.evictedBy) }))
    const [first] = named.flatMap(({ instances }) => instances).sort((a, b) => b.evicted - a.evicted)
    const cause = first === undefined ? '' : `; ${first.evicted} of them are values that ${first.instance_id} showed`
    await this.#ingest.store([
      this.#ingest.own({
        severity: 'warning',
        event_type: eventTypes.ruleStateEvicted,
        description: `Rules forgot ${evicted} groups or values, because there were too many${cause}`,
        metadata: { evicted, rules: named },
      }),
    ])
    for (const { history } of counts) history.evictedBy.clear()
    this.#reported = total
    this.#reportedAt = now
  }
}
