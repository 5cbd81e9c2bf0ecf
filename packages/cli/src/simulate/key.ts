import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { readConfig } from '@wardline/server'
import { Failure } from '../exit.ts'
import { isLocal } from '../service/settings.ts'

export interface FoundKey {
  key: string
  /** How a shell reads the same key: the key itself is never printed. */
  shellText: string
  /** Where a person finds it. */
  place: string
}

/** A key that only its giver can name. */
export function givenKey(key: string, place: string): FoundKey {
  return { key, shellText: '<your key>', place }
}

/** A word that a shell takes as it is. */
export function shellWord(text: string): string {
  return /^[\w./:@%+,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`
}

/** The admin key that the first start stored in the data folder; undefined when it is not there or not readable. */
export function storedAdminKey(dataDir: string): FoundKey | undefined {
  const file = join(dataDir, 'admin-key')
  try {
    const key = readFileSync(file, 'utf8').trim()
    return key === '' ? undefined : { key, shellText: `$(cat ${shellWord(file)})`, place: `in the file ${file}` }
  } catch {
    return undefined
  }
}

/**
 * The key that was given, else the one in the data folder of this machine, which is shown to a service on this
 * machine only. Throws a sentence that says what to do when there is none.
 */
export function findKey(url: string, given: string | undefined): FoundKey {
  if (given) return givenKey(given, 'as given')
  const stored = isLocal(url) ? storedAdminKey(readConfig().dataDir) : undefined
  if (stored) return stored
  const here = isLocal(url) ? ', or run this in the folder where the service runs' : ''
  const message = `No key for ${url}: give an admin key of that service with --key or WARDLINE_KEY${here}.`
  throw new Failure(message, 'no_key', 'unauthorized')
}

/** The command line that stops an instance. */
export function killCommand(url: string, instanceId: string, { shellText }: Pick<FoundKey, 'shellText'>): string {
  const target = shellWord(new URL(`/api/kill/${instanceId}`, url).href)
  return `curl -X POST ${target} -H "X-Monitor-Key: ${shellText}" -H 'Content-Type: application/json' -d '{"reason":"Trying the kill switch"}'`
}
