interface ApprovalsTable {
  id: string
  instance_id: string
  session_id: string | null
  tool: string
  args_sha256: string
  /** Redacted by the agent; at most 4 KiB. */
  args: string | null
  policy_id: string
  policy_version: number
  rule: string | null
  why: string | null
  /** Operators who have to approve. */
  needed: 1 | 2
  /** `pending` and `approved` end at `expires_at`; a job then changes them to `expired`. */
  state: 'pending' | 'approved' | 'granted' | 'denied' | 'expired'
  /** JSON array of [first key in the rotation chain, key, epoch milliseconds]. */
  approved_by: string
  /** Attempts that waited for it. */
  asked: number
  /** First key in the rotation chain of the key that asked, which must not decide. */
  asked_by: string
  requested_at: number
  expires_at: number
  decided_at: number | null
  /** Key of the operator. */
  denied_by: string | null
  reason: string | null
  /** The only attempt that may run the call. */
  attempt: string | null
  granted_at: number | null
  allowance_id: string | null
  /** Raised by every change, so that of two concurrent ones one fails. */
  version: number
}

/** Which approval an attempt waits for, or took. */
interface ApprovalAttemptsTable {
  instance_id: string
  attempt: string
  approval_id: string
}

/** Calls of one tool by one agent that need no person for a while. */
interface AllowancesTable {
  id: string
  instance_id: string
  tool: string
  approval_id: string
  /** Key of the operator. */
  created_by: string
  reason: string | null
  created_at: number
  expires_at: number
  max_calls: number
  used: number
  revoked_at: number | null
}

export interface ApprovalTables {
  approvals: ApprovalsTable
  approval_attempts: ApprovalAttemptsTable
  allowances: AllowancesTable
}
