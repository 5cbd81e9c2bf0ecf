import { counted } from '@wardline/text/counted'
import type { Agent } from '../data/fleet.ts'
import { countsOf, isOnlyAsked, isUnconfirmed, type ShownStatus, shownStatus } from '../data/fleet-counts.ts'
import type { FleetSearch, SortKey } from './search.ts'

type FleetCounts = ReturnType<typeof countsOf>

const worstFirst: readonly ShownStatus[] = [
  ...(['violated', 'unconfirmed', 'pending', 'delivered', 'partial', 'quiet'] as const),
  ...(['confirmed', 'proven', 'enforced', 'offline', 'active'] as const),
]

/** Created once: a new collator for each comparison would take most of a second for ten thousand agents. */
const versions = new Intl.Collator('en', { numeric: true })
const textOrder = (one: string, other: string) => (one < other ? -1 : one === other ? 0 : 1)
const compares: Record<SortKey, (one: Agent, other: Agent) => number> = {
  id: (one, other) => textOrder(one.id, other.id),
  status: (one, other) => worstFirst.indexOf(shownStatus(one)) - worstFirst.indexOf(shownStatus(other)),
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

/** Formats counts such as `3 agents, 2 suspended, 1 not confirmed`. */
export function countsText({ all, suspended, unconfirmed, offline }: FleetCounts): string {
  const others = { suspended, 'not confirmed': unconfirmed, offline }
  const parts = Object.entries(others).flatMap(([word, count]) => (count > 0 ? `${count} ${word}` : []))
  return [counted(all, 'agent'), ...parts].join(', ')
}

export function shownAgents(
  agents: readonly Agent[],
  { status, heard, sort = 'id', down, from }: FleetSearch,
): Agent[] {
  const kept = agents.filter(
    (agent) =>
      (status === undefined ||
        agent.status === status ||
        (status === 'unconfirmed' && isUnconfirmed(shownStatus(agent))) ||
        (status === 'asked' && isOnlyAsked(agent))) &&
      (heard === undefined || agent.heard_by?.includes(heard)) &&
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

export type FleetItem =
  | {
      kind: 'group'
      /** Empty for agents without such a tag. */
      name: string
      agents: readonly Agent[]
      counts: FleetCounts
      isClosed: boolean
    }
  | { kind: 'agent'; agents: readonly [Agent] }

/** Returns the lines of the list: the agents, or groups by name, each followed by its agents. */
export function fleetItems(agents: readonly Agent[], { group, closed = [] }: FleetSearch): FleetItem[] {
  const lineOf = (agent: Agent): FleetItem => ({ kind: 'agent', agents: [agent] })
  if (group === undefined) return agents.map(lineOf)
  return [...Map.groupBy(agents, (agent) => groupName(agent, group))]
    .sort(([one], [other]) => Number(one === '') - Number(other === '') || textOrder(one, other))
    .flatMap(([name, members]): FleetItem[] => {
      const isClosed = closed.includes(name)
      const head = { kind: 'group' as const, name, agents: members, counts: countsOf(members), isClosed }
      return isClosed ? [head] : [head, ...members.map(lineOf)]
    })
}
