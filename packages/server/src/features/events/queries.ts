import { type EventQuery, eventTypes } from '@wardline/contract'
import { sql } from 'kysely'
import { minuteMs, startOf } from '../../clock.ts'
import { readCounters } from '../../db/counters.ts'
import type { Db } from '../../db/database.ts'
import type { StoredEvent } from '../../db/schema/events.ts'
import { isOfTeam, readTeam, readTeamAgents, type Team } from '../../db/teams.ts'
import { deleteRefs, newestRefs, type Ref } from './index-queries.ts'
import type { Once } from './insert-queries.ts'

/** Returns the ids of an earlier request with this key. Keys are deleted after a day, see retention. */
export async function findIdempotent(db: Db, { caller, kind, key }: Once): Promise<readonly string[] | undefined> {
  const row = await db
    .selectFrom('idempotency_keys')
    .select(['event_id', 'batch_ids'])
    .where('caller', '=', caller)
    .where('kind', '=', kind)
    .where('key', '=', key)
    .executeTakeFirst()
  if (!row) return undefined
  // Processes of an earlier version write the ids of a batch to the column of the first id.
  return kind === 'batch' ? JSON.parse(row.batch_ids ?? row.event_id) : [row.event_id]
}

/** Returns a range of seq that contains all rows created in [from, to); undefined if there are none. */
export async function seqRange(db: Db, from: number, to: number): Promise<{ first: number; last: number } | undefined> {
  const { first, last } = await db
    .selectFrom('event_minutes')
    .select((e) => [e.fn.min('first_seq').as('first'), e.fn.max('last_seq').as('last')])
    .where('minute', '>=', startOf(from, minuteMs))
    .where('minute', '<', to)
    .executeTakeFirstOrThrow()
  return first === null ? undefined : { first, last }
}

/** Reads the oldest event and the last assigned seq. */
export async function readOldest(
  db: Db,
): Promise<{ oldest: { seq: number; created_at: number } | undefined; newestSeq: number }> {
  const oldest = await db.selectFrom('events').select(['seq', 'created_at']).orderBy('seq').limit(1).executeTakeFirst()
  return { oldest, newestSeq: (await readCounters(db)).event_seq }
}

const filterColumns = ['severity', 'instance_id', 'session_id', 'event_type'] as const

export function matching(
  db: Db,
  filter: Omit<EventQuery, 'limit' | 'after' | 'before' | 'from' | 'to'>,
  team?: readonly string[],
) {
  let query = db.selectFrom('events').selectAll().where(isOfTeam('instance_id', team))
  for (const column of filterColumns) {
    const value = filter[column]
    if (column === 'severity' && value) {
      query = query.where('severity', '=', sql.lit(value) as never)
      // SQLite only uses the partial index on severity if its condition is repeated, https://sqlite.org/partialindex.html
      if (value !== 'info') query = query.where('severity', '<>', sql.lit('info') as never)
    } else if (value) query = query.where(column, '=', value as never)
  }
  if (filter.exclude_type) query = query.where('event_type', 'not in', filter.exclude_type.split(','))
  if (filter.q) {
    const pattern = `%${filter.q.replaceAll(/[\\%_]/g, (mark) => `\\${mark}`)}%`
    const like = (column: string) => sql<boolean>`lower(${sql.ref(column)}) like lower(${pattern}) escape '\\'`
    query = query.where((e) => e.or([like('description'), like('source'), like('event_type')]))
  }
  return query
}

interface EventPage {
  rows: StoredEvent[]
  /** All rows above this seq were read; undefined if all rows were. */
  lookedDownTo: number | undefined
}

interface Range {
  floor: number
  below: number
}

type Matching = ReturnType<typeof matching>

/** Rows read per page without an index: a search over a year of events must not block other readers. */
export const scanWindow = 100_000
/** Index entries whose rows are read per page. */
const refWindow = 5_000

/** Reads the newest matching rows of the range; without an index only from its upper part. */
async function scan(matches: Matching, { floor, below }: Range, limit: number, isIndexed: boolean): Promise<EventPage> {
  const from = isIndexed ? floor : Math.max(floor, below - scanWindow)
  const rows = await matches
    .where('seq', '<', below)
    .where('seq', '>=', from)
    .orderBy('seq', 'desc')
    .limit(limit)
    .execute()
  if (rows.length === limit) return { rows, lookedDownTo: rows.at(-1)!.seq }
  return { rows, lookedDownTo: from > floor ? from : undefined }
}

/** A team of more agents is found by comparing rows: of each agent, a whole window of index entries may be read. */
const maxIndexedAgents = 30

/**
 * Returns the entries of the index that find the fewest rows to read; undefined if rows must be compared without it. A
 * team's own entries come before those of a type, so that events of others do not count toward the limit of a page.
 */
