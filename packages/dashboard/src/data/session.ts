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

/** Whether an address is encrypted, or on this machine. A name that merely starts with 127. may lead anywhere. */
const isPrivate = (address: string): boolean =>
  /^(https:|http:\/\/(localhost|127\.\d+\.\d+\.\d+|\[::1\])(:\d+)?(\/|$))/.test(address)

/**
 * Ends the session for all tabs. Resolves with the address that ends it at the provider as well, if a person was signed in
 * and the provider has one. Throws WardlineError.
 */
export async function signOut(): Promise<string | undefined> {
  const ended = await call('deleteSession', {}).catch((fault) => {
    // Another tab was faster, or the session has expired.
    if (!isSignedOut(fault)) throw fault
  })
  keepSessionSecret(undefined)
  return ended?.logout_url !== undefined && isPrivate(ended.logout_url) ? ended.logout_url : undefined
}

/** The key or person that is signed in in this browser; undefined if nobody is. Throws WardlineError. */
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

/** Whether who is signed in sees only the agents of a team, and no settings for all agents. */
export const useIsLimited = (): boolean => useQuery(sessionQuery).data?.tags !== undefined

/** Whether the session's key may suspend and resume. */
export const useMayOperate = (): boolean => useHasScope('operator', 'admin')
