interface ApiKeysTable {
  id: string
  scope: 'agent' | 'viewer' | 'operator' | 'admin'
  name: string
  /** JSON array of instance ids and prefixes ending in *. */
  instances: string
  secret_hash: string
  created_at: number
  expires_at: number | null
  revoked_at: number | null
  last_used_at: number | null
  /** JSON object of quotas, see KeyQuotas of the contract; null = the defaults of the scope. */
  quotas: string | null
  /** Instances that it may register; null = the default. */
  max_instances: number | null
  /** The first key of its rotations, which owns the instances of all of them; null = itself. */
  owner: string | null
  /** Tags of instances that register by it, sorted JSON array; null = none. */
  tags: string | null
}

interface SessionsTable {
  token_hash: string
  key_id: string
  created_at: number
  expires_at: number
  last_used_at: number
  /** Sessions that end together. */
  family: string | null
}

/** A code that opens one browser session. A new one of the same key takes the place of the last. */
interface LoginCodesTable {
  key_id: string
  code_hash: string
  expires_at: number
}

export interface KeyTables {
  login_codes: LoginCodesTable
  api_keys: ApiKeysTable
  sessions: SessionsTable
}
