import { type InstanceStatus, offlineAfterMs, type Witness } from '@wardline/contract'
import { type RawBuilder, sql } from 'kysely'
import { raiseToTimeAgain } from '../../db/counters.ts'
import type { Database, Db, Statement } from '../../db/database.ts'
import type { Schema } from '../../db/schema.ts'
import { isOfTeam, type Team } from '../../db/teams.ts'
import { deleteConfigs } from './config-statements.ts'
import { isHeardBy } from './heard-by-statements.ts'
import { deleteNote } from './note-statements.ts'
import { isBetween, isParent } from './parent-queries.ts'
import { deleteServers, runsServer } from './tool-server-statements.ts'

/** Columns from which the status of an instance is derived. */
const viewColumns = ['id', 'name', 'last_heartbeat_at', 'suspended', 'suspension_reason'] as const
export type InstanceRow = Pick<Schema['instances'], (typeof viewColumns)[number]>

const tagColumns = ['agent_tags', 'operator_tags'] as const
export type TagColumns = Pick<Schema['instances'], (typeof tagColumns)[number]>

const silenceColumns = ['liveness', 'left_at'] as const
export type SilenceColumns = Pick<Schema['instances'], (typeof silenceColumns)[number] | 'last_heartbeat_at'>

const reachColumns = ['supervised_at', 'model_called_at'] as const
export type ReachColumns = TagColumns & Pick<Schema['instances'], 'id' | (typeof reachColumns)[number]>

/** Columns of the fleet list. */
const listColumns = [
  ...viewColumns,
  ...tagColumns,
  'version',
  'fail_mode',
  'control_version',
  'control_changed_at',
  'applied_version',
  'applied_at',
  'claimed_version',
  'first_seen_at',
  'last_proven_at',
  ...silenceColumns,
  ...reachColumns,
] as const

/** Reads all instances, ordered by id. */
export function readAllInstances(db: Db): Promise<InstanceRow[]> {
  return db.selectFrom('instances').select(viewColumns).orderBy('id').execute()
}

/** Reads suspended instances, ordered by id. */
export function readSuspended(db: Db, limit: number): Promise<InstanceRow[]> {
  return (
    db
      .selectFrom('instances')
      .select(viewColumns)
      // A literal, since the planner does not match a parameter to the partial index.
      .where('suspended', '=', sql.lit(1))
      .orderBy('id')
      .limit(limit)
      .execute()
  )
}

export async function countTeam(db: Db, team: readonly string[]): Promise<number> {
  const { count } = await db
    .selectFrom('instances')
    .select((e) => e.fn.countAll<number>().as('count'))
    .where(isOfTeam('id', team))
    .executeTakeFirstOrThrow()
  return Number(count)
}

/** Reads instances of the team: suspended ones first, then those with the newest heartbeats. */
export function readTeamInstances(db: Db, team: readonly string[], limit: number): Promise<InstanceRow[]> {
  return db
    .selectFrom('instances')
    .select(viewColumns)
    .where(isOfTeam('id', team))
    .orderBy('suspended', 'desc')
    .orderBy('last_heartbeat_at', 'desc')
    .orderBy('id')
    .limit(limit)
    .execute()
}

/** Reads the instances with the newest heartbeats, newest first. */
export function readNewest(db: Db, limit: number): Promise<InstanceRow[]> {
  return db
    .selectFrom('instances')
    .select(viewColumns)
    .where('suspended', '=', sql.lit(0))
    .orderBy('last_heartbeat_at', 'desc')
    .limit(limit)
    .execute()
}

/** Reads these instances as alerts describe them. */
export function findAgents(db: Db, ids: readonly string[]) {
  return db
    .selectFrom('instances')
    .select([
      'id',
      'name',
      'suspended',
      'suspension_reason',
      'control_version',
      'control_changed_at',
      'applied_version',
    ])
    .where('id', 'in', ids)
    .execute()
}

/** Returns the number of instances from a counter. */
export async function countInstances(db: Db): Promise<number> {
  const row = await db.selectFrom('instance_counts').select('count').where('owner', '=', '').executeTakeFirst()
  return row?.count ?? 0
}

