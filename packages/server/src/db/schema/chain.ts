type ChainState = 'pending' | 'sent' | 'confirmed' | 'failed'

/** An account that sends; the process that holds the lease alone does so. */
interface ChainSendersTable {
  chain_id: number
  address: string
  next_nonce: number
  epoch: number
  holder: string | null
  leased_until: number
  /** When the RPC is asked again after a fault. */
  next_at: number
  failing_since: number | null
  last_error: string | null
  /** When an event said so. */
  reported_at: number | null
}

export interface ChainTransactionsTable {
  id: string
  chain_id: number
  sender: string
  kind: 'attest' | 'register' | 'schema' | 'revoke' | 'validate' | 'respond' | 'ask'
  /** What it is about, such as the hash of an attestation: sent once for each chain, sender and kind. */
  subject: string
  target: string
  data: string
  state: ChainState
  error: string | null
  nonce: number | null
  gas: number | null
  /** Fees in the smallest unit: at most, until the receipt says how much. */
  cost: string | null
  created_at: number
  sent_at: number | null
  next_at: number
  /** Of the attempt that is in a block. */
  tx_hash: string | null
  block_number: number | null
  block_hash: string | null
  confirmed_at: number | null
  /** 1 until a reorganisation cannot undo it any more. */
  watched: number
  /** Block at which its nonce was seen to be used by another transaction. */
  replaced_block: number | null
  /** The uid or agent id that it made. */
  result: string | null
  checked_at: number | null
  revoked_at: number | null
  failure_reported_at: number | null
}

/** Signed transactions, stored before they are sent: of those of one transaction the chain takes one. */
interface ChainAttemptsTable {
  hash: string
  transaction_id: string
  raw: string
  max_fee: string
  max_tip: string
  created_at: number
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
  checked_at: number
}

export interface ChainTables {
  chain_senders: ChainSendersTable
  chain_transactions: ChainTransactionsTable
  chain_attempts: ChainAttemptsTable
  chain_identities: ChainIdentitiesTable
}
