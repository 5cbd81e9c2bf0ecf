/** What was observed of a suspension. A fact is written once; null = not observed. Its state is computed when it is read. */
interface SuspensionsTable {
  instance_id: string
  /** The control version that suspended. */
  version: number
  reason: string
  /** Id of the key that asked for it, or a name of `localNames`; null = from before this was recorded. */
  actor: string | null
  /** What caused it, when no person did. */
  rule_id: string | null
  event_id: string | null
  containment_id: string | null
  requested_at: number
  stored_at: number | null
  published_at: number | null
  /** Process that published. */
  published_by: string | null
  delivered_at: number | null
  delivered_by: 'stream' | 'poll' | null
  delivered_process: string | null
  acknowledged_at: number | null
  acknowledged_by: 'ack' | 'heartbeat' | null
  /** Whether the agent ever reported a control version. */
  can_acknowledge: 0 | 1
  /** When the log showed it silent for long enough after the acknowledgement. */
  silent_at: number | null
  /** When the log showed it quiet for long enough after the delivery, without an acknowledgement. */
  quiet_at: number | null
  resumed_at: number | null
  /** Activity although suspended. */
  first_breach_at: number | null
  last_breach_at: number | null
  breaches: number
  breach_reported_at: number | null
  /** Of the breaches, those that were reported. */
  breaches_reported: number
  /** The last event of the agent that is known, also one of the grace after the delivery. */
  last_activity_at: number | null
  /** Up to which event the log was read for it; null = not yet. */
  checked_seq: number | null
  /** The alert that was last written of the result. */
  result_reported: 'unconfirmed' | 'confirmed' | null
  /** When the next decision is due; null = it waits for another fact. */
  look_at: number | null
}

/** A process that holds control streams. */
interface StreamProcessesTable {
  /** Random, new with each start. */
  id: string
  /** When it first said so, also after others had given it up. */
  started_at: number
  /** Its last sign of life. */
  seen_at: number
}

/** An instance that listens for control messages, by the process that holds its streams. */
interface ControlStreamsTable {
  process: string
  instance_id: string
  /** Kinds of messages beyond control messages that at least one of the streams takes: sorted, separated by commas. */
  understands: string
}

export interface KillSwitchTables {
  suspensions: SuspensionsTable
  stream_processes: StreamProcessesTable
  control_streams: ControlStreamsTable
}
