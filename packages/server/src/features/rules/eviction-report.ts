import { eventTypes } from '@wardline/contract'
import { minuteMs } from '../../clock.ts'
import type { Ingest } from '../events/ingest.ts'
import type { MemoryLimit } from './language/memory-limit.ts'
import type { RunningRule } from './running-rule.ts'

/** Rules in a report, and agents named for each: what a person reads. */
const maxRules = 20
const maxAgents = 5

/** Dropped by instance, of what both limits of a rule hold. */
function agentsOf(limits: readonly MemoryLimit[]): { instance_id: string; evicted: number }[] {
  const evictedBy = new Map<string, number>()
  for (const [name, evicted] of limits.flatMap((limit) => [...limit.evictedBy])) {
    evictedBy.set(name, (evictedBy.get(name) ?? 0) + evicted)
  }
  return (
    [...evictedBy]
      // Groups of values that an older version stored name no instance.
      .filter(([reporter]) => reporter !== '' && !reporter.includes('['))
      .sort(([, a], [, b]) => b - a)
      .slice(0, maxAgents)
      .map(([instance_id, evicted]) => ({ instance_id, evicted }))
  )
}

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
      limits: [state.memory, history.memory],
      evicted: state.memory.evicted + history.memory.evicted,
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
      .map(({ limits, ...rest }) => ({ ...rest, instances: agentsOf(limits) }))
    const [first] = named.flatMap(({ instances }) => instances).sort((a, b) => b.evicted - a.evicted)
    const cause = first === undefined ? '' : `; ${first.evicted} of them of ${first.instance_id}`
    await this.#ingest.store([
      this.#ingest.own({
        severity: 'warning',
        event_type: eventTypes.ruleStateEvicted,
        description: `Rules forgot ${evicted} groups or values, because there were too many${cause}`,
        metadata: { evicted, rules: named },
      }),
    ])
    for (const limit of counts.flatMap(({ limits }) => limits)) limit.evictedBy.clear()
    this.#reported = total
    this.#reportedAt = now
  }
}
