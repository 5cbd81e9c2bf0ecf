import type { ShownStatus } from '../parts/marks.tsx'
import type { Agent } from '../service/fleet.ts'

export const statusFilters = ['active', 'suspended', 'unconfirmed', 'offline'] as const
type StatusFilter = (typeof statusFilters)[number]
export const sortKeys = ['id', 'status', 'heartbeat'] as const
export type SortKey = (typeof sortKeys)[number]

/** What the address says of the list. */
export interface FleetSearch {
  status?: StatusFilter
  q?: string
  sort?: SortKey
  down?: true
  /** The list begins at this id, as a mark of a group does. */
  from?: string
}

const statusOrder: Record<ShownStatus, number> = { unconfirmed: 0, suspended: 1, offline: 2, active: 3 }

const compares: Record<SortKey, (one: Agent, other: Agent, statusOf: (agent: Agent) => ShownStatus) => number> = {
  id: (one, other) => (one.id < other.id ? -1 : 1),
  status: (one, other, statusOf) => statusOrder[statusOf(one)] - statusOrder[statusOf(other)],
  heartbeat: (one, other) => (one.last_heartbeat < other.last_heartbeat ? -1 : 1),
}

/** Every word is in the id, the name or the reason. */
export function withText(fleet: readonly Agent[], q: string | undefined): readonly Agent[] {
  const words = q?.toLowerCase().split(/\s+/).filter(Boolean) ?? []
  if (words.length === 0) return fleet
  return fleet.filter((agent) => {
    const text = `${agent.id} ${agent.name} ${agent.suspension_reason ?? ''}`.toLowerCase()
    return words.every((word) => text.includes(word))
  })
}

/** Counts of each filter among the agents that the text leaves. */
export function filterCounts(
  agents: readonly Agent[],
  statusOf: (agent: Agent) => ShownStatus,
): Record<StatusFilter, number> {
  const counts = { active: 0, suspended: 0, unconfirmed: 0, offline: 0 }
  for (const agent of agents) {
    const status = statusOf(agent)
    counts[status] += 1
    if (status === 'unconfirmed') counts.suspended += 1
  }
  return counts
}

export function shownAgents(
  agents: readonly Agent[],
  { status, sort = 'id', down, from }: FleetSearch,
  statusOf: (agent: Agent) => ShownStatus,
): Agent[] {
  const kept = agents
    .filter(
      (agent) =>
        status === undefined || statusOf(agent) === status || (status === 'suspended' && agent.status === 'suspended'),
    )
    .filter(({ id }) => from === undefined || id >= from)
  kept.sort((one, other) => compares[sort](one, other, statusOf) || compares.id(one, other, statusOf))
  return down ? kept.reverse() : kept
}
