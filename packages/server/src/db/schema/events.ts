import type { Severity } from '@wardline/contract'

interface EventsTable {
  /** Gap-free, in commit order. */
  seq: number
  created_at: number
  severity: Severity
  class: EventClass
  /** Tool under which a tool_call is counted: a known tool, or "other". */
  tool: string | null
  source: string
  event_type: string
  instance_id: string | null
  session_id: string | null
  ip_address: string | null
  /** Address that the service saw, where the report named another one: '' if the client was gone; null: ip_address. */
  observed_ip_address: string | null
  id: string
  description: string
  metadata: string | null
  /** Whether the service reported the event. The type does not tell, because any key can report any type. */
  by_service: 0 | 1
}

/** Classification of an event in addition to its severity; see features/events/classify.ts. */
export type EventClass = 'none' | 'injection' | 'blocked'

/** Index of events by instance, session and type, complete up to the counter indexed_seq. */
interface EventRefsTable {
  kind: 'instance' | 'session' | 'type'
  value: string
  seq: number
}

/** Range of seq per minute. Converts times to seq without an index on time. */
interface EventMinutesTable {
  minute: number
  first_seq: number
  last_seq: number
}

/** Counts per minute, and per hour so that a day is summed from a few rows. `bucket` is its first millisecond. */
interface EventCountsTable {
  unit: 'minute' | 'hour'
  severity: EventsTable['severity']
  class: EventClass
  bucket: number
  count: number
}

interface ToolCountsTable {
  /** A known tool, or "other". */
  tool: string
  minute: number
  count: number
}

/** Critical events and breaches of the last day, counted by type and instance, for what needs attention. */
interface ProblemCountsTable {
  by_service: 0 | 1
  severity: 'critical' | 'breach'
  /** First millisecond of the hour. */
  hour: number
  event_type: string
  /** Empty for events without an instance. */
  instance_id: string
  count: number
  first_at: number
  last_at: number
  last_seq: number
}

interface IdempotencyKeysTable {
  caller: string
  kind: 'event' | 'batch'
  key: string
  /** Event id in the response; for a batch the first id. */
  event_id: string
  /** JSON array of the ids in the response, for a batch. */
  batch_ids: string | null
  created_at: number
}

export interface EventTables {
  events: EventsTable
  event_refs: EventRefsTable
  event_minutes: EventMinutesTable
  event_counts: EventCountsTable
  tool_counts: ToolCountsTable
  problem_counts: ProblemCountsTable
  idempotency_keys: IdempotencyKeysTable
}

export type StoredEvent = EventsTable

/** Fields of a stored event that readers see. */
export type EventFields = Omit<StoredEvent, 'class' | 'tool'>
