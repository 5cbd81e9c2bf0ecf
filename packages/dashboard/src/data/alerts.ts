import { keepPreviousData, queryOptions } from '@tanstack/react-query'
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
  'status' | 'severity' | 'min_severity' | 'event_type' | 'instance_id' | 'assignee'
>

export const alertsQuery = (filter: AlertFilter, limit: number) =>
  queryOptions({
    queryKey: queryKeys.alertList(filter, limit),
    queryFn: ({ signal }) => call('listAlerts', { query: { ...filter, limit: String(limit) }, signal }),
    refetchInterval: refreshMs,
    placeholderData: keepPreviousData,
  })

export const alertCountsQuery = (filter: Pick<AlertFilter, 'event_type' | 'instance_id' | 'assignee'>) =>
  queryOptions({
    queryKey: queryKeys.alertCounts(filter),
    queryFn: ({ signal }) => call('countAlerts', { query: filter, signal }),
    refetchInterval: refreshMs,
    placeholderData: keepPreviousData,
  })

export const alertQuery = (id: string) =>
  queryOptions({
    queryKey: queryKeys.alert(id),
    queryFn: ({ signal }) => call('getAlert', { params: { id }, signal }),
    refetchInterval: refreshMs,
  })

export const channelsQuery = queryOptions({
  queryKey: queryKeys.channelList,
  queryFn: async ({ signal }) => (await call('listChannels', { signal })).channels,
  refetchInterval: refreshMs,
})

/** Enough messages of a channel to see its recent state. */
const maxMessages = '50'

export const messagesQuery = (channel_id: string) =>
  queryOptions({
    queryKey: queryKeys.messages(channel_id),
    queryFn: async ({ signal }) =>
      (await call('listMessages', { query: { channel_id, limit: maxMessages }, signal })).messages,
    refetchInterval: refreshMs,
  })

/** Content of a sent message, which never changes. */
export const contentQuery = (id: string) =>
  queryOptions({
    queryKey: queryKeys.content(id),
    queryFn: ({ signal }) => call('getMessageContent', { params: { id }, signal }),
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 0,
  })

export const routesQuery = queryOptions({
  queryKey: queryKeys.routes,
  queryFn: async ({ signal }) => (await call('listRoutes', { signal })).routes,
  refetchInterval: refreshMs,
})

export const silencesQuery = queryOptions({
  queryKey: queryKeys.silences,
  queryFn: async ({ signal }) => (await call('listSilences', { signal })).silences,
  refetchInterval: refreshMs,
})
