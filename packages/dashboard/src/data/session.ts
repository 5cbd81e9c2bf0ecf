import { queryOptions, useQuery } from '@tanstack/react-query'
import type { ReplyOf, Scope } from '@wardline/contract'
import { call, isSignedOut } from './client.ts'
import { queryKeys } from './query-keys.ts'
import { keepSessionSecret } from './storage.ts'

export type Session = ReplyOf<'getSession'>

export const sessionQuery = queryOptions({
  queryKey: queryKeys.session,
  queryFn: ({ signal }) => call('getSession', { signal }),
  staleTime: Number.POSITIVE_INFINITY,
})

/** Exchanges the key for a session. The key is not stored. Throws WardlineError. */
export async function signIn(key: string): Promise<void> {
  keepSessionSecret((await call('createSession', { headers: { 'x-monitor-key': key } })).secret)
}

/** The key of a login link, without using the link. Throws WardlineError. */
export const previewLink = (code: string): Promise<Session> => call('previewLoginLink', { body: { code } })

/** Exchanges a login link's code for a session. A code works once. Throws WardlineError. */
export async function redeemLink(code: string): Promise<void> {
  keepSessionSecret((await call('redeemLoginLink', { body: { code } })).secret)
}

/** Ends the session for all tabs. Throws WardlineError. */
export async function signOut(): Promise<void> {
  await call('deleteSession', {}).catch((fault) => {
    // Another tab was faster, or the session has expired.
    if (!isSignedOut(fault)) throw fault
  })
  keepSessionSecret(undefined)
}

/** The key with which this browser is signed in; undefined if it is not. Throws WardlineError. */
export async function currentSession(): Promise<Session | undefined> {
  try {
    return await call('getSession', {})
  } catch (fault) {
    if (isSignedOut(fault)) return undefined
    throw fault
  }
}

/** Whether the session's key has one of these scopes. */
export function useHasScope(...scopes: readonly Scope[]): boolean {
  const { data } = useQuery(sessionQuery)
  return data !== undefined && scopes.includes(data.scope)
}

/** Whether the session's key may suspend and resume. */
export const useMayOperate = (): boolean => useHasScope('operator', 'admin')
