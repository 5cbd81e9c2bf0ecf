import { sql } from 'kysely'
import type { Database, Db, Statement } from '../../db/database.ts'
import { checkRegistrations, type FleetMove, type FleetRow, unchangedCount } from './fleet-statements.ts'

/**
 * Levels of a tree below its root. Each is suspended in a transaction after the one above it, and the walks up and down a
 * tree have to end.
 */
export const maxLevels = 8

/** Whether the parent of an instance is suspended, which holds the instance as well. */
export const isHeldByParent = (instanceId: string) => sql<boolean>`exists (select 1 from instances as child
  join instances as parent on parent.id = child.parent_id and parent.suspended = 1
  where child.id = ${sql.ref(instanceId)})`

/** Whether an instance is suspended now; false if it was deleted. */
export const isSuspended = (instanceId: string) =>
  sql<boolean>`exists (select 1 from instances where instances.id = ${sql.ref(instanceId)} and instances.suspended = 1)`

const rowsOf = ({ dialect }: Pick<Database, 'dialect'>, ids: readonly string[]) =>
  dialect.rowsFromJson(JSON.stringify(ids.map((id) => [id])), { id: 'text' })

const oneOf = (database: Pick<Database, 'dialect'>, column: string, ids: readonly string[]) =>
  sql`${sql.ref(column)} in (select named.id from ${rowsOf(database, ids)} as named)`

/** A suspended parent, as far as its children are concerned. */
export interface SuspendedParent {
  id: string
  reason: string | null
  owner: string | null
}

/** Returns those of the instances that are suspended, by id. */
export async function readSuspendedParents(
  database: Pick<Database, 'db' | 'dialect'>,
  ids: readonly string[],
): Promise<Map<string, SuspendedParent>> {
  if (ids.length === 0) return new Map()
  const query = sql<SuspendedParent>`select id, suspension_reason as reason, owner from instances
    where suspended = 1 and ${oneOf(database, 'id', ids)}`
  return new Map((await query.execute(database.db)).rows.map((row) => [row.id, row]))
}

/** A running instance whose parent is suspended. */
export interface RunningChild extends FleetRow {
  parent_id: string
  parent_reason: string | null
  /** Whether the same key registered both. */
  same_owner: 0 | 1
}

/** Reads running instances whose parent is suspended; `parents`: only children of these. */
export async function readRunningChildren(
  database: Pick<Database, 'db' | 'dialect'>,
  parents: readonly string[] | undefined,
  limit: number,
): Promise<RunningChild[]> {
  const ofParents = parents ? sql`and ${oneOf(database, 'parent.id', parents)}` : sql``
  const query = sql<RunningChild>`select child.id, child.suspended, child.control_version, child.claimed_version,
      child.applied_version, child.parent_id, parent.suspension_reason as parent_reason,
      case when child.owner = parent.owner then 1 else 0 end as same_owner
    from instances as parent join instances as child on child.parent_id = parent.id
    where parent.suspended = 1 and child.suspended = 0 ${ofParents}
    limit ${limit}`
  return (await query.execute(database.db)).rows
}

/**
 * Fails the batch as stale unless the instances are unchanged since they were read, and all of their parents are
 * suspended, or none. Follows the lock on all of them, as a statement that waits decides by what was before.
 */
export function checkParents(
  database: Pick<Database, 'db' | 'dialect'>,
  moves: readonly FleetMove[],
  { parents, suspended }: { parents: readonly string[]; suspended: boolean },
): Statement {
  const count = sql<number>`(select count(*) from instances as parent
    where parent.suspended = 1 and ${oneOf(database, 'parent.id', parents)})`
  const query = database.db
    .selectFrom('instances')
    .select('id')
    .where('id', '=', moves[0]!.id)
    .where(unchangedCount(database, moves), '=', moves.length)
    .where(count, '=', suspended ? parents.length : 0)
  return database.dialect.lockFound(query.compile())
}

/** Fails the batch that registers instances as stale unless all of these were. */
export const checkRegistered = (database: Pick<Database, 'db' | 'dialect'>, moves: readonly FleetMove[]): Statement =>
  checkRegistrations(database, sql<boolean>`${unchangedCount(database, moves)} = cast(${moves.length} as bigint)`)

/** Returns the parent of an instance if that is suspended. */
export async function findSuspendedParent(db: Db, id: string): Promise<string | undefined> {
  const query = db
    .selectFrom('instances')
    .select('parent_id')
    .where('id', '=', id)
    .where(isHeldByParent('instances.id'))
  return (await query.executeTakeFirst())?.parent_id ?? undefined
}
