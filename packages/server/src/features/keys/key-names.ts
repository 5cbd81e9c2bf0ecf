import { channelName, type KeyNames } from '../audit/audit.ts'
import { isPasskeyId, readPasskeyIds, readPasskeyNames } from '../people/passkey-statements.ts'
import { isPersonId, readPersonIds, readPersonNames } from '../people/person-statements.ts'
import { configuredKeyPrefix } from './key-format.ts'
import { readKeyIds, readKeyNames } from './queries.ts'

/** Display name of the key from the environment. */
export const configuredKeyName = 'WARDLINE_API_KEY'
const isConfigured = (id: string) => id.startsWith(configuredKeyPrefix)

export const keyNames: KeyNames = {
  async names(db, actors) {
    const ids = [...new Set(actors)]
    const names = new Map(ids.filter(isConfigured).map((id) => [id, configuredKeyName]))
    for (const id of ids) {
      const name = channelName(id)
      if (name !== undefined) names.set(id, name)
    }
    const people = ids.filter(isPersonId)
    if (people.length > 0) for (const { id, name } of await readPersonNames(db, people)) names.set(id, name)
    const passkeys = ids.filter(isPasskeyId)
    if (passkeys.length > 0) for (const { id, name } of await readPasskeyNames(db, passkeys)) names.set(id, name)
    const stored = ids.filter((id) => !names.has(id))
    if (stored.length > 0) for (const { id, name } of await readKeyNames(db, stored)) names.set(id, name)
    return names
  },
  async called(db, given) {
    const found = await Promise.all([readKeyIds(db, given), readPersonIds(db, given), readPasskeyIds(db, given)])
    return [given, ...found.flat()]
  },
}
