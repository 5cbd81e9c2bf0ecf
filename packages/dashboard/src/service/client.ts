import { createClient, WardlineError } from '@wardline/contract'

/** Every endpoint, with the cookie of the session. Throws WardlineError. */
export const call = createClient({ url: location.origin, acceptsCompressed: true })

/** The session is over, or there never was one. */
export const isSignedOut = (fault: unknown): boolean => fault instanceof WardlineError && fault.status === 401

/** The text of a failure: the service's sentence. */
export const sentenceOf = (fault: unknown): string => (fault instanceof Error ? fault.message : 'The request failed.')
