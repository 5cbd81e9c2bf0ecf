import { queryOptions, useQuery } from '@tanstack/react-query'
import type { Scope } from '@wardline/contract'
import { call } from './client.ts'

export const sessionQuery = queryOptions({
  queryKey: ['session'],
  queryFn: ({ signal }) => call('getSession', { signal }),
  staleTime: Number.POSITIVE_INFINITY,
})

/** Exchanges the key for a cookie that scripts cannot read. The key is not stored. Throws WardlineError. */
export const signIn = (key: string) => call('createSession', { headers: { 'x-monitor-key': key } })

/** Exchanges a login link's code for the same cookie. A code works once. Throws WardlineError. */
export const redeemLink = (code: string) => call('redeemLoginLink', { body: { code } })

export const signOut = () => call('deleteSession', {})

/** Whether the session's key has one of these scopes. */
export function useHasScope(...scopes: readonly Scope[]): boolean {
  const { data } = useQuery(sessionQuery)
  return data !== undefined && scopes.includes(data.scope)
}

/** Whether the session's key may suspend and resume. */
export const useMayOperate = (): boolean => useHasScope('operator', 'admin')
