import { sql } from 'kysely'
import type { Database, Db, Statement } from '../../db/database.ts'
import { type JsonPage, readJsonPage } from '../../db/json-page.ts'
import type { Schema } from '../../db/schema.ts'
import { isOfTeam, type Team } from '../../db/teams.ts'

/** Selects the instances of a fleet operation. Exactly one property is set. */
interface FleetSelector {
  instances?: readonly string[]
  /** Instances that have all these tags. */
  tags?: readonly string[]
  all?: boolean
}

/** A selected instance, as read. */
export interface SelectedRow {
  id: string
  suspended: 0 | 1
  control_version: number
  claimed_version: number | null
  applied_version: number | null
  parent_id: string | null
  last_heartbeat_at: number
}

/** An instance to change, as read. */
export type FleetRow = Omit<SelectedRow, 'last_heartbeat_at'>

const fleetColumns = ['id', 'suspended', 'control_version', 'claimed_version', 'applied_version', 'parent_id'] as const

/** Among the characters allowed in a tag, only _ is special in LIKE, and none is escaped in JSON. */
const tagPattern = (tag: string) => `%"${tag.replaceAll('_', '\\_')}"%`

/** Whose tags count: also what agents say of themselves, or only what operators and keys gave them. */
export type TagsOf = 'anyone' | 'operators'

const hasLike = (pattern: string, tagsOf: TagsOf) => {
  const given = sql<boolean>`coalesce(operator_tags, '') like ${pattern} escape '\\'`
  return tagsOf === 'operators' ? given : sql<boolean>`(${given} or agent_tags like ${pattern} escape '\\')`
}

const hasTag = (tag: string, tagsOf: TagsOf) => hasLike(tagPattern(tag), tagsOf)

const ofIds = ({ dialect }: Pick<Database, 'dialect'>, ids: readonly string[]) =>
  sql<boolean>`id in (select id from ${dialect.rowsFromJson(JSON.stringify(ids.map((id) => [id])), { id: 'text' })} as named)`

/** Selects instances after an id, optionally only suspended or only other ones, in the order of ids. */
export function selectFleet(
  database: Pick<Database, 'dialect'>,
  db: Db,
  { instances, tags = [] }: FleetSelector,
  page: { suspended?: boolean; tagsOf: TagsOf; team: Team; after: string; limit: number },
): Promise<SelectedRow[]> {
  let query = db
    .selectFrom('instances')
    .select([...fleetColumns, 'last_heartbeat_at'])
    .where('id', '>', page.after)
    .where(isOfTeam('id', page.team))
  // A literal, since the planner does not match a parameter to the partial index.
  if (page.suspended !== undefined) query = query.where('suspended', '=', sql.lit(page.suspended ? 1 : 0))
  if (instances) query = query.where(ofIds(database, instances))
  for (const tag of tags) query = query.where(hasTag(tag, page.tagsOf))
  return query.orderBy('id').limit(page.limit).execute()
}

/** Returns those of the ids that exist, in the team. */
export async function readKnownIds(database: Pick<Database, 'dialect' | 'db'>, ids: readonly string[], team?: Team) {
  const rows = await database.db
    .selectFrom('instances')
    .select('id')
    .where(ofIds(database, ids))
    .where(isOfTeam('id', team))
    .execute()
  return new Set(rows.map(({ id }) => id))
}

/** Whether any instance, of the team, has this tag. */
export async function isTagKnown(db: Db, tag: string, tagsOf: TagsOf, team: Team): Promise<boolean> {
  const found = await db
    .selectFrom('instances')
    .select('id')
    .where(hasTag(tag, tagsOf))
    .where(isOfTeam('id', team))
    .limit(1)
    .executeTakeFirst()
  return found !== undefined
}

/** Returns the distinct tag sets that the instances, of the team, use as JSON arrays, at most `limit` by agents and `limit` by operators. */
export async function readTagSets(db: Db, limit: number, tagsOf: TagsOf, team: Team): Promise<string[]> {
  const of = (column: 'agent_tags' | 'operator_tags') =>
    db
      .selectFrom('instances')
      .select(`${column} as tags`)
      .distinct()
      .where(column, 'is not', null)
      .where(isOfTeam('id', team))
      .limit(limit)
      .execute()
  const rows = [...(tagsOf === 'anyone' ? await of('agent_tags') : []), ...(await of('operator_tags'))]
  return rows.map(({ tags }) => tags!)
}

/** An instance to suspend or resume, as read, and its next version. */
export interface FleetMove {
  id: string
  from: number
  wasSuspended: boolean
  version: number
}

