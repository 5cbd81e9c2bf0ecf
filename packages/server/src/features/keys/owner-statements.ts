import type { Db } from '../../db/database.ts'

const agentOwners = (db: Db) =>
  db
    .selectFrom('api_keys')
    .select((e) => e.fn.coalesce('owner', 'id').as('owner'))
    .distinct()
    .where('scope', '=', 'agent')

const ownersOf = (rows: readonly { owner: string }[]) => new Set(rows.map(({ owner }) => owner))

/** Returns the owners of instances whose keys are bound to instances. */
export const readAgentOwners = async (db: Db): Promise<Set<string>> => ownersOf(await agentOwners(db).execute())

/** Returns those whose keys are bound to a prefix, and so can register instances by any name. */
export const readPrefixOwners = async (db: Db): Promise<Set<string>> =>
  ownersOf(await agentOwners(db).where('api_keys.instances', 'like', '%*"%').execute())
