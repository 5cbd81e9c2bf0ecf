import { sessionHeader } from '@wardline/contract'
import { readStored, store } from './storage.ts'

/**
 * The half of the session that browsers keep apart for each port of a host, unlike cookies. Local rather than session
 * storage, because all tabs share the session, as they share its cookie, and it outlives a restart of the browser.
 */
const stored = 'wardline.session'

export const sessionSecret = (): string | undefined => readStored(stored)

/** Undefined forgets the secret. */
export const keepSessionSecret = (secret: string | undefined): void => store(stored, secret)

export function sessionHeaders(): Record<string, string> {
  const secret = sessionSecret()
  return secret === undefined ? {} : { [sessionHeader]: secret }
}