interface InstanceFilter {
  status: InstanceStatus | undefined
  tag: string | undefined
  server: string | undefined
  parent: string | undefined
  heard: { by: Witness; since: number } | undefined
  ids: readonly string[] | undefined
  prefix: string | undefined
  team: Team
  after: string
  limit: number
  now: number
}

/** Reads instances after an id, in the order of ids. */
export function readInstances(
  db: Db,
  { status, tag, server, parent, heard, ids, prefix, team, after, limit, now }: InstanceFilter,
): Promise<Pick<Schema['instances'], (typeof listColumns)[number]>[]> {
  let query = db.selectFrom('instances').select(listColumns).where('id', '>', after).where(isOfTeam('id', team))
  if (ids !== undefined) query = query.where('id', 'in', ids)
  if (tag !== undefined) {
    // Among the characters allowed in a tag, only _ is special in LIKE, and none is escaped in JSON.
    const pattern = `%"${tag.replaceAll('_', '\\_')}"%`
    const has = (column: string) => sql<boolean>`${sql.ref(column)} like ${pattern} escape '\\'`
    query = query.where((e) => e.or(tagColumns.map(has)))
  }
  if (server !== undefined) query = query.where(runsServer(server))
  if (parent !== undefined) query = query.where('parent_id', '=', parent)
  if (heard !== undefined) query = query.where(isHeardBy(heard.by, heard.since))
  // No character of an id sorts after "z", so a range on the primary key finds the prefix.
  if (prefix !== undefined) query = query.where('id', '>=', prefix).where('id', '<', `${prefix}~`)
  if (status !== undefined) query = query.where('suspended', '=', sql.lit(status === 'suspended' ? 1 : 0))
  if (status === 'active') query = query.where('last_heartbeat_at', '>=', now - offlineAfterMs)
  if (status === 'offline') query = query.where('last_heartbeat_at', '<', now - offlineAfterMs)
  return query.orderBy('id').limit(limit).execute()
}

const controlColumns = ['control_version', 'control_changed_at', 'applied_version', 'applied_at'] as const
export type SharedRow = InstanceRow &
  TagColumns &
  SilenceColumns &
  ReachColumns &
  Pick<Schema['instances'], (typeof controlColumns)[number] | 'version' | 'fail_mode' | 'last_proven_at'>

interface SharedOrder {
  isDown: boolean
  limit: number
  /** Default: by id. */
  column?: 'last_heartbeat_at' | undefined
}

/** Reads instances that match as dashboards show them. */
export function readShared(
  db: Db,
  where: RawBuilder<boolean>,
  { isDown, limit, column }: SharedOrder,
): Promise<SharedRow[]> {
  const direction = isDown ? 'desc' : 'asc'
  let query = db
    .selectFrom('instances')
    .select([
      ...viewColumns,
      ...tagColumns,
      ...controlColumns,
      ...silenceColumns,
      ...reachColumns,
      'version',
      'fail_mode',
      'last_proven_at',
    ])
    .where(where)
  if (column) query = query.orderBy(column, direction)
  return query.orderBy('id', direction).limit(limit).execute()
}

export type ValueColumn = 'version' | 'applied_version'

/** Reads distinct values of the instances that match. */
export async function readFleetValues(
  db: Db,
  column: ValueColumn,
  where: RawBuilder<boolean>,
  limit: number,
): Promise<(string | number | null)[]> {
  const rows = await db.selectFrom('instances').select(column).distinct().where(where).limit(limit).execute()
  return rows.map((row) => (row as Record<ValueColumn, string | number | null>)[column])
}

export function findInstance(db: Db, id: string) {
  return db.selectFrom('instances').selectAll().where('id', '=', id).executeTakeFirst()
}

/** Reads the traits of these instances. */
export function findTraits(db: Db, ids: readonly string[]) {
  return db.selectFrom('instances').select(['id', 'agent_type', 'operator_tags']).where('id', 'in', ids).execute()
}

/**
 * Sets the operators' tags, in a batch that fails as stale if they changed since they were read. Policies are found by
 * these tags, so their version is raised.
 */
