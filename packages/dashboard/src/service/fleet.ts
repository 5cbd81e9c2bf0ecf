import { type QueryClient, queryOptions } from '@tanstack/react-query'
import type { ReplyOf } from '@wardline/contract'
import { call } from './client.ts'

type Listed = ReplyOf<'getFleet'>['instances'][number]
export type Agent = Omit<Listed, 'control' | 'silent'> & { control: NonNullable<Listed['control']>; silent: boolean }
export type AgentDetail = ReplyOf<'getInstance'>

/** Looked at, a page is never older than this by more than the time of an answer. */
export const refreshMs = 5_000
/** Counts of a day change slowly, and the stream brings those of severities as they change. */
export const countsRefreshMs = 30_000

/** Of an agent that was never suspended and never reported a control version. */
const untouched: Agent['control'] = {
  version: 0,
  changed_at: null,
  applied_version: null,
  applied_at: null,
  confirmed: true,
}

/** Every agent, in the order of ids: the order that a person learns. */
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
  queryKey: ['fleet'],
  queryFn: ({ signal }) => readFleet(signal),
  refetchInterval: refreshMs,
  // Heartbeats make each answer another one: comparing ten thousand agents finds nothing to keep.
  structuralSharing: false,
})

export const statusQuery = queryOptions({
  queryKey: ['status'],
  queryFn: async ({ signal }) => {
    const { stats, toolCalls } = await call('getStatus', { query: { omit: 'instances' }, signal })
    return { stats, toolCalls }
  },
  refetchInterval: countsRefreshMs,
})

export const agentQuery = (id: string) =>
  queryOptions({
    queryKey: ['agent', id],
    queryFn: ({ signal }) => call('getInstance', { params: { instanceId: id }, signal }),
    refetchInterval: refreshMs,
  })

/** What was read of one agent is newer than what the fleet says of it. */
export function noteDetail(client: QueryClient, detail: AgentDetail): void {
  const { id, status, silent, suspension_reason, control, containment } = detail
  client.setQueryData(fleetQuery.queryKey, (fleet) =>
    fleet?.map((agent) =>
      agent.id === id ? { ...agent, status, silent, suspension_reason, control, containment } : agent,
    ),
  )
}
