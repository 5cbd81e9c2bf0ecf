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

/** Key pairs that sign evidence. The seed of one follows from the master secret and the salt: no private key is stored. */
interface SigningKeysTable {
  /** From 1; the last one signs. */
  generation: number
  kid: string
  /** base64url. */
  public_key: string
  salt: string
  valid_from: number
  /** Null = no end is set. */
  valid_until: number | null
}

export interface AuditTables {
  audit_log: AuditLogTable
  audit_head: AuditHeadTable
  signing_keys: SigningKeysTable
}