const moveColumns = { id: 'text', from_version: 'bigint', was_suspended: 'bigint', version: 'bigint' } as const
const moveRows = ({ dialect }: Pick<Database, 'dialect'>, moves: readonly FleetMove[]) => {
  const cells = moves.map(({ id, from, wasSuspended, version }) => [id, from, wasSuspended ? 1 : 0, version])
  return dialect.rowsFromJson(JSON.stringify(cells), moveColumns)
}

const isAsRead = sql<boolean>`instances.id = batch.id and instances.suspended = batch.was_suspended
  and instances.control_version = batch.from_version`

/** Suspends (with a reason) or resumes (null) those instances that are unchanged since they were read. */
export function fleetMoveStatement(
  database: Pick<Database, 'db' | 'dialect'>,
  moves: readonly FleetMove[],
  reason: string | null,
  now: number,
): Statement {
  const suspended = reason === null ? 0 : 1
  return sql`update instances set suspended = ${sql.lit(suspended)}, suspension_reason = cast(${reason} as text),
      control_version = batch.version, control_changed_at = cast(${now} as bigint)
    from ${moveRows(database, moves)} as batch
    where ${isAsRead}`.compile(database.db)
}

/** Lets registrations wait until the batch ends: they take this lock before any other, as its first statement does. */
export const lockRegistrations = ({ db, dialect }: Pick<Database, 'db' | 'dialect'>): Statement =>
  dialect.lockFound(db.selectFrom('instance_counts').select('owner').where('owner', '=', '').compile())

/**
 * Fails the batch as stale unless the condition holds. Follows `lockRegistrations`: a statement that waits for the lock
 * itself would decide by what was committed before it waited.
 */
export const checkRegistrations = (
  { db, dialect }: Pick<Database, 'db' | 'dialect'>,
  condition: ReturnType<typeof sql<boolean>>,
): Statement =>
  dialect.lockFound(db.selectFrom('instance_counts').select('owner').where('owner', '=', '').where(condition).compile())

/** Reads the ids of the instances that registered since an instant. */
export async function readRegistered(db: Db, since: number): Promise<string[]> {
  const rows = await db.selectFrom('instances').select('id').where('first_seen_at', '>=', since).execute()
  return rows.map(({ id }) => id)
}

/**
 * Row source of the active instances that registered since an instant, besides these; `owners`: only of these owners.
 * Follows `lockRegistrations` in a batch.
 */
export function registeredSince(
  database: Pick<Database, 'dialect'>,
  since: number,
  { except, owners }: { except: readonly string[]; owners: readonly string[] | undefined },
) {
  const named = (list: readonly string[]) =>
    database.dialect.rowsFromJson(JSON.stringify(list.map((name) => [name])), { owner: 'text' })
  const ofOwners = owners ? sql`and owner in (select named.owner from ${named(owners)} as named)` : sql``
  return sql`(select id, control_version from instances where first_seen_at >= cast(${since} as bigint)
    and suspended = 0 and not ${ofIds(database, except)} ${ofOwners})`
}

/** Reads the owners of these instances. */
export async function readOwnersOf(
  database: Pick<Database, 'db' | 'dialect'>,
  ids: readonly string[],
): Promise<string[]> {
  const rows = await database.db
    .selectFrom('instances')
    .select('owner')
    .distinct()
    .where(ofIds(database, ids))
    .execute()
  return rows.flatMap(({ owner }) => owner ?? [])
}

/** Locks the instances until the batch ends, in the order of ids: different orders could deadlock. */
export function holdFleet(database: Pick<Database, 'db' | 'dialect'>, ids: readonly string[]): Statement {
  const held = database.db.selectFrom('instances').select('id').where(ofIds(database, ids)).orderBy('id')
  return database.dialect.lockFound(held.compile())
}

/** Number of instances that are unchanged since they were read, for a condition in the same batch. */
export const unchangedCount = (database: Pick<Database, 'dialect'>, moves: readonly FleetMove[]) =>
  sql<number>`(select count(*) from ${moveRows(database, moves)} as batch join instances on ${isAsRead})`

/** Reads instances for a change, ordered by id. */
export function readFleet(database: Pick<Database, 'db' | 'dialect'>, ids: readonly string[]): Promise<FleetRow[]> {
  return database.db.selectFrom('instances').select(fleetColumns).where(ofIds(database, ids)).orderBy('id').execute()
}