export async function bestRefs(
  db: Db,
  { session_id, instance_id, event_type }: EventQuery,
  team: Team,
): Promise<readonly Ref[] | undefined> {
  // An agent of others is as unknown as one that does not exist.
  if (team && instance_id && !(await readTeam(db, team, [instance_id])).has(instance_id)) return []
  if (session_id) return [['session', session_id]]
  if (instance_id) return [['instance', instance_id]]
  if (team) {
    const agents = await readTeamAgents(db, team, maxIndexedAgents + 1)
    if (agents.length <= maxIndexedAgents) return agents.map((id) => ['instance', id])
  }
  const isBulk = event_type === eventTypes.toolCall || event_type === eventTypes.sessionMetrics
  return event_type && !isBulk ? [['type', event_type]] : undefined
}

async function lookUp(
  db: Db,
  matches: Matching,
  refs: readonly Ref[],
  range: Range,
  limit: number,
): Promise<EventPage> {
  const found = await newestRefs(db, refs, { ...range, limit: refWindow }).execute()
  const seqs = found.map(({ seq }) => seq)
  if (seqs.length === 0) return { rows: [], lookedDownTo: undefined }
  const rows = await matches.where('seq', 'in', seqs).orderBy('seq', 'desc').limit(limit).execute()
  if (rows.length === limit) return { rows, lookedDownTo: rows.at(-1)!.seq }
  return { rows, lookedDownTo: seqs.length === refWindow ? seqs.at(-1) : undefined }
}

/** Reads a page, newest first: rows above `after` and below `before`, created in [from, to). It may be short although more follow. */
export async function readEvents(
  db: Db,
  filter: EventQuery,
  bounds: { after: number; before: number; from: number; to: number; limit: number },
  team?: Team,
): Promise<EventPage> {
  const { from, to, limit } = bounds
  const timed = from > 0 || to < Number.MAX_SAFE_INTEGER
  const times = timed ? await seqRange(db, from, to) : { first: 1, last: Number.MAX_SAFE_INTEGER }
  if (!times) return { rows: [], lookedDownTo: undefined }
  const { event_seq: newest, indexed_seq: indexed } = await readCounters(db)
  const range = {
    floor: Math.max(times.first, bounds.after + 1),
    below: Math.min(bounds.before, times.last + 1, newest + 1),
  }
  let matches = matching(db, filter, team)
  if (timed) matches = matches.where('created_at', '>=', from).where('created_at', '<', to)
  const refs = await bestRefs(db, filter, team)
  if (!refs) {
    const isIndexed =
      !team &&
      filter.severity !== undefined &&
      filter.severity !== 'info' &&
      !filter.q &&
      !filter.event_type &&
      !filter.exclude_type
    return scan(matches, range, limit, isIndexed)
  }
  if (refs.length === 0) return { rows: [], lookedDownTo: undefined }
  // The newest rows are not indexed yet, so read them directly.
  const tail = { floor: Math.max(range.floor, indexed + 1), below: range.below }
  const fresh =
    tail.below > tail.floor ? await scan(matches, tail, limit, false) : { rows: [], lookedDownTo: undefined }
  if (fresh.lookedDownTo !== undefined) return fresh
  const below = Math.min(range.below, indexed + 1)
  const older = await lookUp(db, matches, refs, { floor: range.floor, below }, limit - fresh.rows.length)
  return { rows: [...fresh.rows, ...older.rows], lookedDownTo: older.lookedDownTo }
}

/** Deletes up to `limit` rows created before `cutoff`, oldest first; resolves with their number, undefined if none is left. */
export async function deleteEventsBefore(db: Db, cutoff: number, limit: number): Promise<number | undefined> {
  const range = await seqRange(db, 0, cutoff)
  if (!range) return undefined
  // A wrong clock may have dated an earlier row into the future.
  const oldest = await db
    .selectFrom('events')
    .select((e) => e.fn.min('seq').as('seq'))
    .where('seq', '<=', range.last)
    .where('created_at', '<', cutoff)
    .executeTakeFirstOrThrow()
  if (oldest.seq === null) return undefined
  const first = oldest.seq
  const end = Math.min(first + limit, (await readCounters(db)).indexed_seq + 1)
  await deleteRefs(db, first, end, cutoff)
  const { numDeletedRows } = await db
    .deleteFrom('events')
    .where('seq', '>=', first)
    .where('seq', '<', end)
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

/** Returns the time of the first event from a seq on. */
export async function readTimeOf(db: Db, seq: number): Promise<number | undefined> {
  const row = await db
    .selectFrom('events')
    .select('created_at')
    .where('seq', '>=', seq)
    .orderBy('seq')
    .limit(1)
    .executeTakeFirst()
  return row?.created_at
}

/** Returns the time of the oldest event. */
export async function readOldestTime(db: Db): Promise<number | undefined> {
  const oldest = await db.selectFrom('events').select('created_at').orderBy('seq').limit(1).executeTakeFirst()
  return oldest?.created_at
}