export function tagStatements(
  { db, dialect }: Database,
  id: string,
  before: string | null,
  after: string,
  now: number,
): Statement[] {
  const asRead = db
    .selectFrom('instances')
    .select('id')
    .where('id', '=', id)
    .where('operator_tags', before === null ? 'is' : '=', before as never)
  const update = db.updateTable('instances').set({ operator_tags: after }).where('id', '=', id)
  return [dialect.lockFound(asRead.compile()), update.compile(), raiseToTimeAgain('policy_set', now).compile(db)]
}

/** Deletes an instance but keeps its control version, in a batch that fails as stale if it changed, or has a parent and children. */
export function deletionStatements({ db, dialect }: Database, id: string, version: number, now: number): Statement[] {
  const asRead = db
    .selectFrom('instances')
    .select('id')
    .where('id', '=', id)
    .where('suspended', '=', 0)
    .where('control_version', '=', version)
    .where(isBetween, '=', 0)
  const remembered = { control_version: version, deleted_at: now }
  const remember = db
    .insertInto('deleted_instances')
    .values({ id, ...remembered })
    .onConflict((conflict) => conflict.column('id').doUpdateSet(remembered))
  return [
    dialect.lockFound(asRead.compile()),
    db.deleteFrom('instances').where('id', '=', id).compile(),
    // With the instance its tags are gone.
    raiseToTimeAgain('policy_set', now).compile(db),
    db.deleteFrom('instance_hours').where('instance_id', '=', id).compile(),
    db.deleteFrom('instance_witnesses').where('instance_id', '=', id).compile(),
    deleteConfigs(db, id),
    deleteServers(db, id),
    deleteNote(db, id),
    ...(version > 0 ? [remember.compile()] : []),
  ]
}

/** Finds ids after `after` of instances with a single heartbeat, before `cutoff`, that were never suspended and have no children. */
export async function findSeenOnce(db: Db, cutoff: number, after: string, limit: number): Promise<string[]> {
  const rows = await db
    .selectFrom('instances')
    .select('id')
    .where('id', '>', after)
    .where('last_heartbeat_at', '<', cutoff)
    .whereRef('last_heartbeat_at', '=', 'first_seen_at')
    .where('control_version', '=', 0)
    .where(isParent, '=', 0)
    .orderBy('id')
    .limit(limit)
    .execute()
  return rows.map(({ id }) => id)
}

/** Deletes those of the instances to which the conditions of `findSeenOnce` still apply. */
export async function deleteSeenOnce(db: Db, ids: readonly string[], now: number): Promise<void> {
  await db.transaction().execute(async (trx) => {
    const deleted = await trx
      .deleteFrom('instances')
      .where('id', 'in', ids)
      .whereRef('last_heartbeat_at', '=', 'first_seen_at')
      .where('control_version', '=', 0)
      .where(isParent, '=', 0)
      .returning(['id', 'operator_tags'])
      .execute()
    const gone = deleted.map(({ id }) => id)
    for (const table of gone.length > 0 ? (['agent_configs', 'agent_notes', 'tool_servers'] as const) : []) {
      await trx.deleteFrom(table).where('instance_id', 'in', gone).execute()
    }
    if (deleted.some(({ operator_tags }) => operator_tags !== null)) {
      await raiseToTimeAgain('policy_set', now).execute(trx)
    }
  })
}

/** Counts all, suspended and active instances (a heartbeat since `activeSince`, not suspended); reads the latest heartbeat. */
export async function countFleet(db: Db, activeSince: number) {
  const row = await db
    .selectFrom('instances')
    .select((e) => [
      e.fn.countAll<number>().as('total'),
      e.fn.sum<number | null>('suspended').as('suspended'),
      sql<number | null>`sum(case when suspended = 0 and last_heartbeat_at >= ${activeSince} then 1 else 0 end)`.as(
        'active',
      ),
      e.fn.max('last_heartbeat_at').as('last'),
    ])
    .executeTakeFirstOrThrow()
  return {
    total: row.total,
    suspended: row.suspended ?? 0,
    active: row.active ?? 0,
    lastHeartbeatAt: row.last,
  }
}
