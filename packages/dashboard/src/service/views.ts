import { queryOptions } from '@tanstack/react-query'
import { call } from './client.ts'

/** Saved views of all screens: own ones and those that are shared. */
export const viewsQuery = queryOptions({
  queryKey: ['views'],
  queryFn: async ({ signal }) => (await call('listViews', { signal })).views,
  staleTime: 30_000,
})
