import { createClient, WardlineError } from '@wardline/contract'

/** Calls any endpoint with the session's cookie. Throws WardlineError. */
export const call = createClient({ url: location.origin, acceptsCompressed: true })

/** Whether a failure means that there is no session, or that it has ended. */
export const isSignedOut = (fault: unknown): boolean => fault instanceof WardlineError && fault.status === 401

/** Returns the message of a failure, as worded by the service. */
export const sentenceOf = (fault: unknown): string => (fault instanceof Error ? fault.message : 'The request failed.')
