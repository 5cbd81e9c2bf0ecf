import { type CompiledQuery, sql } from 'kysely'
import { hourMs, minuteMs, startOf } from '../../clock.ts'
import { counterValue, raiseCounter } from '../../db/counters.ts'
import type { Database, Db, Dialect, Statement } from '../../db/database.ts'
import type { EventClass, StoredEvent } from '../../db/schema/events.ts'
import { storedColumns, storedValues } from './event-row.ts'
import type { SessionMetrics } from './session-metrics.ts'

type Severity = StoredEvent['severity']
/** Options of the alert of an event. */
interface EventAlerting {
  /** No alert, for example for matches of a rule in mode observe. */
  isQuiet?: boolean
  /** Alerts about different subjects are different problems. */
  subject?: string
  /** Names of the only channels to notify. */
  channels?: readonly string[]
}

/** An event before it is stored: its `seq` is 0. */
export interface EventToStore extends StoredEvent {
  /** Parsed description of a session_metrics event; undefined for other events. */
  metrics: SessionMetrics | undefined
  /** Telemetry of a call that a client of the agent reported before: it is not counted again. */
  isSecond: boolean
  alerting?: EventAlerting
}

/** The caller's Idempotency-Key. If an earlier request had the same key, nothing is written. */
export interface Once {
  caller: string
  /** An event and a batch may carry the same key. */
  kind: 'event' | 'batch'
  key: string
  /** Ids in the response. */
  ids: readonly string[]
}

/** Queries, compiled once; only the parameters differ between batches. */
interface InsertStatements {
  takeSeqs: CompiledQuery
  events: ReturnType<Dialect['insertSequenced']>
  counts: ReturnType<Dialect['addCounts']>
  minutes: CompiledQuery
  tools: ReturnType<Dialect['addCounts']>
  idempotency: CompiledQuery
}

const lastSeq = counterValue('event_seq')

export function compileInserts({ db, dialect }: Database): InsertStatements {
  const compile = (query: { compile(db: Db): CompiledQuery }) => query.compile(db)
  const rows = (columns: Parameters<Dialect['rowsFromJson']>[1]) => dialect.rowsFromJson('', columns)
  return {
    takeSeqs: compile(sql`${raiseCounter('event_seq', 0)} returning value`),
    events: dialect.insertSequenced('events', storedColumns, 'event_seq'),
    counts: dialect.addCounts('event_counts', { unit: 'text', severity: 'text', class: 'text', bucket: 'bigint' }),
    minutes: compile(sql`insert into event_minutes (minute, first_seq, last_seq)
      select ${0}, ${lastSeq} - ${0} + 1, ${lastSeq} where true
      on conflict (minute) do update set last_seq = excluded.last_seq`),
    tools: dialect.addCounts('tool_counts', { tool: 'text', minute: 'bigint' }),
    idempotency: compile(sql`insert into idempotency_keys (caller, kind, key, event_id, batch_ids, created_at)
      select caller, kind, key, event_id, batch_ids, ${0}
      from ${rows({ caller: 'text', kind: 'text', key: 'text', event_id: 'text', batch_ids: 'text' })} as batch`),
  }
}

function countRows(
  events: readonly EventToStore[],
  createdAt: number,
): [string, Severity, EventClass, number, number][] {
  const counts = new Map<Severity, Map<EventClass, number>>()
  for (const { severity, class: kind, isSecond } of events) {
    if (isSecond) continue
    const ofSeverity = counts.get(severity) ?? new Map<EventClass, number>()
    if (ofSeverity.size === 0) counts.set(severity, ofSeverity)
    ofSeverity.set(kind, (ofSeverity.get(kind) ?? 0) + 1)
  }
  const rows: [string, Severity, EventClass, number, number][] = []
  for (const [severity, ofSeverity] of counts) {
    for (const [kind, count] of ofSeverity) {
      rows.push(['minute', severity, kind, startOf(createdAt, minuteMs), count])
      rows.push(['hour', severity, kind, startOf(createdAt, hourMs), count])
    }
  }
  return rows
}

function toolRows(events: readonly EventToStore[], minute: number): [string, number, number][] {
  const counts = new Map<string, number>()
  for (const { tool } of events) if (tool !== null) counts.set(tool, (counts.get(tool) ?? 0) + 1)
  return [...counts].map(([tool, count]) => [tool, minute, count])
}

/** Returns the statements that store and count events. The first one returns the last seq taken. */
export function eventInserts(
  inserts: InsertStatements,
  events: readonly EventToStore[],
  idempotency: readonly Once[],
  createdAt: number,
): Statement[] {
  const minute = startOf(createdAt, minuteMs)
  const rows = events.map((event) => storedValues(event, createdAt))
  const toolCounts = toolRows(events, minute)
  const statements: Statement[] = [
    { ...inserts.takeSeqs, parameters: [events.length] },
    inserts.events(rows),
    inserts.counts(countRows(events, createdAt)),
    { ...inserts.minutes, parameters: [minute, events.length] },
  ]
  if (toolCounts.length > 0) statements.push(inserts.tools(toolCounts))
  if (idempotency.length > 0) {
    const keys = idempotency.map(({ caller, kind, key, ids }) => {
      return [caller, kind, key, ids[0], kind === 'batch' ? JSON.stringify(ids) : null]
    })
    statements.push({ ...inserts.idempotency, parameters: [createdAt, JSON.stringify(keys)] })
  }
  return statements
}
