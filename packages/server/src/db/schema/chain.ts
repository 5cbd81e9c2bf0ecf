type ChainState = 'pending' | 'sent' | 'confirmed' | 'failed'

/** Sending account. Only the process with the lease sends. */
interface ChainSendersTable {
  chain_id: number
  address: string
  next_nonce: number
  epoch: number
  holder: string | null
  leased_until: number
  /** Time of the next RPC attempt after an error. */
  next_at: number
  failing_since: number | null
  last_error: string | null
  /** Time at which an event reported the failure. */
  reported_at: number | null
  /** Nonce that the node asked for and that was refused, since the last transaction. */
  refused_nonce: number | null
  nonce_reported_at: number | null
}

export interface ChainTransactionsTable {
  id: string
  chain_id: number
  sender: string
  kind: 'attest' | 'register' | 'schema' | 'revoke' | 'validate' | 'respond' | 'ask' | 'set-uri'
  /**
   * Deduplication key, such as an attestation's hash: sent once per chain, sender and kind. Unique for what may be sent any
   * number of times.
   */
  subject: string
  target: string
  data: string
  state: ChainState
  error: string | null
  nonce: number | null
  gas: number | null
  /** Fees in the smallest unit: the maximum until the receipt arrives, then the actual fees. */
  cost: string | null
  /** Maximum fees that a person confirmed; null: only the general limits apply. */
  max_cost: string | null
  created_at: number
  sent_at: number | null
  next_at: number
  /** Hash of the attempt that was included in a block. */
  tx_hash: string | null
  block_number: number | null
  block_hash: string | null
  confirmed_at: number | null
  /** 1 until no reorganisation can undo the transaction. */
  watched: number
  /** Block at which another transaction was found to have used the nonce. */
  replaced_block: number | null
  /** Uid or agent id created by the transaction. */
  result: string | null
  checked_at: number | null
  revoked_at: number | null
  failure_reported_at: number | null
  /** Time at which an event reported that it is unconfirmed. */
  stuck_reported_at: number | null
  /** Time at which an operator dropped it. Further attempts are empty. */
  dropped_at: number | null
}

/** Signed attempts, stored before sending. The chain accepts only one attempt per transaction. */
interface ChainAttemptsTable {
  hash: string
  transaction_id: string
  raw: string
  max_fee: string
  max_tip: string
  created_at: number
  /** 1 for a transaction of the wallet to itself that does nothing but use the nonce. */
  is_empty: number
}

interface ChainIdentitiesTable {
  /** Always 1. */
  id: number
  chain_id: number
  registry: string
  agent_id: string
  status: 'live' | 'unverified'
  wallet: string | null
  register_tx_hash: string | null
  /** Address of the registration file; null if it was not read or the agent is not ours. */
  uri: string | null
  checked_at: number
}

/** How far the attestations by an account that the operator named are read. */
interface ChainAttestersTable {
  /** In lower case, as all addresses below. */
  attester: string
  /** Chain, contract and recipient that the blocks were read for. */
  scope: string
  /** First and last block that was read, and the first one that will be. */
  low: number
  high: number
  floor: number
  /** When feedback and the known attestations were last read again. */
  checked_at: number
  /** When a process may go on. */
  next_at: number
}

/** Attestations about this deployment by others. */
export interface OtherAttestationsTable {
  chain_id: number
  sink: 'eas' | 'feedback'
  contract: string
  /** Recipient, or agent id. */
  subject: string
  attester: string
  /** Uid of EAS, or index of the feedback. */
  uid: string
  /** Null for feedback, whose registry stores no time. */
  at: number | null
  expires_at: number | null
  seen_at: number
  tx_hash: string | null
  /** Schema uid of EAS. What follows is from feedback, or from the schema of this service. */
  schema: string | null
  hash: string | null
  namespace: string | null
  tag: string | null
  period: string | null
  /** Whole number, and how many of its digits are decimals. */
  value: string | null
  decimals: number | null
}

export interface ChainTables {
  chain_attesters: ChainAttestersTable
  chain_other_attestations: OtherAttestationsTable
  chain_senders: ChainSendersTable
  chain_transactions: ChainTransactionsTable
  chain_attempts: ChainAttemptsTable
  chain_identities: ChainIdentitiesTable
}
