import { type EventRow, eventTypes, stopReportTypes, toolFields } from '@wardline/contract'
import { sql } from 'kysely'
import { readCounters } from '../../db/counters.ts'
import type { Database, Db } from '../../db/database.ts'
import type { StoredEvent } from '../../db/schema/events.ts'
import { isOfTeam, type Team } from '../../db/teams.ts'
import { eventRow } from './event-row.ts'
import { readRefs } from './index-queries.ts'
import { readOldest, seqRange } from './queries.ts'

/** Reads at most `limit` events after a seq, in the order of seq. */
export function readEventsAfter(db: Db, seq: number, limit: number): Promise<StoredEvent[]> {
  return db.selectFrom('events').selectAll().where('seq', '>', seq).orderBy('seq').limit(limit).execute()
}

/** Reads at most `limit` events after `after` and up to `upTo`, in the order of seq. */
export function readEventsBetween(
  db: Db,
  { after, upTo, limit }: { after: number; upTo: number; limit: number },
): Promise<StoredEvent[]> {
  return db
    .selectFrom('events')
    .selectAll()
    .where('seq', '>', after)
    .where('seq', '<=', upTo)
    .orderBy('seq')
    .limit(limit)
    .execute()
}

/** Returns a range of seq that contains all events created in [from, to); undefined if there are none. */
export const readSeqRange = seqRange
export { readOldest }

/** Returns the ids of events that are still stored, by seq. */
export async function readEventIds(db: Db, seqs: readonly number[]): Promise<Map<number, string>> {
  if (seqs.length === 0) return new Map()
  const rows = await db.selectFrom('events').select(['seq', 'id']).where('seq', 'in', seqs).execute()
  return new Map(rows.map(({ seq, id }) => [seq, id]))
}

/** Reads events by seq, as readers see them. The times limit the search to partitions of days. */
export async function readEventsOf(
  db: Db,
  events: readonly { event_seq: number | null; created_at: number }[],
): Promise<Map<number, EventRow>> {
  const stored = events.filter(({ event_seq }) => event_seq !== null)
  if (stored.length === 0) return new Map()
  const times = stored.map(({ created_at }) => created_at)
  const seqs = stored.map(({ event_seq }) => event_seq!)
  const rows = await db
    .selectFrom('events')
    .selectAll()
    .where('seq', 'in', seqs)
    .where('created_at', '>=', Math.min(...times))
    .where('created_at', '<=', Math.max(...times))
    .execute()
  return new Map(rows.map((row) => [row.seq, eventRow(row)]))
}

/** An event is stored up to two seconds after it got its id, and the clock may be corrected in between. */
const storedWithinMs = 10_000
/** Rows that a search by id reads: two minutes of 2,500 events a second, in some hundred milliseconds. */
const idWindow = 300_000

/**
 * Reads the events whose id begins with `prefix`, newest first. Ids begin with their time, of which the prefix must have at
 * least 8 digits, so that some two minutes of the log are read at most.
 */
export async function readEventsByIdPrefix(db: Db, prefix: string, limit: number, team?: Team) {
  const digits = prefix.replaceAll('-', '').slice(0, 12)
  const from = Number.parseInt(digits.padEnd(12, '0'), 16) - storedWithinMs
  const to = Number.parseInt(digits.padEnd(12, 'f'), 16) + storedWithinMs
  const range = await seqRange(db, from, to)
  if (!range) return []
  return db
    .selectFrom('events')
    .select(['id', 'seq', 'created_at', 'severity', 'event_type', 'by_service', 'instance_id', 'source'])
    .where('seq', '>=', range.first)
    .where('seq', '<=', Math.min(range.last, range.first + idWindow))
    .where('created_at', '>=', from)
    .where('created_at', '<', to)
    .where('id', '>=', prefix)
    .where('id', '<', `${prefix}~`)
    .where(isOfTeam('instance_id', team))
    .orderBy('seq', 'desc')
    .limit(limit)
    .execute()
}

const hasField = (metadata: Record<string, unknown>, name: string) =>
  metadata[name] !== undefined && metadata[name] !== null

/**
 * Whether an event shows activity of the agent: not reports by the service, and not its reports about being stopped. A
 * report that names a tool is activity, whatever its type claims.
 */
export function isActivity({
  by_service,
  event_type,
  metadata,
}: Pick<StoredEvent, 'by_service' | 'event_type' | 'metadata'>): boolean {
  if (by_service === 1) return event_type === eventTypes.honeypotTriggered
  if (!stopReportTypes.includes(event_type)) return true
  const given = metadata === null ? {} : JSON.parse(metadata)
  return toolFields.some((name) => hasField(given, name))
}

/** `isActivity` in SQL. Metadata is only parsed where the type alone does not decide. */
const activitySql = (dialect: Database['dialect']) => {
  const metadata = sql.ref('events.metadata')
  const named = toolFields.map((name) => sql`${dialect.jsonField(metadata, name)} is not null`)
  return sql`(case when events.by_service = 1 then events.event_type = ${eventTypes.honeypotTriggered}
    when events.event_type not in (${sql.join(stopReportTypes)}) then true
    when events.metadata is null then false else ${sql.join(named, sql` or `)} end)`
}

