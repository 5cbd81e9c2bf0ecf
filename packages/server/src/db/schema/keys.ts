import type { KeyScope } from '@wardline/contract'

interface ApiKeysTable {
  id: string
  scope: KeyScope
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
  /** Maximum instances that the key may register; null = the default. */
  max_instances: number | null
  /** First key in the rotation chain, or the person who made a key for operators; null = this key. */
  owner: string | null
  /** Tags of instances registered with this key, as a sorted JSON array; null = none. */
  tags: string | null
  /** Tags of the agents whose approvals this key decides, as a sorted JSON array; null = all agents. */
  approves: string | null
  /** Patterns of the models that this key may call through the gateway, as a JSON array; null = all. */
  models: string | null
  /** 1: the key of a supervisor, whose evidence counts; null = an ordinary key. */
  supervises: number | null
  /** Operators' tags to whose agents the key is limited, as a sorted JSON array; null = all agents. */
  team: string | null
}

interface SessionsTable {
  token_hash: string
  /** Id of the key, or of the person. */
  key_id: string
  created_at: number
  expires_at: number
  last_used_at: number
  /** Sessions with the same family end together. */
  family: string | null
  /**
   * Hash of the secret that accompanies the cookie, or that renews the access of a command line, each once, followed by
   * that of the secret before; null = started by an older version, or not fetched by the command line yet: refused.
   */
  secret_hash: string | null
  /** User agent and address that opened it; null = opened by an older version. */
  device: string | null
  address: string | null
  /** When the provider authenticated the person; null for keys, as are the columns below. */
  authenticated_at: number | null
  /** When the provider last said the groups of the person. */
  evaluated_at: number | null
  /** When it is asked again; null = never, because it gave no refresh token. */
  due_at: number | null
  /** Encrypted JSON: the tokens of the provider. */
  sealed: string | null
  /** The provider's name of its session, `sid`. */
  provider_session: string | null
  /** Name of the machine of a command line, as it said; null for browsers. */
  host: string | null
}

/** Code that opens one browser session. A new code of the same key replaces the last one. */
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
