import { type CompiledQuery, sql } from 'kysely'
import { counterValue, lockCounter, setCounter } from '../../db/counters.ts'
import type { Database, Db } from '../../db/database.ts'
import type { StoredEvent } from '../../db/schema/events.ts'
import type { Schema } from '../../db/schema.ts'

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

/** Counts events that are not indexed yet. */
export async function countUnindexed(db: Db): Promise<number> {
  const { count } = await db.selectNoFrom(sql<number>`${newest} - ${indexed}`.as('count')).executeTakeFirstOrThrow()
  return count
}

/** Indexes the next `limit` events. */
export async function indexNext({ db, batch }: Database, limit: number): Promise<void> {
  const next = sql`seq > ${indexed} and seq <= ${indexed} + ${limit}`
  const statements = [
    // Locks the counter until the commit, so that another process continues where this one ends.
    lockCounter('indexed_seq'),
    sql`insert into event_refs (kind, value, seq) select kind, value, seq from (${refsOf(next)}) as refs
      order by kind, value, seq`,
    setCounter('indexed_seq', sql`case when value + ${limit} < ${newest} then value + ${limit} else ${newest} end`),
  ].map((statement) => statement.compile(db) as CompiledQuery)
  await batch(statements)
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