/** An agent whose activity is searched. */
interface ActiveSubject {
  id: string
  /** Only events with a higher seq; null: from `since` on. */
  afterSeq: number | null
  since: number
  /** Only events before this time; null: unlimited. */
  until: number | null
  /** Events after this time are breaches. */
  breachAfter: number
}

interface FoundActivity {
  breaches: number
  firstBreachAt: number | null
  lastBreachAt: number | null
  lastAt: number | null
}

/**
 * Reads the activity of agents, by their index among the subjects (an agent may occur twice, for two suspensions), and the
 * seq up to which events were read. All events up to there are committed, because seqs are assigned in commit order.
 */
export async function readActivity(
  { db, dialect }: Pick<Database, 'db' | 'dialect'>,
  subjects: readonly ActiveSubject[],
): Promise<{ upTo: number; found: Map<number, FoundActivity> }> {
  const { event_seq: upTo, indexed_seq: indexed } = await readCounters(db)
  const times = subjects.filter(({ afterSeq }) => afterSeq === null).map(({ since }) => since)
  const range = times.length === 0 ? undefined : await seqRange(db, Math.min(...times), Number.MAX_SAFE_INTEGER)
  const endless = Number.MAX_SAFE_INTEGER
  const rows = subjects.map(({ id, afterSeq, since, until, breachAfter }, place) => {
    const floor = afterSeq ?? (range ? range.first - 1 : upTo)
    return [place, id, floor, since, until ?? endless, breachAfter] as const
  })
  const pending = rows.filter(([, , floor]) => floor < upTo)
  const found = new Map<number, FoundActivity>()
  if (pending.length === 0) return { upTo, found }
  const batch = dialect.rowsFromJson(JSON.stringify(pending), {
    place: 'bigint',
    id: 'text',
    floor: 'bigint',
    since: 'bigint',
    until: 'bigint',
    breach_after: 'bigint',
  })
  const lowest = Math.min(...pending.map(([, , floor]) => floor))
  const oldest = Math.min(...pending.map(([, , , since]) => since))
  const figures = sql`agents.place, max(events.created_at) as last_at,
    count(case when events.created_at > agents.breach_after then 1 end) as breaches,
    min(case when events.created_at > agents.breach_after then events.created_at end) as first_breach_at,
    max(case when events.created_at > agents.breach_after then events.created_at end) as last_breach_at`
  const counts = sql`events.seq > agents.floor and events.created_at > agents.since and events.created_at < agents.until
    and events.created_at > ${oldest} and ${activitySql(dialect)}`
  type Figures = { place: number; last_at: number; breaches: number; first_breach_at: number; last_breach_at: number }
  const parts = [
    // A cross join, because SQLite would otherwise read the references of all agents, and for each of them the JSON.
    sql<Figures>`select ${figures} from ${batch} as agents cross join event_refs
      join events on events.seq = event_refs.seq
      where event_refs.kind = 'instance' and event_refs.value = agents.id
        and event_refs.seq > agents.floor and event_refs.seq <= ${indexed} and ${counts} group by agents.place`,
    // The newest events are not indexed yet. Materialized, because SQLite would parse the JSON again for each of them.
    sql<Figures>`with agents as materialized (select * from ${batch} as subjects),
      own as materialized (select seq, instance_id, created_at, event_type, by_service, metadata from events
        where seq > ${Math.max(indexed, lowest)} and seq <= ${upTo} and created_at > ${oldest}
          and instance_id in (select id from agents))
      select ${figures} from own as events join agents on agents.id = events.instance_id
      where ${counts} group by agents.place`,
  ]
  for (const part of parts) {
    const { rows: shown } = await part.execute(db)
    for (const { place, last_at, breaches, first_breach_at, last_breach_at } of shown) {
      const before = found.get(place)
      found.set(place, {
        breaches: Number(breaches) + (before?.breaches ?? 0),
        firstBreachAt: before?.firstBreachAt ?? first_breach_at,
        lastBreachAt: last_breach_at ?? before?.lastBreachAt ?? null,
        lastAt: Math.max(last_at, before?.lastAt ?? 0),
      })
    }
  }
  return { upTo, found }
}

/** Returns the sources of the instance's latest events. */
export async function readSources(db: Db, instanceId: string, limit: number): Promise<string[]> {
  const bounds = { floor: 0, below: Number.MAX_SAFE_INTEGER, limit }
  const seqs = await readRefs(db, 'instance', instanceId, bounds)
  if (seqs.length === 0) return []
  const rows = await db
    .selectFrom('events')
    .select('source')
    .distinct()
    .where('seq', 'in', seqs)
    .where('by_service', '=', 0)
    .execute()
  return rows.map(({ source }) => source)
}

interface InstanceRange {
  instanceId: string
  /** Events after this seq, up to another. */
  after: number
  upTo: number
  from: number
  to: number
}

