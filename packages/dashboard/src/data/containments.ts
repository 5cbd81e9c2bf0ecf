import { queryOptions } from '@tanstack/react-query'
import { type ContainmentSummary, limits, type ReplyOf } from '@wardline/contract'
import { call } from './client.ts'
import { countsRefreshMs, refreshMs } from './fleet.ts'
import { queryKeys } from './query-keys.ts'

export type Drill = ReplyOf<'getDrill'>

/** Refetch interval while the state may change every second. */
const soonMs = 1_000

export const suspensionsQuery = (id: string) =>
  queryOptions({
    queryKey: queryKeys.suspensions(id),
    queryFn: async ({ signal }) => (await call('listSuspensions', { params: { instanceId: id }, signal })).suspensions,
    refetchInterval: ({ state }) => {
      const newest = state.data?.[0]
      return !newest || newest.resumed_at !== null || newest.state === 'proven' || newest.state === 'enforced'
        ? refreshMs
        : soonMs
    },
  })

export const drillQuery = (id: string) =>
  queryOptions({
    queryKey: queryKeys.drill(id),
    queryFn: ({ signal }) => call('getDrill', { params: { id }, signal }),
    refetchInterval: ({ state }) => (state.data?.state === 'complete' ? false : soonMs / 2),
  })

export type Brake = ReplyOf<'getBrake'>

const isMoving = ({ state, action, proven, changed }: ContainmentSummary): boolean =>
  state === 'in_progress' || (state === 'complete' && action === 'suspend' && proven < changed)

/**
 * The newest containments, and the resumes that wait for a second operator. Every screen reads it for its banner;
 * streamed changes refetch it at once.
 */
export const containmentsQuery = queryOptions({
  queryKey: queryKeys.containmentList,
  queryFn: ({ signal }) => call('listContainments', { query: { limit: '50' }, signal }),
  refetchInterval: ({ state }) =>
    state.data?.containments.some(({ state }) => state === 'in_progress') ? 2 * soonMs : countsRefreshMs,
})

export const containmentQuery = (id: string) =>
  queryOptions({
    queryKey: queryKeys.containment(id),
    queryFn: ({ signal }) => call('getContainment', { params: { id }, signal }),
    refetchInterval: ({ state }) => (state.data && isMoving(state.data) ? soonMs : refreshMs),
  })

/** Percentiles of a day change slowly and are computed from many rows. */
export const figuresQuery = queryOptions({
  queryKey: queryKeys.suspensionCounts,
  queryFn: ({ signal }) => call('getSuspensionCounts', { signal }),
  refetchInterval: 6 * refreshMs,
})

export const drillsQuery = queryOptions({
  queryKey: queryKeys.drillList,
  queryFn: async ({ signal }) => (await call('listDrills', { query: { limit: '20' }, signal })).drills,
  refetchInterval: refreshMs,
})

export const brakeQuery = queryOptions({
  queryKey: queryKeys.brake,
  queryFn: ({ signal }) => call('getBrake', { signal }),
  refetchInterval: countsRefreshMs,
})

/** Reads all agents of a request to resume; the list of requests contains only some of them. */
async function readRequested(id: string, signal: AbortSignal): Promise<string[]> {
  const ids: string[] = []
  for (let after: string | undefined; ; ) {
    const query = { limit: String(limits.pageSize), ...(after ? { after } : {}) }
    const page = await call('listRequestedMembers', { params: { id }, query, signal })
    ids.push(...page.instances)
    if (page.next === null) return ids
    after = page.next
  }
}

export const requestedQuery = (id: string) =>
  queryOptions({
    queryKey: queryKeys.requested(id),
    queryFn: ({ signal }) => readRequested(id, signal),
    // A request never changes, and is deleted once it is confirmed.
    staleTime: Number.POSITIVE_INFINITY,
    retry: false,
  })

/** The enforcement points. They change only when the service restarts. */
export const pointsQuery = queryOptions({
  queryKey: queryKeys.enforcementPoints,
  queryFn: async ({ signal }) => (await call('listEnforcementPoints', { signal })).points,
})
