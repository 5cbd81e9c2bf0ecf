import { sql } from 'kysely'
import { counterValue } from '../../db/counters.ts'
import type { Database, Db, Statement } from '../../db/database.ts'
import { taggedInstances } from './fleet-statements.ts'
import { readTags, tagsText } from './tags.ts'

/**
 * Reads the tags that operators and keys gave these instances; instances without any and unknown ones are missing in the
 * result.
 */
export async function readOperatorTagsOf(db: Db, ids: readonly string[]): Promise<Map<string, string[]>> {
  if (ids.length === 0) return new Map()
  const rows = await db
    .selectFrom('instances')
    .select(['id', 'operator_tags'])
    .where('id', 'in', ids)
    .where('operator_tags', 'is not', null)
    .execute()
  return new Map(rows.map((row) => [row.id, readTags(row.operator_tags)]))
}

/** Locks an instance, in a batch that fails as stale if its tags of operators are not these any more. */
export const lockOperatorTags = (
  { db, dialect }: Pick<Database, 'db' | 'dialect'>,
  id: string,
  tags: readonly string[],
): Statement =>
  dialect.lockFound(
    db.selectFrom('instances').select('id').where('id', '=', id).where('operator_tags', '=', tagsText(tags)).compile(),
  )

/** Reads the tags by which policies find an instance, and the version of the policy sets at the same moment. */
export async function readPolicyTarget(db: Db, id: string): Promise<{ tags: string[]; version: number } | undefined> {
  const row = await db
    .selectFrom('instances')
    .select(['operator_tags', counterValue('policy_set').as('version')])
    .where('id', '=', id)
    .executeTakeFirst()
  return row && { tags: readTags(row.operator_tags), version: Number(row.version) }
}

/** Returns the ids of at most `limit` instances that have a tag of operators or keys: others could take their places. */
export async function readTagged(db: Db, tag: string, limit: number): Promise<string[]> {
  const { rows } = await sql<{ id: string }>`select id from ${taggedInstances([tag], 'operators')} as tagged
    order by id limit ${limit}`.execute(db)
  return rows.map(({ id }) => id)
}
