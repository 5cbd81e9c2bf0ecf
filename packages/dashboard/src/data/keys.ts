import { queryOptions } from '@tanstack/react-query'
import type { KeyView } from '@wardline/contract'
import { call } from './client.ts'
import { queryKeys } from './query-keys.ts'

/** Contains no secrets: only the responses of create and rotate do, and they are not cached. */
export const keysQuery = queryOptions({
  queryKey: queryKeys.keys,
  queryFn: async ({ signal }) => (await call('listKeys', { signal })).keys,
  refetchInterval: 30_000,
})

export const isEnded = ({ revoked_at, expires_at }: KeyView, now: number): boolean =>
  revoked_at !== null || (expires_at !== null && Date.parse(expires_at) <= now)
