import { queryOptions, useQueries, useQuery } from '@tanstack/react-query'
import type { ReplyOf } from '@wardline/contract'
import { call } from './client.ts'

export type Agent = ReplyOf<'listInstances'>['instances'][number]
export type AgentDetail = ReplyOf<'getInstance'>

/** Looked at, a page is never older than this by more than the time of an answer. */
export const refreshMs = 5_000
const pageRows = '1000'

/** Every agent, in the order of ids: the order that a person learns. */
async function readFleet(signal: AbortSignal): Promise<Agent[]> {
  const agents: Agent[] = []
  for (let after: string | undefined; ; ) {
    const page = await call('listInstances', { query: { limit: pageRows, ...(after ? { after } : {}) }, signal })
    agents.push(...page.instances)
    if (page.next === null) return agents
    after = page.next
  }
}

export const fleetQuery = queryOptions({
  queryKey: ['fleet'],
  queryFn: ({ signal }) => readFleet(signal),
  refetchInterval: refreshMs,
})

export const statusQuery = queryOptions({
  queryKey: ['status'],
  queryFn: async ({ signal }) => {
    const { stats, toolCalls } = await call('getStatus', { signal })
    return { stats, toolCalls }
  },
  refetchInterval: refreshMs,
})

export const agentQuery = (id: string) =>
  queryOptions({
    queryKey: ['agent', id],
    queryFn: ({ signal }) => call('getInstance', { params: { instanceId: id }, signal }),
    refetchInterval: refreshMs,
  })

/** Each is one request: of more, the first ones. */
const maxDetails = 30

/** Details of agents that are suspended: whether each confirmed. */
export function useSuspendedDetails(): Map<string, AgentDetail> {
  const { data: fleet = [] } = useQuery(fleetQuery)
  const ids = fleet.filter(({ status }) => status === 'suspended').map(({ id }) => id)
  return useQueries({
    queries: ids.slice(0, maxDetails).map(agentQuery),
    combine: (results) => new Map(results.flatMap(({ data }) => (data ? [[data.id, data] as const] : []))),
  })
}
