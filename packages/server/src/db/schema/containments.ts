interface ContainmentsTable {
  id: string
  action: 'suspend' | 'resume'
  /** JSON of the selector, as requested. */
  selector: string
  reason: string
  /** JSON of the `Actor` whose request started it, for the audit entries of all processes that work on it. */
  actor: string
  /** Key of the operator whose request `actor` confirmed; null where one operator was enough. */
  requested_by: string | null
  /** Key of the second operator, who is `actor`. */
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
  /** JSON array of the operators' tags to whose agents the operator was limited; null = all agents. */
  team: string | null
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
  /** `instance <id>`, or `fleet <digest of the ids>`. */
  target: string
  instance_id: string | null
  /** The selector as shown in lists. */
  selector: string | null
  /** JSON array of the ids of its agents, in order; null for one agent. */
  members: string | null
  /** Control version of the suspension to resume; of several, a digest of all. */
  version: number | null
  agents: number
  requested_by: string
  /** First key in the rotation chain of `requested_by`, which identifies the person. */
  owner: string
  requested_at: number
  expires_at: number
  /** JSON array of the operators' tags to whose agents the operator was limited; null = all agents. */
  team: string | null
}

export interface ContainmentTables {
  containments: ContainmentsTable
  containment_parts: ContainmentPartsTable
  resume_requests: ResumeRequestsTable
}
