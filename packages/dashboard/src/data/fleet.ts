import {
  type InfiniteData,
  infiniteQueryOptions,
  keepPreviousData,
  type QueryClient,
  queryOptions,
} from '@tanstack/react-query'
import { type FleetState, limits, type ReplyOf } from '@wardline/contract'
import { call } from './client.ts'
import { queryKeys } from './query-keys.ts'

type Listed = ReplyOf<'getFleet'>['instances'][number]
export type Agent = Omit<Listed, 'control' | 'silent'> & { control: NonNullable<Listed['control']>; silent: boolean }
export type AgentDetail = ReplyOf<'getInstance'>

/** Refetch interval: a visible page is never older than this plus the response time. */
export const refreshMs = 5_000
/** Counts of a day change slowly, and the stream sends changed severity counts. */
export const countsRefreshMs = 30_000
/** With more loaded pages than these, all of them are read again more rarely. */
const fewPages = 3

/** Control state of an agent that was never suspended and never reported a control version. */
const untouched: Agent['control'] = {
  version: 0,
  changed_at: null,
  applied_version: null,
  applied_at: null,
  confirmed: true,
}
const withDefaults = (agent: Listed): Agent => ({
  ...agent,
  control: agent.control ?? untouched,
  silent: agent.silent ?? false,
})

type FleetQuery = NonNullable<Parameters<typeof call<'getFleet'>>[1]>['query']
/** What the counts of a list depend on. */
export type FleetFilter = Pick<NonNullable<FleetQuery>, 'q' | 'witness' | 'server' | 'parent'>

interface Summary {
  at: string
  digest: string
  state: FleetState
}

/** Counts of the agents that match, and without a filter the marks of the fleet: of one size for any fleet. */
export const summaryQuery = (filter: FleetFilter = {}) =>
  queryOptions({
    queryKey: queryKeys.fleetSummary(filter),
    queryFn: async ({ client, queryKey, signal }): Promise<Summary> => {
      const known = client.getQueryData<Summary>(queryKey)
      const query = { ...filter, ...(known ? { known: known.digest } : {}) }
      const { at, digest, state } = await call('getFleetSummary', { query, signal })
      return { at, digest, state: state ?? known!.state }
    },
    refetchInterval: refreshMs,
    placeholderData: keepPreviousData,
  })

export interface AgentPage {
  agents: Agent[]
  /** The group that it is of. */
  group: string | undefined
  next: string | null
}

interface ListFilter extends Omit<NonNullable<FleetQuery>, 'after' | 'in' | 'ids'> {}

/** Pages of agents; `open`: the names of the groups whose agents are listed, one after the other. */
export const agentPagesQuery = (filter: ListFilter, open: readonly string[] | undefined) =>
  infiniteQueryOptions({
    queryKey: queryKeys.fleetList(filter, open),
    queryFn: async ({ pageParam: { group, after }, signal }): Promise<AgentPage> => {
      const query = { ...filter, ...(group === undefined ? {} : { in: group }), ...(after ? { after } : {}) }
      const { instances, next } = await call('getFleet', { query, signal })
      return { agents: instances.map(withDefaults), group, next }
    },
    initialPageParam: { group: open?.[0], after: undefined } as {
      group: string | undefined
      after?: string | undefined
    },
    getNextPageParam: ({ next, group }: AgentPage) => {
      if (next !== null) return { group, after: next }
      const following = group === undefined ? undefined : open?.[open.indexOf(group) + 1]
      return following === undefined ? undefined : { group: following }
    },
    refetchInterval: ({ state }) => ((state.data?.pages.length ?? 0) > fewPages ? 6 : 1) * refreshMs,
    placeholderData: keepPreviousData,
  })

