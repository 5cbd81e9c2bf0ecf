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
  /** A version above `control_version` that the agent reported last; null when it reports none. */
  claimed_version: number | null
  /** Of processes of the version before: what is reported of a suspension now stands in `suspensions`. */
  activity_reported_version: number | null
  kill_result_version: number | null
  kill_result: 'unconfirmed' | 'confirmed' | null
  /** Key that registered it: the first of its rotations; null = from before this was recorded. */
  owner: string | null
  /** Tags that the agent gives itself, and those that operators set: sorted JSON arrays, null before the first. */
  agent_tags: string | null
  operator_tags: string | null
  /** Milliseconds between its heartbeats: a moving average, and a maximum that sinks with every shorter gap. */
  typical_gap_ms: number
  longest_gap_ms: number
  /** Last sign of life other than a heartbeat, noted when heartbeats are late. */
  seen_at: number | null
  /** When a sweep first found it silent; null once heard of again. */
  suspected_at: number | null
  /** When it said that it ends; it has come back when its last heartbeat is later. */
  left_at: number | null
  /** Its last starts with another `boot_id`, newest first: a JSON array of at most 5; null before the second. */
  boots: string | null
  /** How often an earlier start came back, since that was last reported; and when it was. */
  clone_count: number
  clone_reported_at: number | null
  /** The last start of a crash loop that was reported. */
  crash_loop_at: number | null
  /** When its agent last answered a drill, or acknowledged a suspension. */
  last_proven_at: number | null
  /** When a client of it first said that it understands drills. */
  drills_since: number | null
  /** When it was first found without an answered drill for too long, while online; null once that is over. */
  drill_overdue_at: number | null
  /** When that was last warned of; null once it answered. */
  drill_warned_at: number | null
  /** When a warning last named it, instead of only counting it; null once it answered. */
  drill_named_at: number | null
}

/** How many instances there are, kept by triggers: a count of the table for every new one would be slow. */
interface InstanceCountsTable {
  /** Key that registered them, or '' for all. */
  owner: string
  count: number
}

/** Control version of deleted instances: an agent that comes back must not find its next kill older than the last one. */
interface DeletedInstancesTable {
  id: string
  control_version: number
  deleted_at: number
}

/** What an instance did in one hour, as far as one process counted it: each process replaces its own row as a whole. */
interface InstanceHoursTable {
  instance_id: string
  /** First millisecond of the hour. */
  hour: number
  /** Random name of the process that counted, new with each start. */
  writer: string
  /** JSON array of 48 numbers: heartbeats of each five minutes, then events, tool calls, and events that it reported itself. */
  counts: string
}

export interface InstanceTables {
  instance_hours: InstanceHoursTable
  instances: InstancesTable
  instance_counts: InstanceCountsTable
  deleted_instances: DeletedInstancesTable
}
