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

/** Result of verifying the service's own endpoint and wallet. */
export interface VerificationsTable {
  id: string
  /** Epoch milliseconds. */
  at: number
  /** Checked URL and wallet; null = none. */
  url: string | null
  wallet: string | null
  chain_id: number
  /** Risk scores; 0 is best, null = does not apply or could not be checked. */
  wav_score: number | null
  wav_notes: string
  wv_score: number | null
  wv_notes: string
  /** Mean of the applicable scores; null if none applies. */
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
