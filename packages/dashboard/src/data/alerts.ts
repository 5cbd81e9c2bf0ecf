import { keepPreviousData, type QueryKey, queryOptions } from '@tanstack/react-query'
import type { QueryOf, ReplyOf } from '@wardline/contract'
import { call } from './client.ts'
import { refreshMs } from './fleet.ts'
import { queryKeys } from './query-keys.ts'

export type Alert = ReplyOf<'listAlerts'>['alerts'][number]
export type AlertDetail = ReplyOf<'getAlert'>
export type Channel = ReplyOf<'listChannels'>['channels'][number]
export type Route = ReplyOf<'listRoutes'>['routes'][number]
export type AlertCount = ReplyOf<'countAlerts'>['counts'][number]

export type AlertFilter = Pick<
  NonNullable<QueryOf<'listAlerts'>>,
  'status' | 'severity' | 'min_severity' | 'event_type' | 'instance_id' | 'assigned'
>

/** A query that is read again every few seconds. */
const refreshed = <Data>(queryKey: QueryKey, read: (signal: AbortSignal) => Promise<Data>) =>
  queryOptions({ queryKey, queryFn: ({ signal }) => read(signal), refetchInterval: refreshMs })

export const alertsQuery = (filter: AlertFilter, limit: number) => ({
  ...refreshed(queryKeys.alertList(filter, limit), (signal) =>
    call('listAlerts', { query: { ...filter, limit: String(limit) }, signal }),
  ),
  placeholderData: keepPreviousData,
})

export const alertCountsQuery = (filter: Pick<AlertFilter, 'event_type' | 'instance_id' | 'assigned'>) => ({
  ...refreshed(queryKeys.alertCounts(filter), (signal) => call('countAlerts', { query: filter, signal })),
  placeholderData: keepPreviousData,
})

export const alertQuery = (id: string) =>
  refreshed(queryKeys.alert(id), (signal) => call('getAlert', { params: { id }, signal }))

/** To whom an alert can be assigned. Only operators may read it. */
export const assigneesQuery = queryOptions({
  queryKey: queryKeys.assignees,
  queryFn: async ({ signal }) => (await call('listAssignees', { signal })).assignees,
  staleTime: 30_000,
})

export const channelsQuery = refreshed(
  queryKeys.channelList,
  async (signal) => (await call('listChannels', { signal })).channels,
)

/** Enough messages of a channel to see its recent state. */
export const maxMessages = 50

export const messagesQuery = (channel_id: string) =>
  refreshed(queryKeys.messages(channel_id), async (signal) => {
    const query = { channel_id, limit: String(maxMessages) }
    return (await call('listMessages', { query, signal })).messages
  })

/** Content of a sent message, which never changes. */
export const contentQuery = (id: string) =>
  queryOptions({
    queryKey: queryKeys.content(id),
    queryFn: ({ signal }) => call('getMessageContent', { params: { id }, signal }),
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 0,
  })

export const routesQuery = refreshed(queryKeys.routes, async (signal) => (await call('listRoutes', { signal })).routes)

export const silencesQuery = refreshed(
  queryKeys.silences,
  async (signal) => (await call('listSilences', { signal })).silences,
)
