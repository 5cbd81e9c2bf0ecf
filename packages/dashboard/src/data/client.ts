import { createClient, type ErrorCode, hiddenHeader, WardlineError } from '@wardline/contract'
import { sessionHeaders, sessionSecret } from './storage.ts'

/** Sends a request with the session's cookie and secret. */
export async function send(
  address: string | URL,
  { headers, ...call }: RequestInit & { headers?: Record<string, string> },
): Promise<Response> {
  const ask = () => {
    // Otherwise a hidden tab that notifies would keep its session in use forever.
    const hidden: Record<string, string> =
      globalThis.document?.visibilityState === 'hidden' ? { [hiddenHeader]: '1' } : {}
    return fetch(address, { ...call, headers: { ...headers, ...sessionHeaders(), ...hidden }, redirect: 'error' })
  }
  const secret = sessionSecret()
  const response = await ask()
  // Another tab signed in meanwhile: the request had the new cookie and the old secret.
  return response.status === 401 && sessionSecret() !== secret ? ask() : response
}

/** Calls any endpoint with the session. Throws WardlineError. */
export const call = createClient({ url: location.origin, acceptsCompressed: true, send })

/** Whether the person has to prove again who they are, which is no end of the session. */
export const needsConfirmation = (fault: unknown): fault is WardlineError =>
  fault instanceof WardlineError && fault.code === ('fresh_confirmation_required' satisfies ErrorCode)

/** Whether a failure means that there is no session, or that it has ended. */
export const isSignedOut = (fault: unknown): boolean =>
  fault instanceof WardlineError && fault.status === 401 && !needsConfirmation(fault)
