import type { Severity } from '@wardline/contract'

interface EventsTable {
  /** Gap-free, in the order of commit. */
  seq: number
  created_at: number
  severity: Severity
  class: EventClass
  /** What a tool_call counts for: a known tool, or "other". */
  tool: string | null
  source: string
  event_type: string
  instance_id: string | null
  session_id: string | null
  ip_address: string | null
  id: string
  description: string
  metadata: string | null
  /** The service itself reports it: a caller with a key may report an event of any type. */
  by_service: 0 | 1
}

/** What an event counts as besides its severity; see features/events/classify.ts. */
export type EventClass = 'none' | 'injection' | 'blocked'

/** Where to find the events of an instance, a session or a type; complete up to the counter indexed_seq. */
interface EventRefsTable {
  kind: 'instance' | 'session' | 'type'
  value: string
  seq: number
}

/** Which rows a minute holds: turns an instant into a range of seq without an index on time. */
interface EventMinutesTable {
  minute: number
  first_seq: number
  last_seq: number
}

/** Rollups by minute, and by hour so that a day is summed from a few rows. `bucket` is its first millisecond. */
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

interface IdempotencyKeysTable {
  caller: string
  kind: 'event' | 'batch'
  key: string
  /** The id in the answer; for a batch the first of them. */
  event_id: string
  /** For a batch a JSON array of the ids in the answer. */
  batch_ids: string | null
  created_at: number
}

export interface EventTables {
  events: EventsTable
  event_refs: EventRefsTable
  event_minutes: EventMinutesTable
  event_counts: EventCountsTable
  tool_counts: ToolCountsTable
  idempotency_keys: IdempotencyKeysTable
}

export type StoredEvent = EventsTable

/** What readers see of a stored event. */
export type EventFields = Omit<StoredEvent, 'class' | 'tool'>
