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

export interface TrustTables {
  attestations: AttestationsTable
}
