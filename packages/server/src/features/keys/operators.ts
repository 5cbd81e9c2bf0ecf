import { limits } from '@wardline/contract'
import type { Db } from '../../db/database.ts'
import type { Deps } from '../../deps.ts'
import { isPersonId, readOperatorPeople } from '../people/person-statements.ts'
import { configuredKeyId, hashKey } from './key-format.ts'
import { keyNames } from './key-names.ts'
import { readOperatorOwners } from './owner-statements.ts'

// Operators are people, and keys that no person made. A key of a person stands for that person.

const configuredId = ({ config: { apiKey } }: Pick<Deps, 'config'>): string | undefined =>
  apiKey === undefined ? undefined : configuredKeyId(hashKey(apiKey))

/** Returns the operators among these ids of people and keys, each by the id under which it operates. */
export async function findOperators(
  deps: Pick<Deps, 'config'>,
  db: Db,
  ids: readonly string[],
  now: number,
): Promise<Map<string, string>> {
  const found = new Map<string, string>()
  if (ids.length === 0) return found
  const configured = configuredId(deps)
  if (configured !== undefined && ids.includes(configured)) found.set(configured, configured)
  const keys = await readOperatorOwners(db, now, limits.assignees, ids)
  const owners = keys.map(({ owner }) => owner).filter(isPersonId)
  const people = await readOperatorPeople(db, limits.assignees, [...ids, ...owners])
  for (const { id } of people) found.set(id, id)
  for (const { id, owner } of keys) {
    if (isPersonId(owner) && !found.has(owner)) continue
    for (const known of [id, owner]) if (ids.includes(known)) found.set(known, owner)
  }
  return found
}

export interface Operator {
  id: string
  name: string
  kind: 'person' | 'key'
}

/** Lists people, by name, then keys. */
export async function listOperators(deps: Pick<Deps, 'config'>, db: Db, now: number): Promise<Operator[]> {
  const people = await readOperatorPeople(db, limits.assignees)
  const configured = configuredId(deps)
  const rows = await readOperatorOwners(db, now, limits.assignees)
  const owners = new Set(rows.map(({ owner }) => owner).filter((owner) => !isPersonId(owner)))
  if (configured !== undefined) owners.add(configured)
  const names = await keyNames.names(db, [...owners])
  return [
    ...people.map((person) => ({ ...person, kind: 'person' as const })),
    ...[...owners].map((id) => ({ id, name: names.get(id) ?? id, kind: 'key' as const })),
  ]
}
