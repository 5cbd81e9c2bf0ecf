import { sessionHeader } from '@wardline/contract'

/** Values of a browser that blocks its storage, until a reload, and of workers, which have none. */
const inMemory = new Map<string, string>()

/** Returns what a page of this origin has stored under the name. */
export function readStored(name: string): string | undefined {
  try {
    return localStorage.getItem(name) ?? inMemory.get(name)
  } catch {
    return inMemory.get(name)
  }
}

/** Stores a value for all pages of this origin; undefined removes it. */
export function store(name: string, value: string | undefined): void {
  if (value === undefined) inMemory.delete(name)
  else inMemory.set(name, value)
  try {
    if (value === undefined) localStorage.removeItem(name)
    else localStorage.setItem(name, value)
  } catch {
    // It stays in memory.
  }
}

/**
 * The half of the session that browsers keep apart for each port of a host, unlike cookies. Local rather than session
 * storage, because all tabs share the session, as they share its cookie, and it outlives a restart of the browser.
 */
const secretName = 'wardline.session'

export const sessionSecret = (): string | undefined => readStored(secretName)

/** Undefined forgets the secret. */
export const keepSessionSecret = (secret: string | undefined): void => store(secretName, secret)

export function sessionHeaders(): Record<string, string> {
  const secret = sessionSecret()
  return secret === undefined ? {} : { [sessionHeader]: secret }
}
