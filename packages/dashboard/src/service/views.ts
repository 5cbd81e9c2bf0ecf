import { queryOptions } from '@tanstack/react-query'
import { call } from './client.ts'

/** The session's own and shared views of all screens. */
export const viewsQuery = queryOptions({
  queryKey: ['views'],
  queryFn: async ({ signal }) => (await call('listViews', { signal })).views,
  staleTime: 30_000,
})
