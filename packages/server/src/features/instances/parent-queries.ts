import { sql } from 'kysely'
import type { Database, Db, Statement } from '../../db/database.ts'
import { isOfTeam, type Team } from '../../db/teams.ts'
import { lockRegistrations } from './fleet-statements.ts'
import { maxLevels } from './parent-statements.ts'

/** What an agent names as its parent. */
export interface ParentClaim {
  id: string
  parent: string
}

/**
 * Sets the parents of instances that have none, in a batch that holds the lock of registrations, since two processes could
 * close a circle together. The last statement takes those back that make a circle or too deep a tree, and returns their
 * ids.
 */
export function parentStatements(
  { db, dialect }: Pick<Database, 'db' | 'dialect'>,
  claims: readonly ParentClaim[],
): Statement[] {
  if (claims.length === 0) return []
  const cells = JSON.stringify(claims.map(({ id, parent }) => [id, parent]))
  const named = dialect.rowsFromJson(cells, { id: 'text', parent: 'text' })
  return [
    sql`update instances set parent_id = named.parent from ${named} as named
      where instances.id = named.id and parent_id is null and named.parent <> named.id`.compile(db),
    // Walks of a circle end at the limit of levels, which they exceed.
    sql`with recursive above (child, at, level) as (
        select id, parent_id, 1 from instances
        where id in (select named.id from ${named} as named) and parent_id is not null
        union all
        select above.child, instances.parent_id, above.level + 1 from above join instances on instances.id = above.at
        where instances.parent_id is not null and above.level <= ${sql.lit(maxLevels)}
      ), below (root, at, level) as (
        select child, child, 0 from above where level = 1
        union all
        select below.root, instances.id, below.level + 1 from below join instances on instances.parent_id = below.at
        where below.level < ${sql.lit(maxLevels)}
      )
      update instances set parent_id = null where id in (
        select walked.child from (select child, max(level) as level from above group by child) as walked
          join (select root, max(level) as level from below group by root) as deepest on deepest.root = walked.child
        where walked.level + deepest.level > ${sql.lit(maxLevels)}
      ) returning id`.compile(db),
  ]
}

/** Whether an instance has children: 1 or 0. */
export const isParent = sql<0 | 1>`case when exists (select 1 from instances as child
  where child.parent_id = instances.id) then 1 else 0 end`

/** Whether an instance has children and a parent, with which these are suspended: 1 or 0. */
export const isBetween = sql<0 | 1>`case when instances.parent_id is not null then ${isParent} else 0 end`

/** Returns the parent of an instance that has children as well; undefined: it is not between two. */
export async function findParentAbove(db: Db, id: string): Promise<string | undefined> {
  const query = db.selectFrom('instances').select('parent_id').where('id', '=', id).where(isBetween, '=', 1)
  return (await query.executeTakeFirst())?.parent_id ?? undefined
}

/** Sets the parents of instances that have none; resolves with the ids of those that cannot have theirs. */
export async function storeParents(
  database: Pick<Database, 'db' | 'dialect' | 'batch'>,
  claims: readonly ParentClaim[],
): Promise<string[]> {
  const results = await database.batch([lockRegistrations(database), ...parentStatements(database, claims)])
  return results.at(-1)!.map(({ id }) => String(id))
}

/** Counts the instances of the team below one: its children, and all levels together. */
export async function countBelow(db: Db, id: string, team: Team): Promise<{ children: number; descendants: number }> {
  const { rows } = await sql<{ children: number | null; descendants: number }>`
    with recursive below (at, level) as (
      select id, 1 from instances where parent_id = ${id}
      union all
      select instances.id, below.level + 1 from below join instances on instances.parent_id = below.at
      where below.level < ${sql.lit(maxLevels)}
    )
    select sum(case when level = 1 then 1 else 0 end) as children, count(*) as descendants from below
    where ${isOfTeam('at', team)}`.execute(db)
  return { children: Number(rows[0]!.children ?? 0), descendants: Number(rows[0]!.descendants) }
}
