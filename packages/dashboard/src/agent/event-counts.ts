import { keepPreviousData, queryOptions } from '@tanstack/react-query'
import { call } from '../data/client.ts'
import { refreshMs } from '../data/fleet.ts'
import { queryKeys } from '../data/query-keys.ts'
import { hourMs } from '../ui/span.ts'

/** Bars of the timeline: as many as a phone shows apart. */
const buckets = '120'

/** Counts the agent's events of the last hours, whatever is loaded of them. */
export const eventCountsQuery = (id: string, hours: number) =>
  queryOptions({
    queryKey: queryKeys.histogram({ instance_id: id, hours }),
    queryFn: ({ signal }) => {
      const from = new Date(Date.now() - hours * hourMs).toISOString()
      return call('getEventHistogram', { query: { instance_id: id, from, buckets }, signal })
    },
    refetchInterval: 2 * refreshMs,
    // Keeps the drawing while another range loads.
    placeholderData: keepPreviousData,
  })
