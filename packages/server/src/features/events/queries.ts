import type { EventQuery } from '@wardline/contract'
import { sql } from 'kysely'
import type { Db } from '../../db/database.ts'
import type { StoredEvent } from '../../db/schema.ts'
import { minuteMs, startOf } from './buckets.ts'

/** Keys are forgotten after a day, see retention. */
export function findIdempotent(db: Db, caller: string, key: string) {
  return db
    .selectFrom('idempotency_keys')
    .select('event_id')
    .where('caller', '=', caller)
    .where('key', '=', key)
    .executeTakeFirst()
}

/** The range of seq whose rows may have been created in [from, to); undefined when there are none. */
export async function seqRange(db: Db, from: number, to: number): Promise<{ first: number; last: number } | undefined> {
  const { first, last } = await db
    .selectFrom('event_minutes')
    .select((e) => [e.fn.min('first_seq').as('first'), e.fn.max('last_seq').as('last')])
    .where('minute', '>=', startOf(from, minuteMs))
    .where('minute', '<', to)
    .executeTakeFirstOrThrow()
  return first === null ? undefined : { first: Number(first), last: Number(last) }
}

const filterColumns = ['severity', 'instance_id', 'session_id', 'event_type'] as const

function matching(db: Db, filter: Omit<EventQuery, 'limit' | 'before' | 'from' | 'to'>) {
  let query = db.selectFrom('events').selectAll()
  for (const column of filterColumns) {
    const value = filter[column]
    // The partial index on severity is found only by a literal; the value comes from a closed list.
    if (column === 'severity' && value) query = query.where('severity', '=', sql.lit(value) as never)
    else if (value) query = query.where(column, '=', value as never)
  }
  if (filter.q) {
    const pattern = `%${filter.q.replaceAll(/[\\%_]/g, (mark) => `\\${mark}`)}%`
    const like = (column: string) => sql<boolean>`lower(${sql.ref(column)}) like lower(${pattern}) escape '\\'`
    query = query.where((e) => e.or([like('description'), like('source'), like('event_type')]))
  }
  return query
}

export interface EventPage {
  rows: StoredEvent[]
  /** Every row with a higher seq was looked at; undefined when all were. */
  lookedDownTo: number | undefined
}

/** Rows that a page without an index looks at: a search over a year of events must not hold up the other readers. */
const scanWindow = 100_000

/** One page, newest first: rows below `before`, created in [from, to). A page may be short while more follow. */
export async function readEvents(
  db: Db,
  filter: EventQuery,
  bounds: { before: number; from: number; to: number; limit: number },
): Promise<EventPage> {
  const { from, to, limit } = bounds
  const timed = from > 0 || to < Number.MAX_SAFE_INTEGER
  const range = timed ? await seqRange(db, from, to) : { first: 1, last: Number.MAX_SAFE_INTEGER }
  if (!range) return { rows: [], lookedDownTo: undefined }
  const newest = await db
    .selectFrom('counters')
    .select('value')
    .where('name', '=', 'event_seq')
    .executeTakeFirstOrThrow()
  const below = Math.min(bounds.before, range.last + 1, Number(newest.value) + 1)
  const indexed = filter.instance_id || filter.session_id || (filter.severity && filter.severity !== 'info')
  const floor = indexed && !filter.q && !filter.event_type ? range.first : Math.max(range.first, below - scanWindow)
  let query = matching(db, filter).where('seq', '<', below).where('seq', '>=', floor)
  if (timed) query = query.where('created_at', '>=', from).where('created_at', '<', to)
  const rows = await query.orderBy('seq', 'desc').limit(limit).execute()
  if (rows.length === limit) return { rows, lookedDownTo: Number(rows.at(-1)!.seq) }
  return { rows, lookedDownTo: floor > range.first ? floor : undefined }
}

/** Rows after a seq in order, at most `limit`. */
export function readEventsAfter(db: Db, seq: number, limit: number): Promise<StoredEvent[]> {
  return db.selectFrom('events').selectAll().where('seq', '>', seq).orderBy('seq').limit(limit).execute()
}

export async function readLastSeq(db: Db): Promise<number> {
  const row = await db.selectFrom('counters').select('value').where('name', '=', 'event_seq').executeTakeFirstOrThrow()
  return Number(row.value)
}

/** Removes up to `limit` rows created before `cutoff`, oldest first; resolves with how many went. */
export async function deleteEventsBefore(db: Db, cutoff: number, limit: number): Promise<number> {
  const oldest = await db
    .selectFrom('events')
    .select((e) => e.fn.min('seq').as('seq'))
    .executeTakeFirstOrThrow()
  if (oldest.seq === null) return 0
  const { numDeletedRows } = await db
    .deleteFrom('events')
    .where('seq', '<', Number(oldest.seq) + limit)
    .where('created_at', '<', cutoff)
    .executeTakeFirstOrThrow()
  return Number(numDeletedRows)
}

export async function deleteIdempotencyBefore(db: Db, cutoff: number): Promise<void> {
  await db.deleteFrom('idempotency_keys').where('created_at', '<', cutoff).execute()
}

export async function deleteRollupsBefore(db: Db, minutesBefore: number, hoursBefore: number): Promise<void> {
  await db.deleteFrom('event_counts').where('unit', '=', 'minute').where('bucket', '<', minutesBefore).execute()
  await db.deleteFrom('event_counts').where('unit', '=', 'hour').where('bucket', '<', hoursBefore).execute()
  await db.deleteFrom('tool_counts').where('minute', '<', minutesBefore).execute()
}

export async function deleteMinutesBefore(db: Db, minute: number): Promise<void> {
  await db.deleteFrom('event_minutes').where('minute', '<', minute).execute()
}
