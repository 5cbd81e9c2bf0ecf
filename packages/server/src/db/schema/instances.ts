import type { Witness } from '@wardline/contract'

interface InstancesTable {
  id: string
  name: string
  agent_type: string | null
  version: string | null
  fail_mode: 'open' | 'closed' | null
  boot_id: string | null
  first_seen_at: number
  last_heartbeat_at: number
  /** Last verdict of the scout. The displayed status is computed on read. */
  liveness: 'online' | 'offline'
  suspended: 0 | 1
  suspension_reason: string | null
  /** Incremented by every kill and resume. */
  control_version: number
  control_changed_at: number | null
  /** Highest control version that the agent acknowledged, by `ack` or heartbeat; and the time of this acknowledgement. */
  applied_version: number | null
  applied_at: number | null
  /** Last acknowledged version above `control_version`; null if there is none. */
  claimed_version: number | null
  /** Used only by processes of the previous version. `suspensions` now records which results were reported. */
  activity_reported_version: number | null
  kill_result_version: number | null
  kill_result: 'unconfirmed' | 'confirmed' | null
  /** First key in the rotation chain of the registering key; null = registered before owners were recorded. */
  owner: string | null
  /** The instance that its agent named as its parent, which need not exist. Never changes once it is set. */
  parent_id: string | null
  /** Tags reported by the agent and tags set by operators, as sorted JSON arrays; null if never set. */
  agent_tags: string | null
  operator_tags: string | null
  /** Milliseconds between heartbeats: a moving average, and a maximum that decays with every shorter gap. */
  typical_gap_ms: number
  longest_gap_ms: number
  /** Last sign of life other than a heartbeat, noted when heartbeats are late. */
  seen_at: number | null
  /** Time at which a sweep first found the instance silent; null after the next sign of life. */
  suspected_at: number | null
  /** Time at which the agent announced its shutdown. A later heartbeat means that it is back. */
  left_at: number | null
  /** JSON array of the last runs by `boot_id`, newest first, at most 5; null before the second run. */
  boots: string | null
  /** How often an earlier `boot_id` reappeared since the last report, and the time of that report. */
  clone_count: number
  clone_reported_at: number | null
  /** Last start of the crash loop that was last reported. */
  crash_loop_at: number | null
  /** Time at which the agent last answered a drill or acknowledged a suspension, by `ack` or heartbeat. */
  last_proven_at: number | null
  /** Time of the last heartbeat of a supervisor with a key of one. */
  supervised_at: number | null
  /** About when the agent last called a model through the gateway; null = never. */
  model_called_at: number | null
  /** When a model gateway last answered a drill for the agent. */
  model_proven_at: number | null
  /** When the agent's supervisor last answered a drill that it would hold every process it knows. */
  supervisor_proven_at: number | null
  /** Time at which a client first declared support for drills. */
  drills_since: number | null
  /** Time at which the online agent was first found without an answered drill for too long; null once resolved. */
  drill_overdue_at: number | null
  /** Time of the last warning about this; null after an answer. */
  drill_warned_at: number | null
  /** Time at which a warning last named the instance instead of only counting it; null after an answer. */
  drill_named_at: number | null
}

/** Instance counts, maintained by triggers, because counting the table for every new instance would be slow. */
interface InstanceCountsTable {
  /** Owner key, '-' for instances without one, or '' for all. */
  owner: string
  count: number
}

/** Control versions of deleted instances, so that a returning agent does not ignore its next kill as outdated. */
interface DeletedInstancesTable {
  id: string
  control_version: number
  deleted_at: number
}

/** Activity of an instance in one hour, as counted by one process. Each process replaces its whole row. */
interface InstanceHoursTable {
  instance_id: string
  /** First millisecond of the hour. */
  hour: number
  /** Random name of the counting process, new at each startup. */
  writer: string
  /**
   * JSON array of 48 numbers: heartbeats per five minutes, then the same for events, tool calls and events reported by
   * the instance.
   */
  counts: string
}

/** By what an instance is heard. */
interface InstanceWitnessesTable {
  instance_id: string
  witness: Witness
  since: number
  /** At most about a minute older than what was last heard. */
  last_at: number
}

/** What an agent last reported of one of its configurations. */
interface AgentConfigsTable {
  instance_id: string
  source: string
  /** The key that reported it, with which its hashes are made. */
  key_id: string
  /** Hash of `items`. */
  digest: string
  /** JSON array, sorted by kind and name. */
  items: string
  /** When this state was first reported. */
  since: number
  reported_at: number
  /** Null for the first state. */
  changed_at: number | null
}

/** What people should know about an instance. Besides `instances`, whose rows every heartbeat writes. */
interface AgentNotesTable {
  instance_id: string
  author: string
  at: number
  text: string
}

/** Which instance has which tag of operators, maintained by triggers, so that teams need not read the whole fleet. */
interface OperatorTagsTable {
  tag: string
  instance_id: string
}

/** A tool server of a configuration of an agent. */
interface ToolServersTable {
  /** The name in lower case. */
  server_key: string
  instance_id: string
  source: string
  name: string
  /** Empty where the configuration does not have it, as command and address. */
  version: string
  command: string
  address: string
  /** Since when this configuration has a server of this name. */
  named_at: number
  /** Since when with this version, command and address. */
  since: number
  /** At most about an hour older than the last report. */
  seen_at: number
}

export interface InstanceTables {
  operator_tags: OperatorTagsTable
  agent_configs: AgentConfigsTable
  agent_notes: AgentNotesTable
  tool_servers: ToolServersTable
  instance_witnesses: InstanceWitnessesTable
  instance_hours: InstanceHoursTable
  instances: InstancesTable
  instance_counts: InstanceCountsTable
  deleted_instances: DeletedInstancesTable
}
