import { sql } from 'kysely'
import type { Db } from '../../db/database.ts'
import type { Schema } from '../../db/schema.ts'
import {
  and,
  type Condition,
  type FleetReading,
  isActive,
  isOffline,
  isOnlyAsked,
  isSilentNow,
  isSuspended,
  isUnresumed,
} from './fleet-filter-statements.ts'
import { readTags } from './tags.ts'

/** Instances of a part of the fleet after `after`, up to `upTo`. */
export interface Part {
  after: string
  /** Undefined: to the end. */
  upTo: string | undefined
  before?: string
}

export const isInPart = ({ after, upTo, before }: Part): Condition =>
  and([
    sql<boolean>`id > ${after}`,
    ...(upTo === undefined ? [] : [sql<boolean>`id <= ${upTo}`]),
    ...(before === undefined ? [] : [sql<boolean>`id < ${before}`]),
  ])

/** Returns the id of the instance that is `skipped` instances further; undefined at the end. */
export async function readIdAfter(db: Db, after: string, skipped: number): Promise<string | undefined> {
  const query = db.selectFrom('instances').select('id').where('id', '>', after).orderBy('id').limit(1).offset(skipped)
  return (await query.executeTakeFirst())?.id
}

/** Counts the instances of a part that match, up to `max`. */
export async function readCount(db: Db, where: Condition, part: Part, max: number): Promise<number> {
  const { rows } = await sql<{ count: number }>`select count(*) as count from (select 1 from instances
    where ${isInPart(part)} and ${where} limit ${sql.lit(max)}) as matching`.execute(db)
  return Number(rows[0]!.count)
}

const sums = ['agents', 'active', 'suspended', 'offline', 'silent', 'asked', 'unresumed'] as const
export type Sums = Record<(typeof sums)[number], number>
export const noSums = (): Sums => Object.fromEntries(sums.map((name) => [name, 0])) as Sums
export const addSums = (to: Sums, more: Sums): void => {
  for (const name of sums) to[name] += more[name]
}

const countIf = (condition: Condition) => sql`sum(case when ${condition} then 1 else 0 end)`
const counted = (reading: FleetReading) => sql`count(*) as agents, ${countIf(isActive(reading.now))} as active,
  ${countIf(isSuspended)} as suspended, ${countIf(isOffline(reading.now))} as offline,
  ${countIf(isSilentNow(reading.now))} as silent, ${countIf(isOnlyAsked(reading))} as asked,
  ${countIf(isUnresumed)} as unresumed`

/** PostgreSQL returns sums as text, and null of no rows. */
const numbers = (row: Record<string, unknown>) =>
  Object.fromEntries(sums.map((name) => [name, Number(row[name] ?? 0)])) as Sums

export interface CountedMark extends Sums {
  first: string
  last: string
}

/** Counts the next `limit` instances that match, `size` at a time, in the order of ids. */
export async function countMarks(
  db: Db,
  where: Condition,
  { after, limit, size }: { after: string; limit: number; size: number },
  reading: FleetReading,
): Promise<CountedMark[]> {
  const { rows } = await sql<Record<string, unknown>>`select min(id) as first, max(id) as last, ${counted(reading)}
    from (select id, suspended, last_heartbeat_at, liveness, left_at, control_version, applied_version, supervised_at,
        model_called_at, agent_tags, operator_tags, (row_number() over (order by id) - 1) / ${sql.lit(size)} as mark
      from instances where id > ${after} and ${where} order by id limit ${sql.lit(limit)}) as marked
    group by mark order by mark`.execute(db)
  return rows.map((row) => ({ first: row.first as string, last: row.last as string, ...numbers(row) }))
}

/** Counts the instances of a part that match. */
export async function countPart(db: Db, where: Condition, part: Part, reading: FleetReading): Promise<Sums> {
  const { rows } = await sql<Record<string, unknown>>`select ${counted(reading)} from instances
    where ${isInPart(part)} and ${where}`.execute(db)
  return numbers(rows[0]!)
}

export interface SilentRow {
  id: string
  last_heartbeat_at: number
  /** Of all that ended in the same ten seconds. */
  agents: number
  newest: number
}

/** Heartbeats that ended in the same ten seconds are counted together. */
const spanMs = 10_000
const namedOfSpan = 3
/** Rows of a part, newest first: agents that went silent one by one over months need not all be sorted here. */
const maxSilentRows = 1_000

/** Reads silent instances of a part: the first three of each ten seconds, and how many there are; the newest. */
export async function readSilent(db: Db, where: Condition, part: Part, now: number): Promise<SilentRow[]> {
  const { rows } = await sql<SilentRow>`select id, last_heartbeat_at, agents, newest from (
      select id, last_heartbeat_at, row_number() over (partition by span order by last_heartbeat_at, id) as place,
        count(*) over (partition by span) as agents, max(last_heartbeat_at) over (partition by span) as newest
      from (select id, last_heartbeat_at, last_heartbeat_at / ${sql.lit(spanMs)} as span from instances
        where ${isInPart(part)} and ${where} and ${isSilentNow(now)}) as silent) as placed
    where place <= ${sql.lit(namedOfSpan)} order by last_heartbeat_at desc, id limit ${sql.lit(maxSilentRows)}`.execute(
    db,
  )
  return rows.map((row) => ({
    ...row,
    last_heartbeat_at: Number(row.last_heartbeat_at),
    agents: Number(row.agents),
    newest: Number(row.newest),
  }))
}

const suspendedColumns = [
  'id',
  'suspended',
  'control_changed_at',
  'last_heartbeat_at',
  'fail_mode',
  'agent_tags',
  'operator_tags',
] as const
export type SuspendedRow = Pick<Schema['instances'], (typeof suspendedColumns)[number]>

/** Reads suspended instances after an id, in the order of ids. */
export function readSuspendedPage(db: Db, where: Condition, after: string, limit: number): Promise<SuspendedRow[]> {
  return db
    .selectFrom('instances')
    .select(suspendedColumns)
    .where('id', '>', after)
    .where(isSuspended)
    .where(where)
    .orderBy('id')
    .limit(limit)
    .execute()
}

export interface TagSet {
  /** Of the agent and of operators, sorted. */
  tags: string[]
  operatorTags: string[]
  agents: number
  suspended: number
  offline: number
}

/** Counts the instances of a part by their tags. */
export async function countTagSets(db: Db, where: Condition, part: Part, now: number): Promise<TagSet[]> {
  const { rows } = await sql<{ agent_tags: string | null; operator_tags: string | null } & Record<string, unknown>>`
    select agent_tags, operator_tags, count(*) as agents, ${countIf(isSuspended)} as suspended,
      ${countIf(isOffline(now))} as offline
    from instances where ${isInPart(part)} and ${where} group by agent_tags, operator_tags`.execute(db)
  return rows.map(({ agent_tags, operator_tags, agents, suspended, offline }) => {
    const operatorTags = readTags(operator_tags)
    const tags = [...new Set([...readTags(agent_tags), ...operatorTags])].sort()
    return { tags, operatorTags, agents: Number(agents), suspended: Number(suspended), offline: Number(offline) }
  })
}
