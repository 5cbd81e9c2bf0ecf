import { readConfig } from '@wardline/server'
import { Failure } from '../exit.ts'
import { type FoundKey, shellWord, storedAdminKey } from '../service/admin-key.ts'
import { isLocal } from '../service/settings.ts'

/** Describes a key for which no shell text is known. */
export function givenKey(key: string, place: string): FoundKey {
  return { key, shellText: '<your key>', place }
}

/**
 * Returns the given key, else the key in the data folder, but only for a service on this machine. Throws Failure with
 * advice if there is none.
 */
export function findKey(url: string, given: string | undefined): FoundKey {
  if (given) return givenKey(given, 'as given')
  const stored = isLocal(url) ? storedAdminKey(readConfig().dataDir) : undefined
  if (stored) return stored
  const here = isLocal(url) ? ', or run this in the folder where the service runs' : ''
  const message = `No key for ${url}: give an admin key of that service with --key or WARDLINE_KEY${here}.`
  throw new Failure(message, 'no_key', 'unauthorized')
}

/** Returns a curl command that suspends an instance. */
export function killCommand(url: string, instanceId: string, { shellText }: Pick<FoundKey, 'shellText'>): string {
  const target = shellWord(new URL(`/api/kill/${instanceId}`, url).href)
  return `curl -X POST ${target} -H "X-Monitor-Key: ${shellText}" -H 'Content-Type: application/json' -d '{"reason":"Trying the kill switch"}'`
}
