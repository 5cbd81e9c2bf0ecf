import type { Db } from '../../db/database.ts'

/** Returns those owners of instances whose keys are bound to a prefix, and so can register instances by any name. */
export async function readPrefixOwners(db: Db): Promise<Set<string>> {
  const rows = await db
    .selectFrom('api_keys')
    .select((e) => e.fn.coalesce('owner', 'id').as('owner'))
    .distinct()
    .where('scope', '=', 'agent')
    .where('api_keys.instances', 'like', '%*"%')
    .execute()
  return new Set(rows.map(({ owner }) => owner))
}
