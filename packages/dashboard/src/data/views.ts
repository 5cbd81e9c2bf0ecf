import { queryOptions } from '@tanstack/react-query'
import { call } from './client.ts'
import { queryKeys } from './query-keys.ts'

/** The session's own and shared views of all screens. */
export const viewsQuery = queryOptions({
  queryKey: queryKeys.views,
  queryFn: async ({ signal }) => (await call('listViews', { signal })).views,
  staleTime: 30_000,
})
