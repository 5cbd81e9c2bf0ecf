export interface AttestationsTable {
  /** The versioned family of claims that it belongs to. */
  namespace: string
  /** ISO week; with the tag it keeps two processes from writing two. */
  period: string
  type: string
  title: string
  summary: string
  tag: string
  /** A security score: 100 is best. */
  score: number
  /** Epoch milliseconds. */
  at: number
  hash: string
}

/** What the service found out about its own endpoint and wallet. */
export interface VerificationsTable {
  id: string
  /** Epoch milliseconds. */
  at: number
  /** What was checked; null: there was none. */
  url: string | null
  wallet: string | null
  chain_id: number
  /** Risk scores: 0 is best; null: does not apply, or could not be checked. */
  wav_score: number | null
  wav_notes: string
  wv_score: number | null
  wv_notes: string
  /** The mean of those that apply; null when none does. */
  unified_score: number | null
  /** 0: something could not be checked, and is checked again soon. */
  is_complete: number
  /** What was posted on a chain: hash of the request, and the report whose hash is in the response. */
  request_hash: string | null
  report: string | null
}

export interface TrustTables {
  attestations: AttestationsTable
  verifications: VerificationsTable
}
