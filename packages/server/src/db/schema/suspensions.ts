/** Observed facts of a suspension, each written once; null = not observed. The state is computed on read. */
interface SuspensionsTable {
  instance_id: string
  /** Control version of the suspension. */
  version: number
  reason: string
  /** Id of the requesting key, or a name in `localNames`; null = requested before actors were recorded. */
  actor: string | null
  /** Cause of an automatic suspension. */
  rule_id: string | null
  event_id: string | null
  containment_id: string | null
  /** The containment for which it holds its key: new instances of that begin suspended. Besides `containment_id`. */
  key_containment_id: string | null
  /** The parent, if its suspension caused this one, which ends with it. */
  through_id: string | null
  requested_at: number
  stored_at: number | null
  published_at: number | null
  published_by: string | null
  delivered_at: number | null
  delivered_by: 'stream' | 'poll' | 'answer' | null
  delivered_process: string | null
  acknowledged_at: number | null
  acknowledged_by: 'ack' | 'heartbeat' | null
  /** Whether the agent ever reported a control version. */
  can_acknowledge: 0 | 1
  /** When something outside the agent held it, and what: its processes, or its calls of models. */
  enforced_at: number | null
  enforced_by: 'supervisor' | 'gateway' | null
  /** Processes that its supervisor held, and those that it could not hold; null = no report. */
  held_processes: number | null
  left_processes: number | null
  /** Time at which the log proved enough silence after the acknowledgement. */
  silent_at: number | null
  /** Time at which the log showed enough silence after the delivery, without an acknowledgement. */
  quiet_at: number | null
  resumed_at: number | null
  /** When the suspension ends by itself; null = a person has to resume the instance. */
  ends_at: number | null
  /** Activity while suspended. */
  first_breach_at: number | null
  last_breach_at: number | null
  breaches: number
  breach_reported_at: number | null
  /** Number of breaches that were reported. */
  breaches_reported: number
  /** Last known event of the agent, including the grace period after the delivery. */
  last_activity_at: number | null
  /** Seq up to which the log was checked for this suspension; null = not checked yet. */
  checked_seq: number | null
  /** Result of the last alert. */
  result_reported: 'unconfirmed' | 'confirmed' | null
  /** Time of the next decision; null = waiting for another fact. */
  look_at: number | null
}

export interface SuspensionTables {
  suspensions: SuspensionsTable
}
