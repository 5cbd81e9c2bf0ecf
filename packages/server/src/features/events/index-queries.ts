import { type CompiledQuery, type SelectQueryBuilder, sql } from 'kysely'
import { counterValue, setCounter } from '../../db/counters.ts'
import type { Database, Db } from '../../db/database.ts'
import type { StoredEvent } from '../../db/schema/events.ts'
import type { Schema } from '../../db/schema.ts'
import { countProblems } from './problem-queries.ts'

const newest = counterValue('event_seq')
const indexed = counterValue('indexed_seq')

export type RefKind = Schema['event_refs']['kind']

/** The most frequent types are not indexed: lists find them by scanning, and their entries would double the index. */
const bulkTypes = sql`('tool_call', 'session_metrics')`

/** Selects index entries for events whose seq meets the condition. */
const refsOf = (condition: ReturnType<typeof sql>) => sql`
  select 'instance' as kind, instance_id as value, seq from events where ${condition} and instance_id is not null
  union all select 'session', session_id, seq from events where ${condition} and session_id is not null
  union all select 'type', event_type, seq from events where ${condition} and event_type not in ${bulkTypes}`

/** Adds the missing entries of events whose seq meets the condition. */
const addRefs = (condition: ReturnType<typeof sql>) => sql`insert into event_refs (kind, value, seq)
  select kind, value, seq from (${refsOf(condition)}) as refs where true order by kind, value, seq
  on conflict do nothing`

/**
 * Indexes up to `limit` events after `from`, the current place, and counts the problems among them. Has no effect if
 * another process has moved the place.
 *
 * On PostgreSQL each statement sees what was committed before it began. So the place is moved first and the entries are
 * read second: all events up to the new place are visible to them, and later ones are left for the next call. In the
 * opposite order, the place would also pass over events committed in between, which would never be indexed.
 */
export async function indexAfter({ db, batch }: Database, from: number, limit: number): Promise<void> {
  const end = from + limit
  const statements = [
    // Holds the lock until the commit, so that another process continues where this one ends.
    sql`${setCounter('indexed_seq', sql`case when ${newest} < ${end} then ${newest} else ${end} end`)} and value = ${from}`,
    addRefs(sql`seq > ${from} and seq <= ${indexed}`),
    ...countProblems(indexed),
  ].map((statement) => statement.compile(db) as CompiledQuery)
  await batch(statements)
}

/** Counts the events with a seq in [first, end) that lack an entry. */
export async function countIncomplete(db: Db, first: number, end: number): Promise<number> {
  const refs = refsOf(sql`seq >= ${first} and seq < ${end}`)
  const { rows } = await sql<{ count: number }>`select count(distinct seq) as count from (${refs}) as refs
    where not exists (select 1 from event_refs as known
      where known.kind = refs.kind and known.value = refs.value and known.seq = refs.seq)`.execute(db)
  return rows[0]!.count
}

/** Adds the missing entries of events with a seq in [first, end), all of which are indexed. */
export async function complete({ db, batch }: Database, first: number, end: number): Promise<void> {
  await batch([addRefs(sql`seq >= ${first} and seq < ${end}`).compile(db) as CompiledQuery])
}

/** Reads the newest `limit` entries below `below`. */
export async function readRefs(
  db: Db,
  kind: RefKind,
  value: string,
  range: { floor: number; below: number; limit: number },
): Promise<number[]> {
  const rows = await db
    .selectFrom('event_refs')
    .select('seq')
    .where('kind', '=', kind)
    .where('value', '=', value)
    .where('seq', '<', range.below)
    .where('seq', '>=', range.floor)
    .orderBy('seq', 'desc')
    .limit(range.limit)
    .execute()
  return rows.map(({ seq }) => seq)
}

/** Name and value of index entries. */
export type Ref = readonly [RefKind, string]

/** Selects the newest `limit` entries of all the refs, which are of one kind, with a seq in the range. */
export function newestRefs(
  db: Db,
  refs: readonly Ref[],
  { floor, below, limit }: { floor: number; below: number; limit: number },
): SelectQueryBuilder<Schema & { refs: { seq: number } }, 'refs', { seq: number }> {
  const parts = refs.map(
    ([kind, value]) => sql<{ seq: number }>`select seq from (select seq from event_refs
      where kind = ${kind} and value = ${value} and seq < ${below} and seq >= ${floor}
      order by seq desc limit ${limit}) as newest`,
  )
  const all = sql<{ seq: number }>`(${sql.join(parts, sql` union all `)})`.as<'refs'>('refs')
  return db.selectFrom(all).select('seq').orderBy('seq', 'desc').limit(limit)
}

/** Deletes the entries of events of one severity with a seq in [first, end). */
export async function deleteRefsOf(
  db: Db,
  first: number,
  end: number,
  severity: StoredEvent['severity'],
): Promise<void> {
  const leaving = sql`seq >= ${first} and seq < ${end} and severity = ${sql.lit(severity)}`
  await sql`delete from event_refs where (kind, value, seq) in (${refsOf(leaving)})`.execute(db)
}

/** Deletes the entries of events with a seq in [first, end) that were created before `cutoff`. */
export async function deleteRefs(db: Db, first: number, end: number, cutoff: number): Promise<void> {
  const leaving = sql`seq >= ${first} and seq < ${end} and created_at < ${cutoff}`
  await sql`delete from event_refs where (kind, value, seq) in (${refsOf(leaving)})`.execute(db)
}
