import type { EventQuery, Severity } from '@wardline/contract'
import { sql } from 'kysely'
import { readCounters } from '../../db/counters.ts'
import type { Db } from '../../db/database.ts'
import type { Team } from '../../db/teams.ts'
import { countedTools } from './classify.ts'
import { newestRefs } from './index-queries.ts'
import { bestRefs, matching, readTimeOf, scanWindow, seqRange } from './queries.ts'

/** Index entries whose rows are read: some hundred milliseconds in the scan lane. */
const refWindow = 20_000

export interface TimeRange {
  from: number
  to: number
}

/** Matching events, newest first, within the limit of rows to read. */
interface Hits {
  query: ReturnType<typeof selectHits>
  /** Oldest time that was read; undefined if the whole range was. */
  scannedTo: number | undefined
}

function selectHits(db: Db, filter: EventQuery, { from, to }: TimeRange, team: Team) {
  return matching(db, filter, team)
    .clearSelect()
    .select(['severity', 'event_type', 'source', 'instance_id', 'tool', 'created_at'])
    .where('created_at', '>=', from)
    .where('created_at', '<', to)
}

/** Returns the lowest seq of the newest index entries within the limit; undefined if there are no further entries. */
async function lowestRef(db: Db, refs: ReturnType<typeof newestRefs>): Promise<number | undefined> {
  const { lowest, count } = await db
    .selectFrom(refs.as('newest'))
    .select((e) => [e.fn.min('seq').as('lowest'), e.fn.countAll<number>().as('count')])
    .executeTakeFirstOrThrow()
  return count === refWindow ? lowest : undefined
}

async function findHits(db: Db, filter: EventQuery, bounds: TimeRange, team: Team): Promise<Hits | undefined> {
  const range = await seqRange(db, bounds.from, bounds.to)
  if (!range) return undefined
  const { event_seq: newest, indexed_seq: indexed } = await readCounters(db)
  const end = Math.min(range.last, newest) + 1
  const hits = selectHits(db, filter, bounds, team)
  const between = (first: number) => hits.where('seq', '>=', first).where('seq', '<', end)
  const known = await bestRefs(db, filter, team)
  if (known?.length === 0) return undefined
  // Without an index, and for rows that are not indexed yet, read the newest rows themselves.
  const first = known ? Math.max(range.first, indexed + 1) : range.first
  if (end - first > scanWindow) {
    const lowest = end - scanWindow
    return { query: between(lowest), scannedTo: await readTimeOf(db, lowest) }
  }
  if (!known) return { query: between(first), scannedTo: undefined }
  const refs = newestRefs(db, known, { floor: range.first, below: Math.min(first, end), limit: refWindow })
  const lowest = await lowestRef(db, refs)
  return {
    query: hits.where('seq', 'in', refs).unionAll(between(first)),
    scannedTo: lowest === undefined ? undefined : await readTimeOf(db, lowest),
  }
}

interface BucketCount {
  /** Number of the bucket from the start of the range. */
  bucket: number
  severity: Severity
  count: number
}

/** Bucket number of a time; the cast is needed because one engine divides parameters as floating-point numbers. */
const bucketOf = (column: string, from: number, widthMs: number) =>
  sql`cast((${sql.ref(column)} - ${from}) / ${widthMs} as bigint)`

/** Sums buckets from the rollups of whole minutes or hours. */
export async function sumBuckets(
  db: Db,
  unit: 'minute' | 'hour',
  severities: readonly Severity[],
  { from, to }: TimeRange,
  widthMs: number,
): Promise<BucketCount[]> {
  const { rows } = await sql<BucketCount>`select bucket, severity, sum(count) as count from (
      select ${bucketOf('bucket', from, widthMs)} as bucket, severity, count from event_counts
      where unit = ${unit} and severity in (${sql.join(severities)}) and class in ('none', 'injection', 'blocked')
        and bucket >= ${from} and bucket < ${to}
    ) as counted group by bucket, severity`.execute(db)
  return rows
}

interface ToolCount {
  bucket: number
  tool: (typeof countedTools)[number]
  count: number
}

/** Sums tool calls in buckets of whole minutes. */
export async function sumToolBuckets(db: Db, { from, to }: TimeRange, widthMs: number): Promise<ToolCount[]> {
  // Naming the tools makes each a short range of the key; with the time alone all rollups would be read.
  const { rows } = await sql<ToolCount>`select bucket, tool, sum(count) as count from (
      select ${bucketOf('minute', from, widthMs)} as bucket, tool, count from tool_counts
      where tool in (${sql.join(countedTools)}) and minute >= ${from} and minute < ${to}
    ) as counted group by bucket, tool`.execute(db)
  return rows
}

/** Counts buckets from the events themselves; includes the oldest time that was read unless all were. */
export async function countBuckets(
  db: Db,
  filter: EventQuery,
  bounds: TimeRange,
  widthMs: number,
  team: Team,
): Promise<{ rows: BucketCount[]; scannedTo: number | undefined }> {
  const hits = await findHits(db, filter, bounds, team)
  if (!hits) return { rows: [], scannedTo: undefined }
  const { rows } = await sql<BucketCount>`select bucket, severity, count(*) as count from (
      select ${bucketOf('created_at', bounds.from, widthMs)} as bucket, severity from ${hits.query} as hits
    ) as counted group by bucket, severity`.execute(db)
  return { rows, scannedTo: hits.scannedTo }
}

/** Counts tool calls of a team's agents from the events themselves, because the rollups have no agent. */
export async function countToolBuckets(
  db: Db,
  bounds: TimeRange,
  widthMs: number,
  team: readonly string[],
): Promise<{ rows: ToolCount[]; scannedTo: number | undefined }> {
  const hits = await findHits(db, {}, bounds, team)
  if (!hits) return { rows: [], scannedTo: undefined }
  const { rows } = await sql<ToolCount>`select bucket, tool, count(*) as count from (
      select ${bucketOf('created_at', bounds.from, widthMs)} as bucket, tool from ${hits.query} as hits
      where tool in (${sql.join(countedTools)})
    ) as counted group by bucket, tool`.execute(db)
  return { rows, scannedTo: hits.scannedTo }
}

export const facetFields = ['severity', 'event_type', 'source', 'instance_id'] as const
interface FacetCount {
  field: (typeof facetFields)[number]
  value: string
  count: number
}

/** Counts the most frequent values of each field, in descending order, and all matching events. */
export async function countFacets(
  db: Db,
  filter: EventQuery,
  bounds: TimeRange,
  maxValues: number,
  team: Team,
): Promise<{ rows: FacetCount[]; total: number; scannedTo: number | undefined }> {
  const hits = await findHits(db, filter, bounds, team)
  if (!hits) return { rows: [], total: 0, scannedTo: undefined }
  const parts = facetFields.map((field) => {
    const column = sql.ref(field)
    return sql`select * from (select ${sql.lit(field)} as field, ${column} as value, count(*) as count from hits
      where ${column} is not null group by ${column} order by count(*) desc, ${column} limit ${maxValues}) as ${sql.ref(`by_${field}`)}`
  })
  // Materialized, because each facet would otherwise read all rows again.
  const { rows } = await sql<Omit<FacetCount, 'field'> & { field: FacetCount['field'] | 'total' }>`
    with hits as materialized ${hits.query}
    select 'total' as field, '' as value, count(*) as count from hits
    union all ${sql.join(parts, sql` union all `)}`.execute(db)
  const counts = rows.filter((row): row is FacetCount => row.field !== 'total')
  const total = rows.find(({ field }) => field === 'total')!.count
  return { rows: counts, total, scannedTo: hits.scannedTo }
}
