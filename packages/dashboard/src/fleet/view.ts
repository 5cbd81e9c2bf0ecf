import { counted } from '@wardline/text/counted'
import type { Agent } from '../data/fleet.ts'
import { isUnconfirmed, type ShownStatus, shownStatus } from '../data/fleet-counts.ts'
import type { FleetSearch, SortKey, StatusFilter } from './search.ts'

/** Worst first. */
const statusOrder: Record<ShownStatus, number> = {
  violated: 0,
  unconfirmed: 1,
  pending: 2,
  delivered: 3,
  partial: 4,
  quiet: 5,
  confirmed: 6,
  proven: 7,
  offline: 8,
  active: 9,
}

/** Created once: a new collator for each comparison would take most of a second for ten thousand agents. */
const versions = new Intl.Collator('en', { numeric: true })
const textOrder = (one: string, other: string) => (one < other ? -1 : one === other ? 0 : 1)
const compares: Record<SortKey, (one: Agent, other: Agent) => number> = {
  id: (one, other) => textOrder(one.id, other.id),
  status: (one, other) => statusOrder[shownStatus(one)] - statusOrder[shownStatus(other)],
  version: (one, other) => versions.compare(one.version ?? '', other.version ?? ''),
  // Agents that continue without the service ("open") come first.
  fails: (one, other) => textOrder(other.fail_mode ?? '', one.fail_mode ?? ''),
  control: (one, other) => (one.control.applied_version ?? -1) - (other.control.applied_version ?? -1),
  heartbeat: (one, other) => textOrder(one.last_heartbeat, other.last_heartbeat),
}

/** Computed once per read of the fleet, not for each letter typed into the filter. */
const texts = new WeakMap<Agent, string>()
function textOf(agent: Agent): string {
  const known = texts.get(agent)
  if (known !== undefined) return known
  const { id, name, suspension_reason, version, tags } = agent
  const text = `${id} ${name} ${suspension_reason ?? ''} ${version ?? ''} ${tags.join(' ')}`.toLowerCase()
  texts.set(agent, text)
  return text
}

/** Filters agents by text: every word must be in the id, name, reason, version or a tag. */
export function withText(fleet: readonly Agent[], q: string | undefined): readonly Agent[] {
  const words = q?.toLowerCase().split(/\s+/).filter(Boolean) ?? []
  if (words.length === 0) return fleet
  return fleet.filter((agent) => {
    const text = textOf(agent)
    return words.every((word) => text.includes(word))
  })
}

/** Counts the agents per status filter. */
export function filterCounts(agents: readonly Agent[]): Record<StatusFilter, number> {
  const counts = { active: 0, suspended: 0, unconfirmed: 0, offline: 0 }
  for (const agent of agents) {
    counts[agent.status] += 1
    if (isUnconfirmed(shownStatus(agent))) counts.unconfirmed += 1
  }
  return counts
}

/** Formats counts such as `3 agents, 2 suspended, 1 not confirmed`. */
export const countsText = (agents: number, counts: Record<Exclude<StatusFilter, 'active'>, number>): string =>
  [
    counted(agents, 'agent'),
    ...(counts.suspended > 0 ? [`${counts.suspended} suspended`] : []),
    ...(counts.unconfirmed > 0 ? [`${counts.unconfirmed} not confirmed`] : []),
    ...(counts.offline > 0 ? [`${counts.offline} offline`] : []),
  ].join(', ')

export function shownAgents(agents: readonly Agent[], { status, sort = 'id', down, from }: FleetSearch): Agent[] {
  const kept = agents.filter(
    (agent) =>
      (status === undefined ||
        agent.status === status ||
        (status === 'unconfirmed' && isUnconfirmed(shownStatus(agent)))) &&
      (from === undefined || agent.id >= from),
  )
  // The service already sorts by id, so ten thousand rows need no sorting.
  if (sort !== 'id') kept.sort((one, other) => compares[sort](one, other) || compares.id(one, other))
  return down ? kept.reverse() : kept
}

/** Groups by all tags of an agent. */
export const byAllTags = 'tags'

/** Returns the possible groupings: all tags, and each prefix before the colon of a tag. */
export function groupChoices(fleet: readonly Agent[]): string[] {
  const names = new Set<string>()
  for (const { tags } of fleet) for (const tag of tags) if (tag.includes(':')) names.add(tag.slice(0, tag.indexOf(':')))
  names.delete(byAllTags)
  return [byAllTags, ...[...names].sort()]
}

function groupName({ tags }: Agent, group: string): string {
  if (group === byAllTags) return tags.join(' · ')
  return tags
    .filter((tag) => tag.startsWith(`${group}:`))
    .map((tag) => tag.slice(group.length + 1))
    .join(' · ')
}

interface AgentGroup {
  /** Empty for agents without such a tag. */
  name: string
  agents: Agent[]
}
export type FleetItem =
  | { kind: 'group'; group: AgentGroup; isClosed: boolean; counts: ReturnType<typeof filterCounts> }
  | { kind: 'agent'; agent: Agent }

/** The agents of a line: one, or those of the group. */
export const agentsOf = (item: FleetItem | undefined): readonly Agent[] =>
  item === undefined ? [] : item.kind === 'agent' ? [item.agent] : item.group.agents

/** Returns the lines of the list: the agents, or groups by name, each followed by its agents. */
export function fleetItems(agents: readonly Agent[], { group, closed = [] }: FleetSearch): FleetItem[] {
  if (group === undefined) return agents.map((agent) => ({ kind: 'agent', agent }))
  const groups = new Map<string, Agent[]>()
  for (const agent of agents) {
    const name = groupName(agent, group)
    const members = groups.get(name)
    if (members) members.push(agent)
    else groups.set(name, [agent])
  }
  return [...groups]
    .sort(([one], [other]) => Number(one === '') - Number(other === '') || textOrder(one, other))
    .flatMap(([name, members]): FleetItem[] => {
      const isClosed = closed.includes(name)
      const head: FleetItem = {
        kind: 'group',
        group: { name, agents: members },
        isClosed,
        counts: filterCounts(members),
      }
      return [head, ...(isClosed ? [] : members.map((agent) => ({ kind: 'agent' as const, agent })))]
    })
}