/** Reads how many agents applied these changes, when the last one did, and which did not. */
export async function readApplied(
  { db, dialect }: Pick<Database, 'db' | 'dialect'>,
  changed: readonly (readonly [id: string, version: number])[],
): Promise<{ applied: number; lastAppliedAt: number; missing: string[] }> {
  const rows = dialect.rowsFromJson(JSON.stringify(changed), { id: 'text', version: 'bigint' })
  const found = await sql<{ id: string; at: number | null }>`select instances.id,
      case when instances.applied_version >= batch.version then coalesce(instances.applied_at, 0) end as at
    from ${rows} as batch join instances on instances.id = batch.id order by instances.id`.execute(db)
  const missing = found.rows.flatMap(({ id, at }) => (at === null ? [id] : []))
  const lastAppliedAt = Math.max(0, ...found.rows.map(({ at }) => at ?? 0))
  return { applied: found.rows.length - missing.length, lastAppliedAt, missing }
}

/** A tag, or a prefix of tags followed by `*`. */
const hasTagLike = (pattern: string, tagsOf: TagsOf) =>
  pattern.endsWith('*') ? hasLike(startPattern(pattern), tagsOf) : hasTag(pattern, tagsOf)
const startPattern = (pattern: string) => `%"${pattern.slice(0, -1).replaceAll('_', '\\_')}%`

/** Row source of instances with their tags; with patterns, only instances with a tag that matches one of them. */
export function taggedInstances(patterns?: readonly string[], tagsOf: TagsOf = 'anyone') {
  const likes = patterns?.map((pattern) => hasTagLike(pattern, tagsOf))
  const condition = likes ? sql`where ${sql.join(likes, sql` or `)}` : sql``
  return sql`(select id, agent_tags, operator_tags from instances ${condition})`
}

/** Whether the instance has another control version now; false if it was deleted. */
export const isOutdated = (instanceId: string, version: string) =>
  sql<boolean>`exists (select 1 from instances where instances.id = ${sql.ref(instanceId)}
    and instances.control_version > ${sql.ref(version)})`

/** Whether this is the current control version of the instance. */
export const isCurrent = (instanceId: string, version: string) =>
  sql<boolean>`exists (select 1 from instances where instances.id = ${sql.ref(instanceId)}
    and instances.control_version = ${sql.ref(version)})`

const nameColumns = ['id', 'name', 'agent_tags', 'operator_tags'] as const
/** An instance as people name it. */
export type NamedAgent = Pick<Schema['instances'], (typeof nameColumns)[number]>

/** Reads instances whose id begins so, in the order of ids. */
export function readNamed(
  db: Db,
  { prefix, limit, team }: { prefix: string; limit: number; team: Team },
): Promise<NamedAgent[]> {
  return (
    db
      .selectFrom('instances')
      .select(nameColumns)
      .where('id', '>=', prefix)
      // No character of an id sorts after "z", so a range on the primary key finds the prefix.
      .where('id', '<', `${prefix}~`)
      .where(isOfTeam('id', team))
      .orderBy('id')
      .limit(limit)
      .execute()
  )
}

/** Reads instances with all these words of lower-case letters and digits in id, name or tags, in the order of ids. */
export function readWithWords(
  db: Db,
  words: readonly string[],
  { limit, team }: { limit: number; team: Team },
): Promise<NamedAgent[]> {
  let query = db.selectFrom('instances').select(nameColumns).where(isOfTeam('id', team))
  // Numbers and long words first: fewer instances have them, and only those are compared with the next word.
  const rarestFirst = words.toSorted(
    (one, other) => Number(/\d/.test(other)) - Number(/\d/.test(one)) || other.length - one.length,
  )
  for (const word of rarestFirst) {
    const pattern = `%${word}%`
    query = query.where(
      sql<boolean>`(id like ${pattern} or lower(name) like ${pattern} or agent_tags like ${pattern} or operator_tags like ${pattern})`,
    )
  }
  return query.orderBy('id').limit(limit).execute()
}

/** Reads these instances. */
export function readNamedOf(
  { dialect }: Pick<Database, 'dialect'>,
  db: Db,
  ids: readonly string[],
): Promise<NamedAgent[]> {
  return db.selectFrom('instances').select(nameColumns).where(ofIds({ dialect }, ids)).execute()
}

/** Reads a page of how people name instances, as rows of id, name, agent_tags and operator_tags. */
export const readNamePage = (database: Pick<Database, 'dialect'>, db: Db, page: JsonPage) =>
  readJsonPage(database, db, { table: 'instances', columns: nameColumns }, page)