/** Reads at most `limit` events of an instance in the order of seq; fewer only at the end of the range. */
export async function readInstanceEvents(db: Db, range: InstanceRange, limit: number): Promise<StoredEvent[]> {
  const { instanceId, after, upTo, from, to } = range
  const { indexed_seq: indexed } = await readCounters(db)
  const rows =
    after < indexed
      ? await db
          .selectFrom('event_refs')
          .innerJoin('events', 'events.seq', 'event_refs.seq')
          .selectAll('events')
          .where('event_refs.kind', '=', 'instance')
          .where('event_refs.value', '=', instanceId)
          .where('event_refs.seq', '>', after)
          .where('event_refs.seq', '<=', Math.min(upTo, indexed))
          .where('events.created_at', '>=', from)
          .where('events.created_at', '<', to)
          .orderBy('event_refs.seq')
          .limit(limit)
          .execute()
      : []
  if (rows.length === limit || upTo <= indexed) return rows
  // The newest events are not indexed yet.
  const fresh = await db
    .selectFrom('events')
    .selectAll()
    .where('seq', '>', Math.max(after, indexed))
    .where('seq', '<=', upTo)
    .where('instance_id', '=', instanceId)
    .where('created_at', '>=', from)
    .where('created_at', '<', to)
    .orderBy('seq')
    .limit(limit - rows.length)
    .execute()
  return [...rows, ...fresh]
}

/** Reads the newest `limit` events of an instance since an instant, the newest first. */
export async function readLatestEvents(
  db: Db,
  instanceId: string,
  { since, limit }: { since: number; limit: number },
): Promise<StoredEvent[]> {
  const range = await seqRange(db, since, Number.MAX_SAFE_INTEGER)
  if (!range) return []
  const { indexed_seq: indexed } = await readCounters(db)
  const fresh = await db
    .selectFrom('events')
    .selectAll()
    .where('seq', '>', Math.max(range.first - 1, indexed))
    .where('instance_id', '=', instanceId)
    .orderBy('seq', 'desc')
    .limit(limit)
    .execute()
  const bounds = { floor: range.first, below: indexed + 1, limit: limit - fresh.length }
  const seqs = await readRefs(db, 'instance', instanceId, bounds)
  if (seqs.length === 0) return fresh
  const indexedRows = await db
    .selectFrom('events')
    .selectAll()
    .where('seq', 'in', seqs)
    .orderBy('seq', 'desc')
    .execute()
  return [...fresh, ...indexedRows]
}

/** Counts the events of an instance in a range of seq, up to `max`. */
export async function countInstanceEvents(
  db: Db,
  { instanceId, after, upTo }: Pick<InstanceRange, 'instanceId' | 'after' | 'upTo'>,
  max: number,
): Promise<number> {
  const { indexed_seq: indexed } = await readCounters(db)
  const parts = [
    db
      .selectFrom('event_refs')
      .select('seq')
      .where('kind', '=', 'instance')
      .where('value', '=', instanceId)
      .where('seq', '>', after)
      .where('seq', '<=', Math.min(upTo, indexed))
      .limit(max),
    db
      .selectFrom('events')
      .select('seq')
      .where('instance_id', '=', instanceId)
      .where('seq', '>', Math.max(after, indexed))
      .where('seq', '<=', upTo)
      .limit(max),
  ]
  const counts = await Promise.all(
    parts.map((part) =>
      db
        .selectFrom(part.as('found'))
        .select((e) => e.fn.countAll<number>().as('count'))
        .executeTakeFirstOrThrow(),
    ),
  )
  return Math.min(
    max,
    counts.reduce((total, { count }) => total + Number(count), 0),
  )
}

/** What an agent's calls of models used. */
interface ModelUse {
  instance_id: string
  tokens: number
  /** Of the calls whose price is known; null if there is none. */
  usd: number | null
}

/** Sums the calls of models that were stored in [from, to), by agent. */
export async function readModelUse(
  { dialect }: Pick<Database, 'dialect'>,
  db: Db,
  { from, to }: { from: number; to: number },
): Promise<ModelUse[]> {
  const range = await seqRange(db, from, to)
  if (!range) return []
  const field = (name: string) => sql`cast(${dialect.jsonField(sql.ref('metadata'), name)} as double precision)`
  return db
    .selectFrom('events')
    .select([
      sql<string>`instance_id`.as('instance_id'),
      sql<number>`sum(coalesce(${field('input_tokens')}, 0) + coalesce(${field('output_tokens')}, 0))`.as('tokens'),
      sql<number | null>`sum(${field('cost_usd')})`.as('usd'),
    ])
    .where('seq', '>=', range.first)
    .where('seq', '<=', range.last)
    .where('created_at', '>=', from)
    .where('created_at', '<', to)
    .where('event_type', '=', eventTypes.modelCall)
    .where('by_service', '=', 1)
    .where('instance_id', 'is not', null)
    .groupBy('instance_id')
    .orderBy('instance_id')
    .execute()
}
