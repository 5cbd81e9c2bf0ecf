import type { AttestationsTable } from '../../db/schema/trust.ts'
import type { Log, Rpc } from './rpc.ts'

/** A published attestation. */
export type SubmittedRecord = Omit<AttestationsTable, 'uid' | 'signed'>

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

/** What a contract has of an attestation. */
export interface WrittenState {
  isRevoked: boolean
  /** Written by an earlier version: the registry of ERC-8004 has the attestation's hash, without a document. */
  isBare: boolean
}

export interface AttestationReader {
  /**
   * Reads the state of an attestation from the chain. Undefined when the uid is not an attestation of this account with
   * this hash.
   */
  state(rpc: Rpc, written: Written): Promise<WrittenState | undefined>
}

export interface AttestationSink extends AttestationReader {
  /**
   * Returns the call that must be on the chain before the attestation, once per subject. Only for sinks that need one.
   */
  prepare?(record: SubmittedRecord): Call & { subject: string }
  /** Returns the call that writes an attestation. */
  write(record: SubmittedRecord): Call
  /** Returns the uid that a transaction with this call logged; undefined when its logs do not have what the call wrote. */
  uidOf(logs: readonly Log[], data: string): string | undefined
  /** Returns the call that revokes an attestation. */
  revoke(uid: string): Call
}
