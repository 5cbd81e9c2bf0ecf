import type { Log, Rpc } from './rpc.ts'

/** The parts of a published attestation that go on the chain: its hash and its contents. */
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

export interface AttestationSink {
  /**
   * Returns the call that must be on the chain before the attestation, once per subject. Only for sinks that need one.
   */
  prepare?(record: SubmittedRecord): Call & { subject: string }
  /** Returns the call that writes an attestation. */
  write(record: SubmittedRecord): Call
  /** Returns the uid that a transaction logged for this hash; undefined when its logs contain none. */
  uidOf(logs: readonly Log[], hash: string): string | undefined
  /** Returns the call that revokes an attestation. */
  revoke(written: Pick<Written, 'uid' | 'hash'>): Call
  /**
   * Reads the state of an attestation from the chain. Undefined when the uid is not an attestation of this account with
   * this hash.
   */
  state(rpc: Rpc, written: Written): Promise<'valid' | 'revoked' | undefined>
}
