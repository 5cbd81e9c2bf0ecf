interface ContainmentsTable {
  id: string
  action: 'suspend' | 'resume'
  /** JSON of the selector, as requested. */
  selector: string
  reason: string
  /** JSON of the `Actor` who requested it: each audit entry names it, whichever process writes it. */
  actor: string
  /** Key of the second operator. */
  confirmed_by: string | null
  /** Whether resuming its agents needs a second operator. */
  two_person: 0 | 1
  requested: number
  /** Members that someone else changed or deleted before it was their turn. */
  skipped: number
  requested_at: number
  /** When the last member was changed. */
  changed_at: number | null
  completed_at: number | null
  /** The process that works on it, and until when another one leaves it alone. */
  worker: string | null
  leased_until: number
  /** What was alerted of its result. */
  reported: 'incomplete' | 'complete' | null
  /** When its counts are to be looked at again; until `counts` are final. */
  look_at: number
  /** Final counts as JSON; null while they may still change. */
  counts: string | null
}

/** Members of a containment that are changed in one transaction, in the order of `position`. */
interface ContainmentPartsTable {
  containment_id: string
  position: number
  /** JSON array of [instance id, control version, claimed version or null] as they were selected. */
  members: string
  /** JSON array of [instance id, control version] of those that were changed. */
  changed: string | null
  done_at: number | null
}

/** A resume that waits for a second operator. */
interface ResumeRequestsTable {
  /** `instance <id>`, or `fleet <digest of the selector>`. */
  target: string
  instance_id: string | null
  /** As lists show it. */
  selector: string | null
  /** JSON array of all ids that the selector names, in order; null where it names none. */
  members: string | null
  /** Control version of the suspension that is to be resumed; null for a selector. */
  version: number | null
  agents: number
  requested_by: string
  /** First key of the rotations of `requested_by`: one person. */
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
  /** When the last of its agents was recorded: a crash may leave it null. */
  ready_at: number | null
  completed_at: number | null
  /** JSON of the counts, once it is complete; the questions are then removed. */
  report: string | null
}

/** A question to an agent, whether it can be stopped. */
interface DrillAsksTable {
  /** `schedule` for the one that the service asks by itself. */
  drill_id: string
  instance_id: string
  /** Single use; null until it is asked. */
  nonce: string | null
  asked_at: number | null
  answered_at: number | null
  /** Why it was not asked. */
  reason: 'offline' | 'no_control_stream' | 'does_not_understand' | 'not_sent' | null
}

/** The brake of automatic suspensions: one row, which every one of them changes. */
interface BrakeTable {
  id: number
  /** Grows by one with every change: processes that suspend at the same time notice each other. */
  version: number
  /** Null while it is not engaged. */
  engaged_at: number | null
  engaged_by_event: string | null
}

/** Suspensions that the engaged brake refused. */
interface BrakeRefusalsTable {
  /** '' for all that are beyond what is named. */
  instance_id: string
  count: number
  /** The last event that would have suspended it. */
  event_id: string
  last_at: number
}

/** A call of an enforcement point about one change of control. Its state is computed when it is read. */
interface EnforcementCallsTable {
  instance_id: string
  /** The control version that suspended or resumed. */
  version: number
  /** Name of the point. */
  point: string
  /** The same at each attempt. */
  id: string
  action: 'suspend' | 'resume'
  /** Null for the resume of one instance. */
  reason: string | null
  containment_id: string | null
  /** Tags of the instance at that time, as it stores them. */
  agent_tags: string | null
  operator_tags: string | null
  requested_at: number
  attempts: number
  /** When the next attempt is due. */
  next_at: number
  /** The process that makes an attempt, and until when others leave it alone. */
  leased_until: number
  lease_owner: string | null
  attempted_at: number | null
  /** HTTP status of the last answer; null = none. */
  last_status: number | null
  last_error: string | null
  /** When it was answered with 2xx. */
  confirmed_at: number | null
  /** When the last attempt failed. */
  failed_at: number | null
  failure_reported_at: number | null
  /** When a later change of the instance was found before it was confirmed. */
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
