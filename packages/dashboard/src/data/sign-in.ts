import { queryOptions } from '@tanstack/react-query'
import { signInPaths } from '@wardline/contract'
import { call } from './client.ts'
import { queryKeys } from './query-keys.ts'
import { keepSessionSecret } from './storage.ts'

/** How people sign in: known to everybody. */
export const signInQuery = queryOptions({
  queryKey: queryKeys.signIn,
  queryFn: ({ signal }) => call('getSignIn', { signal }),
})

/** The address that begins to sign in at the provider. `to`: the page to open afterwards. */
export const startAddress = (to: string | undefined): string =>
  signInPaths.start + (to === undefined ? '' : `?to=${encodeURIComponent(to)}`)

/** The address at which a signed-in person proves again who they are. */
export const confirmAddress = `${signInPaths.start}?confirm=true`

/** What belongs to one attempt to sign in at the provider. */
interface Attempt {
  secret: string
  to: string | undefined
  /** The person was signed in, and proves again who they are. */
  isConfirmation: boolean
  /** It is for a command line that the person has allowed. */
  isCommandLine?: boolean
}

/** In the storage of the tab, which survives the way to the provider and back, and which other tabs cannot read. */
const attemptName = 'wardline.sign-in'

export function keepAttempt(attempt: Attempt): void {
  try {
    sessionStorage.setItem(attemptName, JSON.stringify(attempt))
  } catch {
    throw new Error('This browser blocks the storage of this site: allow it to sign in at the provider.')
  }
}

/** Returns the attempt of this tab, once; undefined if it began elsewhere. */
export function takeAttempt(): Attempt | undefined {
  try {
    const kept = sessionStorage.getItem(attemptName)
    sessionStorage.removeItem(attemptName)
    return kept === null ? undefined : (JSON.parse(kept) as Attempt)
  } catch {
    return undefined
  }
}

/** Begins an attempt. Resolves with the address at the provider. Throws WardlineError. */
export async function startSignIn(to: string | undefined, isConfirmation: boolean): Promise<string> {
  const { url, secret } = await call('startSignIn', { query: isConfirmation ? { confirm: 'true' } : {} })
  keepAttempt({ secret, to, isConfirmation })
  return url
}

/**
 * Exchanges the answer of the provider for a session, of this browser or of a command line. An attempt works once. Resolves
 * with where the command line listens. Throws WardlineError.
 */
export async function finishSignIn(
  answer: string,
  attempt: Attempt | undefined,
): Promise<{ redirect_url?: string } | undefined> {
  if (answer === '') throw new Error('This address has no answer of the provider any more: it is used once.')
  if (!attempt) {
    throw new Error('This sign-in began in another tab or browser, or at another address of this service.')
  }
  const body = { answer, secret: attempt.secret }
  if (attempt.isCommandLine) return call('signInCommandLogin', { body })
  keepSessionSecret((await call('finishSignIn', { body })).secret)
  return undefined
}
