import { sql } from 'kysely'
import type { Database, Db, Statement } from '../../db/database.ts'
import { claimRow, isClaimable } from '../../db/lease.ts'
import type { Schema } from '../../db/schema.ts'
import { isWithinTeam, type Team } from '../../db/teams.ts'

export type ContainmentRow = Schema['containments']
type PartRow = Pick<Schema['containment_parts'], 'position' | 'members'>
type NewContainmentRow = Pick<
  ContainmentRow,
  | 'id'
  | 'action'
  | 'selector'
  | 'reason'
  | 'actor'
  | 'requested_by'
  | 'confirmed_by'
  | 'two_person'
  | 'requested'
  | 'skipped'
  | 'requested_at'
  | 'worker'
  | 'leased_until'
  | 'look_at'
  | 'team'
>

/** Stores a containment with its members, part by part (JSON), before any of them is changed. */
export function insertStatements(
  { db, dialect }: Database,
  row: NewContainmentRow,
  parts: readonly string[],
): Statement[] {
  const cells = JSON.stringify(parts.map((members, position) => [position, members]))
  const rows = dialect.rowsFromJson(cells, { position: 'bigint', members: 'text' })
  return [
    db.insertInto('containments').values(row).compile(),
    sql`insert into containment_parts (containment_id, position, members)
      select cast(${row.id} as text), position, members from ${rows} as batch`.compile(db),
  ]
}

/** Adds instances that registered after the selection as one more part. `late`: row source of ids and versions. */
export function lateStatements(
  { db, dialect }: Database,
  { containmentId, position }: { containmentId: string; position: number },
  late: ReturnType<typeof sql>,
): Statement[] {
  const id = sql`cast(${containmentId} as text)`
  return [
    sql`insert into containment_parts (containment_id, position, members, joined)
      select ${id}, cast(${position} as bigint), members, 1
      from (select ${dialect.jsonRows(['id', 'control_version'])} as members from ${late} as late) as part
      where members is not null`.compile(db),
    sql`update containments set requested = requested + (select count(*) from ${late} as late) where id = ${id}`.compile(
      db,
    ),
  ]
}

/** `team`: undefined also for one that an operator of another team requested, or one of all agents. */
export function findContainment(db: Db, id: string, team: Team): Promise<ContainmentRow | undefined> {
  return db
    .selectFrom('containments')
    .selectAll()
    .where('id', '=', id)
    .where(isWithinTeam('team', team))
    .executeTakeFirst()
}

/** Reads containments, newest first: ids start with their time. */
export function readContainments(
  db: Db,
  { before, limit, team }: { before: string | undefined; limit: number; team: Team },
): Promise<ContainmentRow[]> {
  let query = db.selectFrom('containments').selectAll().where(isWithinTeam('team', team))
  if (before !== undefined) query = query.where('id', '<', before)
  return query.orderBy('id', 'desc').limit(limit).execute()
}

/** Reads unfinished containments that no other process works on, oldest first. */
export async function findAbandoned(database: Database, holder: string, now: number, limit: number): Promise<string[]> {
  const rows = await database.db
    .selectFrom('containments')
    .select('id')
    .where('counts', 'is', null)
    .where('changed_at', 'is', null)
    .where(isClaimable(database, { table: 'containments', leaseMs }, { holder, now }))
    .orderBy('id')
    .limit(limit)
    .execute()
  return rows.map(({ id }) => id)
}

export async function countOpen(db: Db): Promise<number> {
  const { count } = await db
    .selectFrom('containments')
    .select((e) => e.fn.countAll<number>().as('count'))
    .where('counts', 'is', null)
    .where('changed_at', 'is', null)
    .executeTakeFirstOrThrow()
  return Number(count)
}

/** After this time without a sign of its worker, another process continues a containment. */
export const leaseMs = 5_000

/**
 * Claims the work; undefined if another process has it or it is done. The lease only saves work:
 * each part is changed once, because its batch begins with `holdPart`.
 */
export function claimWork(
  database: Database,
  id: string,
  holder: string,
  now: number,
): Promise<ContainmentRow | undefined> {
  const row = { table: 'containments', key: { id }, leaseMs } as const
  return claimRow<ContainmentRow>(database, row, { holder, now }, sql`changed_at is null`)
}

/** Reads the next unfinished part. */
export function nextPart(db: Db, id: string): Promise<PartRow | undefined> {
  return db
    .selectFrom('containment_parts')
    .select(['position', 'members'])
    .where('containment_id', '=', id)
    .where('done_at', 'is', null)
    .orderBy('position')
    .limit(1)
    .executeTakeFirst()
}

