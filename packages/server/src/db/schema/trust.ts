export interface AttestationsTable {
  /** Versioned family of claims. */
  namespace: string
  /** ISO week. The primary key of period and tag prevents two processes from writing duplicates. */
  period: string
  type: string
  title: string
  summary: string
  tag: string
  /** Security score; 100 is best. */
  score: number
  /** Epoch milliseconds. */
  at: number
  hash: string
  /** Uid and JSON of the signed off-chain attestation; null for one of a version that did not sign. */
  uid: string | null
  signed: string | null
}

/** Result of verifying the on-chain agent, or without one the configured address. */
export interface VerificationsTable {
  id: string
  /** Epoch milliseconds. */
  at: number
  /** The configured address; null where the agent was verified. */
  url: string | null
  /** The wallet of the agent; null without an agent, and where it could not be read. */
  wallet: string | null
  chain_id: number
  /** The verified agent, as the identity registry and the number there; null without one. */
  agent_registry: string | null
  agent_id: string | null
  /** What the registry had as its URI, unless that is too long to be repeated; null if it could not be read. */
  agent_uri: string | null
  /** keccak256 of the URI, and of the registration file that it led to. */
  agent_uri_hash: string | null
  document_hash: string | null
  /** Types of ERC-8126 besides WAV and WV that apply by the registration file, separated by commas; null if it was not read. */
  applies: string | null
  /** Risk scores; 0 is best, null = could not be checked. */
  wav_score: number | null
  wav_notes: string
  /** Names of the errors of ERC-8126 because of which there is no score. */
  wav_error: string | null
  wv_score: number | null
  wv_notes: string
  wv_error: string | null
  /** Mean of the scores that there are; null if there is none. */
  unified_score: number | null
  /** 0 = a check could not be completed and is repeated soon. */
  is_complete: number
  /** Posted on a chain: hash of the request. `report` is the document whose hash is in the response. */
  request_hash: string | null
  report: string | null
}

export interface TrustTables {
  attestations: AttestationsTable
  verifications: VerificationsTable
}
