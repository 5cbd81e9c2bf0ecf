import { infiniteQueryOptions, queryOptions, useInfiniteQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import { call } from './client.ts'
import { type EventFilter, type EventPage, matchesFilter, type Row } from './live-tail.ts'
import { queryKeys } from './query-keys.ts'

const pageRows = '200'

/** Recently streamed rows, to be merged into lists whose response was under way when they arrived. */
let recent: Row[] = []
const maxRecent = 1_000

export function rememberRows(rows: readonly Row[]): void {
  recent = [...recent, ...rows].slice(-maxRecent)
}

function withRecent(filter: EventFilter, page: EventPage): EventPage {
  const newest = page.events[0]?.seq ?? 0
  const missed = recent.filter((row) => row.seq !== null && row.seq > newest && matchesFilter(filter, row))
  return { ...page, events: [...missed.reverse(), ...page.events] }
}

/** Events, newest first; the live stream adds to the first page. */
export const eventsQuery = (filter: EventFilter) =>
  infiniteQueryOptions({
    queryKey: queryKeys.eventList(filter),
    queryFn: async ({ pageParam, signal }): Promise<EventPage> => {
      const query = { ...filter, limit: pageRows, ...(pageParam ? { before: pageParam } : {}) }
      const page = await call('listEvents', { query, signal })
      return pageParam ? page : withRecent(filter, page)
    },
    initialPageParam: null as string | null,
    getNextPageParam: ({ next }: EventPage) => next,
    staleTime: Number.POSITIVE_INFINITY,
  })

/** The list of a filter, and the rows that are loaded. */
export function useEvents(filter: EventFilter) {
  const query = useInfiniteQuery(eventsQuery(filter))
  return { query, rows: useMemo((): Row[] => query.data?.pages.flatMap(({ events }) => events) ?? [], [query.data]) }
}

/** One event; null if there is none with this seq. */
export const eventQuery = (seq: number) =>
  queryOptions({
    queryKey: queryKeys.event(seq),
    queryFn: async () => {
      const [event] = (await call('listEvents', { query: { before: String(seq + 1), limit: '1' } })).events
      return event?.seq === seq ? event : null
    },
  })
