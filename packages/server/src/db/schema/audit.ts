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

export interface AuditTables {
  audit_log: AuditLogTable
  audit_head: AuditHeadTable
}
