import type { Log, Rpc } from './rpc.ts'

/** What goes on the chain of an attestation: the hash that was published before, and what it says. */
export interface SubmittedRecord {
  hash: string
  namespace: string
  tag: string
  score: number
  period: string
}

interface Call {
  target: string
  data: string
}

/** An attestation on the chain. */
interface Written {
  uid: string
  hash: string
  txHash: string
}

/** A contract that attestations are written to. */
export interface AttestationSink {
  /** What must be on the chain before, once for its subject; only where there is something. */
  prepare?(record: SubmittedRecord): Call & { subject: string }
  /** The transaction that writes one. */
  write(record: SubmittedRecord): Call
  /** The uid that the transaction of a hash made, from what it logged; undefined when that is not there. */
  uidOf(logs: readonly Log[], hash: string): string | undefined
  /** The transaction that takes one back. */
  revoke(written: Pick<Written, 'uid' | 'hash'>): Call
  /** What the chain says of a uid; undefined when it is not an attestation of ours of this hash. */
  state(rpc: Rpc, written: Written): Promise<'valid' | 'revoked' | undefined>
}
