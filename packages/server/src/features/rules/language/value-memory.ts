import { ruleLimits } from '@wardline/contract'
import type { Bounds, ValueHistory } from './correlation.ts'

interface KnownGroup {
  since: number
  values: Map<string, number>
}

/** A history in memory, for tests of rules and for backtests. Bounded like the state of a rule, oldest groups first. */
export function valueMemory(
  bounds: Bounds = { groups: ruleLimits.groups, entries: ruleLimits.groupEntries },
): ValueHistory & { evicted(): number } {
  const groups = new Map<string, KnownGroup>()
  let entries = 0
  let evicted = 0
  return {
    look(key, value) {
      const group = groups.get(key)
      return { groupSince: group?.since, valueSeen: group?.values.get(value) }
    },
    note(key, value, time) {
      const group = groups.get(key) ?? { since: time, values: new Map() }
      groups.delete(key)
      groups.set(key, group)
      if (!group.values.has(value)) entries += 1
      group.values.set(value, time)
      for (const [oldest, { values }] of groups) {
        if ((groups.size <= bounds.groups && entries <= bounds.entries) || groups.size === 1) break
        groups.delete(oldest)
        entries -= values.size
        evicted += 1
      }
    },
    evicted: () => evicted,
  }
}
