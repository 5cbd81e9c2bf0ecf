import { sql } from 'kysely'
import type { Db } from '../../db/database.ts'
import { taggedInstances } from './fleet-statements.ts'
import { allTags } from './tags.ts'

/** Reads all tags of these instances; instances without tags and unknown ones are missing in the result. */
export async function readTagsOf(db: Db, ids: readonly string[]): Promise<Map<string, string[]>> {
  if (ids.length === 0) return new Map()
  const rows = await db
    .selectFrom('instances')
    .select(['id', 'agent_tags', 'operator_tags'])
    .where('id', 'in', ids)
    .where((e) => e.or([e('agent_tags', 'is not', null), e('operator_tags', 'is not', null)]))
    .execute()
  return new Map(rows.map((row) => [row.id, allTags(row)]))
}

/** Returns the ids of at most `limit` instances that have a tag. */
export async function readTagged(db: Db, tag: string, limit: number): Promise<string[]> {
  const { rows } = await sql<{ id: string }>`select id from ${taggedInstances([tag])} as tagged
    order by id limit ${limit}`.execute(db)
  return rows.map(({ id }) => id)
}