/** Agents by id; unknown ones are missing. With the digest of a summary they are read when that changes, else every five seconds. */
export const agentsQuery = (ids: readonly string[], digest?: string) =>
  queryOptions({
    queryKey: queryKeys.agents(ids, digest),
    queryFn: async ({ signal }): Promise<Agent[]> => {
      const named = ids.slice(0, limits.fleetKnown)
      const parts = Array.from({ length: Math.ceil(named.length / limits.listedIds) }, (_, part) =>
        named.slice(part * limits.listedIds, (part + 1) * limits.listedIds),
      )
      const read = (part: readonly string[]) => call('getFleet', { query: { ids: part.join(',') }, signal })
      return (await Promise.all(parts.map(read))).flatMap(({ instances }) => instances.map(withDefaults))
    },
    refetchInterval: digest === undefined ? refreshMs : countsRefreshMs,
    // Each change of the fleet has its own.
    gcTime: countsRefreshMs,
    placeholderData: keepPreviousData,
    enabled: ids.length > 0,
  })

/** The first agents that match a text. */
export const foundAgentsQuery = (q: string, limit: number) =>
  queryOptions({
    queryKey: queryKeys.foundAgents(q, limit),
    queryFn: async ({ signal }): Promise<Agent[]> => {
      const query = { limit: String(limit), ...(q ? { q: q.slice(0, limits.fleetWords) } : {}) }
      return (await call('getFleet', { query, signal })).instances.map(withDefaults)
    },
    placeholderData: keepPreviousData,
  })

/** Suspended agents, as many as can be resumed by id. */
export const suspendedQuery = queryOptions({
  queryKey: queryKeys.suspendedAgents,
  queryFn: async ({ signal }): Promise<Agent[]> => {
    const agents: Agent[] = []
    for (let after: string | undefined; agents.length < limits.selectedInstances; ) {
      const query = { status: 'suspended' as const, limit: String(limits.pageSize), ...(after ? { after } : {}) }
      const { instances, next } = await call('getFleet', { query, signal })
      agents.push(...instances.map(withDefaults))
      if (next === null) break
      after = next
    }
    return agents
  },
})

/** How many agents have which tag. */
export const fleetTagsQuery = queryOptions({
  queryKey: queryKeys.fleetTags,
  queryFn: ({ signal }) => call('getFleetTags', { signal }),
  refetchInterval: countsRefreshMs,
})

export const fleetGroupsQuery = (by: string, filter: FleetFilter) =>
  queryOptions({
    queryKey: queryKeys.fleetGroups(by, filter),
    queryFn: ({ signal }) => call('getFleetGroups', { query: { ...filter, by }, signal }),
    refetchInterval: 2 * refreshMs,
    placeholderData: keepPreviousData,
  })

export const statusQuery = queryOptions({
  queryKey: queryKeys.status,
  queryFn: async ({ signal }) => {
    const { stats, toolCalls } = await call('getStatus', { query: { omit: 'instances' }, signal })
    return { stats, toolCalls }
  },
  refetchInterval: countsRefreshMs,
})

export const agentQuery = (id: string) =>
  queryOptions({
    queryKey: queryKeys.agent(id),
    queryFn: ({ signal }) => call('getInstance', { params: { instanceId: id }, signal }),
    refetchInterval: refreshMs,
  })

/** Changes agents in all lists that are loaded. */
export function changeAgents(client: QueryClient, change: (agent: Agent) => Agent): void {
  client.setQueriesData<Agent[]>({ queryKey: queryKeys.agentLists }, (agents) => agents?.map(change))
  client.setQueriesData<InfiniteData<AgentPage>>(
    { queryKey: queryKeys.fleetLists },
    (data) => data && { ...data, pages: data.pages.map((page) => ({ ...page, agents: page.agents.map(change) })) },
  )
}

/** Updates loaded lists with the details of one agent, which were read later. */
export function noteDetail(client: QueryClient, detail: AgentDetail): void {
  const { id, status, silent, suspension_reason, control, suspension } = detail
  changeAgents(client, (agent) =>
    agent.id === id ? { ...agent, status, silent, suspension_reason, control, suspension } : agent,
  )
}
