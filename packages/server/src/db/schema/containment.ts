interface ContainmentsTable {
  id: string
  action: 'suspend' | 'resume'
  /** JSON of the selector, as requested. */
  selector: string
  reason: string
  /** JSON of the requesting `Actor`, for the audit entries of all processes that work on the containment. */
  actor: string
  /** Key of the second operator. */
  confirmed_by: string | null
  /** Whether resuming the agents needs a second operator. */
  two_person: 0 | 1
  requested: number
  /** Members skipped because they were changed or deleted before their turn. */
  skipped: number
  requested_at: number
  /** When the last member was changed. */
  changed_at: number | null
  completed_at: number | null
  /** Process that works on the containment, until `leased_until`. */
  worker: string | null
  leased_until: number
  /** Result that was last alerted. */
  reported: 'incomplete' | 'complete' | null
  /** Time of the next check of the counts, while `counts` is null. */
  look_at: number
  /** Final counts as JSON; null while they may still change. */
  counts: string | null
}

/** Members of a containment that are changed in one transaction, in the order of `position`. */
interface ContainmentPartsTable {
  containment_id: string
  position: number
  /** JSON array of [instance id, control version, claimed version or null] at selection. */
  members: string
  /** JSON array of [instance id, control version] of the changed members. */
  changed: string | null
  done_at: number | null
  /** Whether the members registered after the selection. */
  joined: 0 | 1
}

/** A resume waiting for a second operator. */
interface ResumeRequestsTable {
  /** `instance <id>`, or `fleet <digest of the selector>`. */
  target: string
  instance_id: string | null
  /** The selector as shown in lists. */
  selector: string | null
  /** JSON array of all ids in the selector, in order; null if it names none. */
  members: string | null
  /** Control version of the suspension to resume; null for a selector. */
  version: number | null
  agents: number
  requested_by: string
  /** First key in the rotation chain of `requested_by`, which identifies the person. */
  owner: string
  requested_at: number
  expires_at: number
}

/** A drill that an operator started. */
interface DrillsTable {
  id: string
  /** Key id of the operator. */
  actor: string
  /** JSON of the selector. */
  selector: string
  selected: number
  requested_at: number
  /** Time at which all agents were recorded; may stay null after a crash. */
  ready_at: number | null
  completed_at: number | null
  /** JSON of the final counts; the rows in drill_asks are then removed. */
  report: string | null
}

/** A drill message to one agent, which asks whether a suspension would reach it. */
interface DrillAsksTable {
  /** `schedule` for scheduled drills. */
  drill_id: string
  instance_id: string
  /** Single use; null until sent. */
  nonce: string | null
  asked_at: number | null
  answered_at: number | null
  /** Why the drill was not sent. */
  reason: 'offline' | 'no_control_stream' | 'does_not_understand' | 'not_sent' | null
}

/** Brake of automatic suspensions: one row, updated by each automatic suspension. */
interface BrakeTable {
  id: number
  /** Incremented by every change, so that concurrent suspensions of several processes conflict. */
  version: number
  /** Null while the brake is not engaged. */
  engaged_at: number | null
  engaged_by_event: string | null
}

/** Suspensions that the engaged brake refused. */
interface BrakeRefusalsTable {
  /** '' for all instances beyond those named individually. */
  instance_id: string
  count: number
  /** Last event that would have suspended the instance. */
  event_id: string
  last_at: number
}

/** Call to an enforcement point for one control change. Its state is computed on read. */
interface EnforcementCallsTable {
  instance_id: string
  /** Control version of the suspension or resume. */
  version: number
  /** Name of the point. */
  point: string
  /** Identical for all attempts. */
  id: string
  action: 'suspend' | 'resume'
  /** Null for the resume of one instance. */
  reason: string | null
  containment_id: string | null
  /** Tags of the instance at the time of the change, as stored in `instances`. */
  agent_tags: string | null
  operator_tags: string | null
  requested_at: number
  attempts: number
  next_at: number
  /** End of the lease of the process in `lease_owner`, which makes the attempt. */
  leased_until: number
  lease_owner: string | null
  attempted_at: number | null
  /** HTTP status of the last response; null = no response. */
  last_status: number | null
  last_error: string | null
  /** Time of the 2xx response. */
  confirmed_at: number | null
  /** Time at which the last attempt failed and the call was given up. */
  failed_at: number | null
  failure_reported_at: number | null
  /** Time at which a later change of the instance was found before confirmation. */
  superseded_at: number | null
}

export interface ContainmentTables {
  containments: ContainmentsTable
  containment_parts: ContainmentPartsTable
  resume_requests: ResumeRequestsTable
  drills: DrillsTable
  drill_asks: DrillAsksTable
  brake: BrakeTable
  brake_refusals: BrakeRefusalsTable
  enforcement_calls: EnforcementCallsTable
}
