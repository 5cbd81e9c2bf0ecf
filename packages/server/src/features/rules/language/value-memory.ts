import { ruleLimits } from '@wardline/contract'
import { ByUse, type Linked } from './by-use.ts'
import type { Bounds, ValueHistory } from './correlation.ts'

interface KnownGroup extends Linked<KnownGroup> {
  since: number
  values: Map<string, number>
}

/** A history in memory for the tests of rules. Limited like the state of a rule; drops the oldest groups first. */
export function valueMemory(
  bounds: Omit<Bounds, 'firings'> = { groups: ruleLimits.groups, entries: ruleLimits.groupEntries },
): ValueHistory & { evicted(): number } {
  const groups = new ByUse<KnownGroup>()
  let entries = 0
  let evicted = 0
  return {
    look(key, value) {
      const group = groups.get(key)
      return { groupSince: group?.since, valueSeen: group?.values.get(value) }
    },
    note(key, value, time) {
      let group = groups.get(key)
      if (group) groups.use(group)
      else {
        group = { key, since: time, values: new Map(), older: undefined, newer: undefined }
        groups.add(group)
      }
      if (!group.values.has(value)) entries += 1
      group.values.set(value, time)
      while ((groups.size > bounds.groups || entries > bounds.entries) && groups.size > 1) {
        const oldest = groups.oldest!
        groups.delete(oldest)
        entries -= oldest.values.size
        evicted += 1
      }
    },
    evicted: () => evicted,
  }
}
