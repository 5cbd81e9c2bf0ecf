import type { Db } from '../../db/database.ts'
import { configuredKeyPrefix } from './key-format.ts'
import { readKeyIds, readKeyNames } from './queries.ts'

/** What the key of the environment is called: the setting that holds it. */
export const configuredKeyName = 'WARDLINE_API_KEY'
const isConfigured = (id: string) => id.startsWith(configuredKeyPrefix)

/** Names of the keys among these actors, by id, also of keys that were revoked or have expired. */
export async function keyNames(db: Db, actors: readonly string[]): Promise<Map<string, string>> {
  const ids = [...new Set(actors)]
  const names = new Map(ids.filter(isConfigured).map((id) => [id, configuredKeyName]))
  const stored = ids.filter((id) => !isConfigured(id))
  if (stored.length > 0) for (const { id, name } of await readKeyNames(db, stored)) names.set(id, name)
  return names
}

/** The ids of the keys with this id or name: several keys may have one name. */
export async function actorsCalled(db: Db, given: string): Promise<string[]> {
  return [given, ...(await readKeyIds(db, given))]
}