interface DonePart {
  id: string
  position: number
  changed: string
  skipped: number
  now: number
}

/** Locks an unfinished part; first statement of the batch that changes its members. */
export function holdPart({ db, dialect }: Database, id: string, position: number): Statement {
  const undone = db
    .selectFrom('containment_parts')
    .select('position')
    .where('containment_id', '=', id)
    .where('position', '=', position)
    .where('done_at', 'is', null)
  return dialect.lockFound(undone.compile())
}

/** Fails its batch as stale unless the expected number of members is `unchanged` (a count) since they were read. */
export function checkUnchanged(
  { db, dialect }: Database,
  id: string,
  position: number,
  unchanged: ReturnType<typeof sql<number>>,
  expected: number,
): Statement {
  const isRight = db
    .selectFrom('containment_parts')
    .select('position')
    .where('containment_id', '=', id)
    .where('position', '=', position)
    .where(unchanged, '=', expected)
  return dialect.lockFound(isRight.compile())
}

/** Marks a part as done, and renews the lease. */
export function donePartStatements({ db }: Database, { id, position, changed, skipped, now }: DonePart): Statement[] {
  const until = sql`cast(${now + leaseMs} as bigint)`
  const leased = sql<number>`case when leased_until < ${until} then ${until} else leased_until end`
  return [
    db
      .updateTable('containment_parts')
      .set({ changed, done_at: now })
      .where('containment_id', '=', id)
      .where('position', '=', position)
      .compile(),
    db
      .updateTable('containments')
      .set((e) => ({ leased_until: leased, skipped: e('skipped', '+', skipped) }))
      .where('id', '=', id)
      .compile(),
  ]
}

/** Marks the work as done once every part is. */
export async function finish(db: Db, id: string, now: number): Promise<void> {
  await db
    .updateTable('containments')
    .set({ changed_at: now })
    .where('id', '=', id)
    .where('changed_at', 'is', null)
    .where((e) =>
      e.not(
        e.exists(
          e
            .selectFrom('containment_parts')
            .select('position')
            .where('containment_id', '=', id)
            .where('done_at', 'is', null),
        ),
      ),
    )
    .execute()
}

/** Reads the members by part, in order: as selected, and as changed. */
export function readParts(
  db: Db,
  id: string,
): Promise<Pick<Schema['containment_parts'], 'members' | 'changed' | 'joined'>[]> {
  return db
    .selectFrom('containment_parts')
    .select(['members', 'changed', 'joined'])
    .where('containment_id', '=', id)
    .orderBy('position')
    .execute()
}

/** Reads containments whose result is due to be checked. */
export function findToReport(db: Db, now: number, limit: number): Promise<ContainmentRow[]> {
  return db
    .selectFrom('containments')
    .selectAll()
    .where('counts', 'is', null)
    .where('changed_at', 'is not', null)
    .where('look_at', '<=', now)
    .orderBy('look_at')
    .limit(limit)
    .execute()
}

export type Looked = Partial<Pick<ContainmentRow, 'reported' | 'completed_at' | 'counts'>> &
  Pick<ContainmentRow, 'look_at'>

/** Stores when the result is checked again, or that it is final, unless another process did so since it was read. */
export function lookedStatements(
  { db, dialect }: Database,
  { id, look_at }: ContainmentRow,
  changes: Looked,
): Statement[] {
  const asRead = db
    .selectFrom('containments')
    .select('id')
    .where('id', '=', id)
    .where('look_at', '=', look_at)
    .where('counts', 'is', null)
  return [
    dialect.lockFound(asRead.compile()),
    db.updateTable('containments').set(changes).where('id', '=', id).compile(),
  ]
}

/** Deletes containments with final counts that were requested before a time, oldest first; resolves with their number. */
export async function deleteOld(db: Db, requestedBefore: number, limit: number): Promise<number> {
  const rows = await db
    .selectFrom('containments')
    .select('id')
    .where('counts', 'is not', null)
    .where('requested_at', '<', requestedBefore)
    .orderBy('id')
    .limit(limit)
    .execute()
  if (rows.length === 0) return 0
  const ids = rows.map(({ id }) => id)
  await db.deleteFrom('containment_parts').where('containment_id', 'in', ids).execute()
  await db.deleteFrom('containments').where('id', 'in', ids).execute()
  return rows.length
}

