import { queryOptions, useQuery } from '@tanstack/react-query'
import type { Scope } from '@wardline/contract'
import { call } from './client.ts'

export const sessionQuery = queryOptions({
  queryKey: ['session'],
  queryFn: ({ signal }) => call('getSession', { signal }),
  staleTime: Number.POSITIVE_INFINITY,
})

/** Trades the key for a cookie that no script can read. The key is kept nowhere. Throws WardlineError. */
export const signIn = (key: string) => call('createSession', { headers: { 'x-monitor-key': key } })

/** Trades the code of a login link for the same cookie; it works once. Throws WardlineError. */
export const redeemLink = (code: string) => call('redeemLoginLink', { body: { code } })

export const signOut = () => call('deleteSession', {})

/** Whether the key behind the session has one of these scopes. */
export function useHasScope(...scopes: readonly Scope[]): boolean {
  const { data } = useQuery(sessionQuery)
  return data !== undefined && scopes.includes(data.scope)
}

/** Whether the key behind the session may suspend and resume. */
export const useMayOperate = (): boolean => useHasScope('operator', 'admin')
