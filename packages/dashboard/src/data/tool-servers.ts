import { infiniteQueryOptions } from '@tanstack/react-query'
import { call } from './client.ts'
import { queryKeys } from './query-keys.ts'

/** Configurations change rarely, and pages are read again together. */
const refreshMs = 60_000

export const toolServersQuery = infiniteQueryOptions({
  queryKey: queryKeys.toolServers,
  queryFn: ({ pageParam: after, signal }) =>
    call('listToolServers', { query: after === undefined ? {} : { after }, signal }),
  initialPageParam: undefined as string | undefined,
  getNextPageParam: ({ next }) => next ?? undefined,
  refetchInterval: refreshMs,
})