/** Returns those of the containments that require two operators to resume their agents. */
export async function readTwoPerson(db: Db, ids: readonly string[]): Promise<Set<string>> {
  if (ids.length === 0) return new Set()
  const rows = await db
    .selectFrom('containments')
    .select('id')
    .where('id', 'in', ids)
    .where('two_person', '=', 1)
    .execute()
  return new Set(rows.map(({ id }) => id))
}

/** A containment that suspends, as far as it concerns new instances. */
export type StopRow = Pick<ContainmentRow, 'id' | 'reason' | 'two_person'>

export async function readStops(db: Db, ids: readonly string[]): Promise<StopRow[]> {
  if (ids.length === 0) return []
  return db.selectFrom('containments').select(['id', 'reason', 'two_person']).where('id', 'in', ids).execute()
}

/** Returns the containments that are about to suspend an instance with an id like one of these patterns. */
export async function readPlannedLike(
  { db, dialect }: Database,
  patterns: readonly string[],
): Promise<{ pattern: string; containmentId: string }[]> {
  const cells = patterns.map((pattern) => [pattern, `%["${pattern}${pattern.endsWith('%') ? '' : '",%'}`])
  const given = dialect.rowsFromJson(JSON.stringify(cells), { pattern: 'text', within: 'text' })
  const query = sql<{ pattern: string; containmentId: string }>`select distinct given.pattern,
      containments.id as "containmentId"
    from containments join containment_parts as part on part.containment_id = containments.id and part.done_at is null
      join ${given} as given on part.members like given.within escape '\\'
    where containments.action = 'suspend' and containments.changed_at is null and containments.counts is null`
  return (await query.execute(db)).rows
}

/** Returns the instances whose suspension of this version a containment is about to end. */
export async function readPendingResumes(
  { db, dialect }: Pick<Database, 'db' | 'dialect'>,
  suspensions: readonly { instanceId: string; version: number }[],
): Promise<Set<string>> {
  if (suspensions.length === 0) return new Set()
  const cells = suspensions.map(({ instanceId: id, version }) => [id, `%["${id.replaceAll('_', '\\_')}",${version}]%`])
  const given = dialect.rowsFromJson(JSON.stringify(cells), { id: 'text', within: 'text' })
  const query = sql<{ id: string }>`select distinct given.id
    from containments join containment_parts as part on part.containment_id = containments.id and part.done_at is null
      join ${given} as given on part.members like given.within escape '\\'
    where containments.action = 'resume' and containments.changed_at is null and containments.counts is null`
  return new Set((await query.execute(db)).rows.map(({ id }) => id))
}

/** Reads the ids of the containments that were requested since an instant and suspend. */
export async function readRecentStops(db: Db, since: number): Promise<string[]> {
  const query = db.selectFrom('containments').select('id').where('action', '=', 'suspend')
  const rows = await query.where('requested_at', '>', since).execute()
  return rows.map(({ id }) => id)
}

/** Condition: no containment that suspends was requested since the instant, besides the known ones. */
export function noOtherStop(since: number, known: readonly string[]) {
  const others = known.length > 0 ? sql`and id not in (${sql.join(known)})` : sql``
  return sql<boolean>`not exists (select 1 from containments where action = 'suspend'
    and requested_at > cast(${since} as bigint) ${others})`
}

/** Locks a containment; fails its batch as stale unless the count is as expected. */
export function holdContainment(
  { db, dialect }: Database,
  id: string,
  count: ReturnType<typeof sql<number>>,
  expected: number,
): Statement {
  const query = db.selectFrom('containments').select('id').where('id', '=', id).where(count, '=', expected)
  return dialect.lockFound(query.compile())
}

/** Adds instances that registered while the containment holds; it counts and reports again. */
export function joinStatements(
  { db }: Database,
  id: string,
  members: readonly (readonly [id: string, version: number])[],
  now: number,
): Statement[] {
  const changed = JSON.stringify(members)
  return [
    db
      .updateTable('containments')
      .set((e) => ({
        requested: e('requested', '+', members.length),
        counts: null,
        look_at: now,
      }))
      .where('id', '=', id)
      .compile(),
    sql`insert into containment_parts (containment_id, position, members, changed, done_at, joined)
      select cast(${id} as text), coalesce(max(position), -1) + 1, cast(${changed} as text), cast(${changed} as text),
        cast(${now} as bigint), 1
      from containment_parts where containment_id = ${id}`.compile(db),
  ]
}
