import type { Log, Rpc } from './rpc.ts'

/** What goes on the chain of an attestation: the hash that was published before, and what it says. */
export interface SubmittedRecord {
  hash: string
  namespace: string
  tag: string
  score: number
  period: string
}

/** Where attestations are written on a chain. */
export interface AttestationSink {
  /** The transaction that writes one. */
  write(record: SubmittedRecord): { target: string; data: string }
  /** The uid that a transaction made, from what it logged; undefined when that is not there. */
  uidOf(logs: readonly Log[]): string | undefined
  /** The transaction that takes one back. */
  revoke(uid: string): { target: string; data: string }
  /** What the chain says of a uid; undefined when it is not an attestation of ours of this hash. */
  state(rpc: Rpc, uid: string, hash: string): Promise<'valid' | 'revoked' | undefined>
}
