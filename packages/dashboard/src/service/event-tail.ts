import { type InfiniteData, infiniteQueryOptions } from '@tanstack/react-query'
import type { QueryOf, StreamedRow } from '@wardline/contract'
import { call } from './client.ts'

/** A stored event, or one that another program published and nobody stored: its seq is null. */
export type Row = StreamedRow
export type EventFilter = Pick<
  NonNullable<QueryOf<'listEvents'>>,
  'severity' | 'instance_id' | 'session_id' | 'event_type' | 'q' | 'from' | 'to'
>

interface EventPage {
  events: Row[]
  next: string | null
  /** Of the first page: matching events that the stream brought, and those of them that came faster than rows are added. */
  streamed?: { came: number; skipped: number }
}
export type EventPages = InfiniteData<EventPage, string | null>

const pageRows = '200'

/** What the stream brought lately, for lists that were read from the service while it came. */
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

/** Events newest first; the live stream adds to the first page. */
export const eventsQuery = (filter: EventFilter) =>
  infiniteQueryOptions({
    queryKey: ['events', filter],
    queryFn: async ({ pageParam, signal }): Promise<EventPage> => {
      const query = { ...filter, limit: pageRows, ...(pageParam ? { before: pageParam } : {}) }
      const page = await call('listEvents', { query, signal })
      return pageParam ? page : withRecent(filter, page)
    },
    initialPageParam: null as string | null,
    getNextPageParam: ({ next }: EventPage) => next,
    staleTime: Number.POSITIVE_INFINITY,
  })

/** Whether a new event belongs to a list, as the service would say of a stored one. */
export function matchesFilter(filter: EventFilter, row: Row): boolean {
  const { severity, instance_id, session_id, event_type, q, from, to } = filter
  const text = () => `${row.source}\n${row.event_type}\n${row.description}`.toLowerCase()
  return (
    (severity === undefined || row.severity === severity) &&
    (instance_id === undefined || row.instance_id === instance_id) &&
    (session_id === undefined || row.session_id === session_id) &&
    (event_type === undefined || row.event_type === event_type) &&
    (q === undefined || text().includes(q.toLowerCase())) &&
    (from === undefined || Date.parse(row.created_at) >= Date.parse(from)) &&
    (to === undefined || Date.parse(row.created_at) < Date.parse(to))
  )
}
