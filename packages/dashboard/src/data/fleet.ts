import { type QueryClient, queryOptions } from '@tanstack/react-query'
import type { ReplyOf } from '@wardline/contract'
import { call } from './client.ts'
import { queryKeys } from './query-keys.ts'

type Listed = ReplyOf<'getFleet'>['instances'][number]
export type Agent = Omit<Listed, 'control' | 'silent'> & { control: NonNullable<Listed['control']>; silent: boolean }
export type AgentDetail = ReplyOf<'getInstance'>

/** Refetch interval: a visible page is never older than this plus the response time. */
export const refreshMs = 5_000
/** Counts of a day change slowly, and the stream sends changed severity counts. */
export const countsRefreshMs = 30_000

/** Control state of an agent that was never suspended and never reported a control version. */
const untouched: Agent['control'] = {
  version: 0,
  changed_at: null,
  applied_version: null,
  applied_at: null,
  confirmed: true,
}

/** Reads all agents in the order of ids, a stable order that people learn. */
async function readFleet(signal: AbortSignal): Promise<Agent[]> {
  const agents: Agent[] = []
  for (let after: string | undefined; ; ) {
    const page = await call('getFleet', { query: after ? { after } : {}, signal })
    for (const agent of page.instances)
      agents.push({ ...agent, control: agent.control ?? untouched, silent: agent.silent ?? false })
    if (page.next === null) return agents
    after = page.next
  }
}

export const fleetQuery = queryOptions({
  queryKey: queryKeys.fleet,
  queryFn: ({ signal }) => readFleet(signal),
  refetchInterval: refreshMs,
  // Heartbeats change every response, so comparing ten thousand agents would find nothing to reuse.
  structuralSharing: false,
})

/** Ids of the agents whose configuration names a tool server, or that an agent started. */
export const matchingQuery = (filter: { server: string | undefined; parent: string | undefined }) =>
  queryOptions({
    queryKey: queryKeys.matching(filter),
    queryFn: async ({ signal }) => {
      const ids = new Set<string>()
      let after: string | undefined
      do {
        const page = await call('listFleetIds', { query: { ...filter, after }, signal })
        for (const id of page.ids) ids.add(id)
        after = page.next ?? undefined
      } while (after !== undefined)
      return ids
    },
    refetchInterval: 6 * refreshMs,
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

/** Updates the fleet list with the details of one agent, which were read later. */
export function noteDetail(client: QueryClient, detail: AgentDetail): void {
  const { id, status, silent, suspension_reason, control, suspension } = detail
  client.setQueryData(fleetQuery.queryKey, (fleet) =>
    fleet?.map((agent) =>
      agent.id === id ? { ...agent, status, silent, suspension_reason, control, suspension } : agent,
    ),
  )
}
