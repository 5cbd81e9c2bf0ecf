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

/** One row with the end of the hash chain. Appenders update it first, which serializes them. */
interface AuditHeadTable {
  id: 1
  seq: number
  hash: string
}

/** Key pairs that sign evidence. Their seeds are derived from the master secret and the salt, so none is stored. */
interface SigningKeysTable {
  /** Starts at 1; the newest generation signs. */
  generation: number
  kid: string
  /** base64url. */
  public_key: string
  salt: string
  valid_from: number
  /** Null = no end. */
  valid_until: number | null
}

export interface AuditTables {
  audit_log: AuditLogTable
  audit_head: AuditHeadTable
  signing_keys: SigningKeysTable
}
