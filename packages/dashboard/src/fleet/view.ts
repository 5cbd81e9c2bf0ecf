import type { ReplyOf } from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import type { Agent, AgentPage } from '../data/fleet.ts'
import type { FleetSearch } from './search.ts'

export type GroupCounts = ReplyOf<'getFleetGroups'>['groups'][number]

/** Formats counts such as `3 agents, 2 suspended, 1 not confirmed`. */
export function countsText({
  all,
  suspended,
  unconfirmed,
  offline,
}: Pick<GroupCounts, 'all' | 'suspended' | 'unconfirmed' | 'offline'>): string {
  const others = { suspended, 'not confirmed': unconfirmed, offline }
  const parts = Object.entries(others).flatMap(([word, count]) =>
    count > 0 ? `${count.toLocaleString('en')} ${word}` : [],
  )
  return [counted(all, 'agent'), ...parts].join(', ')
}

export type FleetItem =
  | {
      kind: 'group'
      /** Empty for agents without such a tag. */
      name: string
      /** Those that are loaded. */
      agents: readonly Agent[]
      counts: GroupCounts
      isClosed: boolean
    }
  | { kind: 'agent'; agents: readonly [Agent] }

/** Returns the groups that may have agents with the status. */
export function groupsWith(groups: readonly GroupCounts[], status: FleetSearch['status']): GroupCounts[] {
  if (status === undefined || status === 'asked') return [...groups]
  const countOf = (group: GroupCounts) =>
    status === 'active' ? group.all - group.suspended - group.offline : group[status]
  return groups.filter((group) => countOf(group) > 0)
}

const lineOf = (agent: Agent): FleetItem => ({ kind: 'agent', agents: [agent] })

/** Returns the lines of the list: the loaded agents, or groups by name, each followed by its loaded agents. */
export function fleetItems(
  pages: readonly AgentPage[],
  groups: readonly GroupCounts[] | undefined,
  closed: readonly string[] = [],
): FleetItem[] {
  if (groups === undefined) return pages.flatMap(({ agents }) => agents.map(lineOf))
  return groups.flatMap((counts): FleetItem[] => {
    const { name } = counts
    const agents = pages.filter(({ group }) => group === name).flatMap((page) => page.agents)
    const isClosed = closed.includes(name)
    const head = { kind: 'group' as const, name, agents, counts, isClosed }
    return isClosed ? [head] : [head, ...agents.map(lineOf)]
  })
}
