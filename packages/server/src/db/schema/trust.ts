interface AttestationsTable {
  namespace: string
  /** ISO week; with the tag it keeps two processes from writing two. */
  period: string
  type: string
  title: string
  summary: string
  tag: string
  score: number
  at: number
  hash: string
}

export interface TrustTables {
  attestations: AttestationsTable
}
