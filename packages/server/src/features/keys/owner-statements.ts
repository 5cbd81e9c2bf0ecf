import type { Db } from '../../db/database.ts'

const agentOwners = (db: Db) =>
  db
    .selectFrom('api_keys')
    .select((e) => e.fn.coalesce('owner', 'id').as('owner'))
    .distinct()
    .where('scope', '=', 'agent')

/**
 * Returns the owners of valid keys that let them operate, of all such keys or of those that have, or whose owner has, one of
 * these ids.
 */
export function readOperatorOwners(
  db: Db,
  now: number,
  limit: number,
  ids?: readonly string[],
): Promise<{ id: string; owner: string }[]> {
  const query = db
    .selectFrom('api_keys')
    .select((e) => ['id', e.fn.coalesce('owner', 'id').as('owner')])
    .where('scope', 'in', ['operator', 'admin'])
    .where('revoked_at', 'is', null)
    .where((e) => e.or([e('expires_at', 'is', null), e('expires_at', '>', now)]))
  const chosen = ids === undefined ? query : query.where((e) => e.or([e('id', 'in', ids), e('owner', 'in', ids)]))
  return chosen.orderBy('name').orderBy('id').limit(limit).execute()
}

/** Whether a valid key is limited to the agents of a team. */
export async function hasLimitedKey(db: Db, now: number): Promise<boolean> {
  const found = await db
    .selectFrom('api_keys')
    .select('id')
    .where('team', 'is not', null)
    .where('revoked_at', 'is', null)
    .where((e) => e.or([e('expires_at', 'is', null), e('expires_at', '>', now)]))
    .limit(1)
    .executeTakeFirst()
  return found !== undefined
}

const ownersOf = (rows: readonly { owner: string }[]) => new Set(rows.map(({ owner }) => owner))

/** Returns the owners of instances whose keys are bound to instances. */
export const readAgentOwners = async (db: Db): Promise<Set<string>> => ownersOf(await agentOwners(db).execute())

/** Returns those whose keys are bound to a prefix, and so can register instances by any name. */
export const readPrefixOwners = async (db: Db): Promise<Set<string>> =>
  ownersOf(await agentOwners(db).where('api_keys.instances', 'like', '%*"%').execute())
