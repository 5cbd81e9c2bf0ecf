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

export interface EnforcementTables {
  enforcement_calls: EnforcementCallsTable
}
