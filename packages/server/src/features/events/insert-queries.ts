import { CompiledQuery, sql } from 'kysely'
import type { Database, Db, Dialect, Statement } from '../../db/database.ts'
import type { EventClass, StoredEvent } from '../../db/schema.ts'
import { hourMs, minuteMs, startOf } from './buckets.ts'

type Severity = StoredEvent['severity']
/** An event before it has its place in the sequence. `by_service`: reported by the service itself, not by a caller. */
export type EventToStore = Omit<StoredEvent, 'seq'> & { by_service?: true }

export interface IdempotencyRow {
  caller: string
  key: string
  answer: string
}

/** Compiled once; only the parameters change from batch to batch. */
export interface InsertStatements {
  takeSeqs: string
  events: ReturnType<Dialect['insertSequenced']>
  counts: string
  minutes: string
  tools: string
  idempotency: string
}

const eventColumns = {
  created_at: 'bigint',
  severity: 'text',
  class: 'text',
  tool: 'text',
  source: 'text',
  event_type: 'text',
  instance_id: 'text',
  session_id: 'text',
  ip_address: 'text',
  id: 'text',
  description: 'text',
  metadata: 'text',
} as const satisfies Record<Exclude<keyof StoredEvent, 'seq'>, string>
const columnNames = Object.keys(eventColumns) as (keyof typeof eventColumns)[]

const lastSeq = sql`(select value from counters where name = 'event_seq')`

export function compileInserts({ db, dialect }: Database): InsertStatements {
  const text = (query: { compile(db: Db): CompiledQuery }) => query.compile(db).sql
  const rows = (columns: Parameters<Dialect['rowsFromJson']>[1]) => dialect.rowsFromJson('', columns)
  return {
    takeSeqs: text(sql`update counters set value = value + ${0} where name = 'event_seq' returning value`),
    events: dialect.insertSequenced('events', eventColumns, 'event_seq'),
    counts: text(sql`insert into event_counts (unit, severity, class, bucket, count)
      select unit, severity, class, bucket, count from ${rows({
        unit: 'text',
        severity: 'text',
        class: 'text',
        bucket: 'bigint',
        count: 'bigint',
      })} as batch where true
      on conflict (unit, severity, class, bucket) do update set count = event_counts.count + excluded.count`),
    minutes: text(sql`insert into event_minutes (minute, first_seq, last_seq)
      select ${0}, ${lastSeq} - ${0} + 1, ${lastSeq} where true
      on conflict (minute) do update set last_seq = excluded.last_seq`),
    tools: text(sql`insert into tool_counts (tool, minute, count)
      select tool, minute, count from ${rows({ tool: 'text', minute: 'bigint', count: 'bigint' })} as batch where true
      on conflict (tool, minute) do update set count = tool_counts.count + excluded.count`),
    idempotency: text(sql`insert into idempotency_keys (caller, key, event_id, created_at)
      select caller, key, event_id, ${0} from ${rows({ caller: 'text', key: 'text', event_id: 'text' })} as batch`),
  }
}

function countRows(
  events: readonly EventToStore[],
  createdAt: number,
): [string, Severity, EventClass, number, number][] {
  const counts = new Map<string, number>()
  for (const { severity, class: kind } of events) {
    const label = `${severity} ${kind}`
    counts.set(label, (counts.get(label) ?? 0) + 1)
  }
  return [...counts].flatMap(([label, count]) => {
    const [severity, kind] = label.split(' ') as [Severity, EventClass]
    const row = (unit: string, length: number) =>
      [unit, severity, kind, startOf(createdAt, length), count] as [string, Severity, EventClass, number, number]
    return [row('minute', minuteMs), row('hour', hourMs)]
  })
}

function toolRows(events: readonly EventToStore[], minute: number): [string, number, number][] {
  const counts = new Map<string, number>()
  for (const { tool } of events) if (tool !== null) counts.set(tool, (counts.get(tool) ?? 0) + 1)
  return [...counts].map(([tool, count]) => [tool, minute, count])
}

/** The statements that store events with everything that counts them. The first one returns the last seq taken. */
export function insertStatements(
  inserts: InsertStatements,
  events: readonly EventToStore[],
  idempotency: readonly IdempotencyRow[],
  createdAt: number,
): Statement[] {
  const minute = startOf(createdAt, minuteMs)
  const rows = events.map((event) => columnNames.map((column) => (column === 'created_at' ? createdAt : event[column])))
  const toolCounts = toolRows(events, minute)
  const statements: Statement[] = [
    CompiledQuery.raw(inserts.takeSeqs, [events.length]),
    inserts.events(rows),
    CompiledQuery.raw(inserts.counts, [JSON.stringify(countRows(events, createdAt))]),
    CompiledQuery.raw(inserts.minutes, [minute, events.length]),
  ]
  if (toolCounts.length > 0) statements.push(CompiledQuery.raw(inserts.tools, [JSON.stringify(toolCounts)]))
  if (idempotency.length > 0) {
    const keys = idempotency.map(({ caller, key, answer }) => [caller, key, answer])
    statements.push(CompiledQuery.raw(inserts.idempotency, [createdAt, JSON.stringify(keys)]))
  }
  return statements
}
