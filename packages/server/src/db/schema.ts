import type { Severity } from '@wardline/contract'
import type { AlertTables } from './schema-alerts.ts'

// Times are epoch milliseconds, flags 0 or 1, JSON is text: the same on every engine.

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
}

/** What an event counts as besides its severity; see features/events/classify.ts. */
export type EventClass = 'none' | 'injection' | 'blocked'

interface CountersTable {
  /**
   * event_seq, alert_seq: the last seq given; indexed_seq: up to where event_refs is complete; alert_config: grows with
   * every change of channels, routes and silences.
   */
  name: 'event_seq' | 'indexed_seq' | 'alert_seq' | 'alert_config'
  value: number
}

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
  key: string
  /** The id that was answered; of a batch all of them, separated by spaces. */
  event_id: string
  created_at: number
}

interface InstancesTable {
  id: string
  name: string
  agent_type: string | null
  version: string | null
  fail_mode: 'open' | 'closed' | null
  boot_id: string | null
  first_seen_at: number
  last_heartbeat_at: number
  /** Last verdict of the scout; the status that people see is derived at read. */
  liveness: 'online' | 'offline'
  suspended: 0 | 1
  suspension_reason: string | null
  /** Grows by one with every kill and resume. */
  control_version: number
  control_changed_at: number | null
  /** Control version that the agent says it applied, and when it first said so. */
  applied_version: number | null
  applied_at: number | null
  /** Suspension (control version) for which activity was already reported. */
  activity_reported_version: number | null
  /** Suspension (control version) whose result was alerted of, and the result. */
  kill_result_version: number | null
  kill_result: 'unconfirmed' | 'confirmed' | null
}

interface AuditLogTable {
  seq: number
  at: number
  actor: string
  scope: string | null
  ip: string | null
  action: string
  target: string | null
  before: string | null
  after: string | null
  reason: string | null
  request_id: string | null
  prev_hash: string
  hash: string
}

/** One row: the end of the chain. Updating it first makes appenders wait for each other. */
interface AuditHeadTable {
  id: 1
  seq: number
  hash: string
}

interface HoneypotsTable {
  id: string
  instance_id: string
  type: 'api_key' | 'file_path'
  key_type: string | null
  path: string | null
  /** The path covers more than itself: such decoys are compared one by one. */
  is_pattern: 0 | 1
  label: string | null
  created_at: number
  deleted_at: number | null
}

/** What a decoy is found by: HMACs of the forms of its key or path. The value of a key is stored nowhere. */
interface HoneypotFingerprintsTable {
  digest: string
  honeypot_id: string
}

interface HoneypotHitsTable {
  id: string
  honeypot_id: string
  at: number
  reporter: string | null
  key_id: string
  tool: string | null
  ip_address: string | null
  event_id: string
}

interface ApiKeysTable {
  id: string
  scope: 'agent' | 'viewer' | 'operator' | 'admin'
  name: string
  /** JSON array of instance ids and prefixes ending in *. */
  instances: string
  secret_hash: string
  created_at: number
  expires_at: number | null
  revoked_at: number | null
  last_used_at: number | null
}

interface SessionsTable {
  token_hash: string
  key_id: string
  created_at: number
  expires_at: number
  last_used_at: number
}

interface MetricBaselinesTable {
  instance_id: string
  metric: string
  samples: number
  mean: number
  /** Sum of squared differences from the mean (Welford). */
  m2: number
}

interface AttestationsTable {
  namespace: string
  /** ISO week; with the tag it keeps two processes from writing two. */
  period: string
  type: string
  title: string
  summary: string
  tag: string
  score: number
  at: number
  hash: string
}

interface JobRunsTable {
  name: string
  last_run_at: number
}

interface FactsTable {
  /** secret_check: proves the master secret; copying_from: an unfinished copy of another database, see db/copy.ts. */
  name: 'secret_check' | 'copying_from'
  value: string
}

interface SchemaVersionTable {
  version: number
  name: string
  applied_at: number
}

/** Every table. */
export interface Schema extends AlertTables {
  events: EventsTable
  counters: CountersTable
  event_refs: EventRefsTable
  event_minutes: EventMinutesTable
  event_counts: EventCountsTable
  tool_counts: ToolCountsTable
  idempotency_keys: IdempotencyKeysTable
  instances: InstancesTable
  audit_log: AuditLogTable
  audit_head: AuditHeadTable
  honeypots: HoneypotsTable
  honeypot_fingerprints: HoneypotFingerprintsTable
  honeypot_hits: HoneypotHitsTable
  api_keys: ApiKeysTable
  sessions: SessionsTable
  metric_baselines: MetricBaselinesTable
  attestations: AttestationsTable
  job_runs: JobRunsTable
  facts: FactsTable
  schema_version: SchemaVersionTable
}

export type StoredEvent = EventsTable
