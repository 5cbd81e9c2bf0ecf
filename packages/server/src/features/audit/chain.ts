import { hash } from 'node:crypto'
import canonicalize from 'canonicalize'

/**
 * The audit log is a chain: every row carries the hash of the row before it, which reveals an edit, an insertion, a
 * removal or a swap. The chain alone cannot reveal that its tail was cut off or that all of it was rewritten; a
 * checkpoint stored elsewhere can.
 */

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json }

export type AuditEntry = {
  /** From 1, without gaps. */
  seq: number
  /** Epoch milliseconds. */
  at: number
  /** The id of a key, or `system`. */
  actor: string
  scope: string
  ip: string | null
  /** Such as `instance.suspend`. */
  action: string
  target: string | null
  before: Json
  after: Json
  reason: string | null
  request_id: string | null
}

export type AuditRow = AuditEntry & { prev_hash: string; hash: string }

/** The head of the log as it was `at` (epoch milliseconds); seq 0 is the empty log. */
export type Checkpoint = { seq: number; hash: string; at: number }

export type VerifyResult =
  | { ok: true; count: number; headSeq: number; headHash: string }
  | { ok: false; reason: 'tampered' | 'cut'; seq: number; detail: string }

/** The previous hash of the first row. */
export const genesisHash = '0'.repeat(64)

/**
 * SHA-256 in hex over the line `wardline-audit-v1` and the entry with its previous hash as canonical JSON
 * (RFC 8785). Only the named fields count. Throws for what JSON cannot hold: a lone surrogate, NaN, Infinity.
 */
export function auditHash(entry: AuditEntry, previousHash: string): string {
  const { seq, at, actor, scope, ip, action, target, before, after, reason, request_id } = entry
  const fields = { seq, at, actor, scope, ip, action, target, before, after, reason, request_id }
  return hash('sha256', `wardline-audit-v1\n${canonicalize({ ...fields, prev_hash: previousHash })}`, 'hex')
}

/**
 * The text that `auditHash` hashes, in the three pieces that surround the previous hash and the place: these are known
 * to the database only, once it holds the end of the chain. Canonical JSON has its fields in alphabetical order.
 */
export function auditTextAround(entry: Omit<AuditEntry, 'seq'>): [string, string, string] {
  const { at, actor, scope, ip, action, target, before, after, reason, request_id } = entry
  const inner = (fields: object) => canonicalize(fields)!.slice(1, -1)
  return [
    `wardline-audit-v1\n{${inner({ action, actor, after, at, before, ip })},"prev_hash":"`,
    `",${inner({ reason, request_id, scope })},"seq":`,
    `,${inner({ target })}}`,
  ]
}

/**
 * Walks the rows in the order of `seq` and stops at the first fault. `tampered` names the first row whose hash is
 * wrong: it was changed, or the one before it was, with its hash recomputed. `cut` names the first row that the
 * checkpoint proves to have existed and that is missing.
 */
export async function verifyChain(entries: AsyncIterable<AuditRow>, checkpoint?: Checkpoint): Promise<VerifyResult> {
  let headSeq = 0
  let headHash = genesisHash
  for await (const row of entries) {
    const fault = faultOf(row, headSeq + 1, headHash)
    if (fault !== null) return { ok: false, reason: 'tampered', seq: headSeq + 1, detail: fault }
    headSeq = row.seq
    headHash = row.hash
    if (headSeq === checkpoint?.seq && headHash !== checkpoint.hash) return rewritten(checkpoint)
  }
  if (checkpoint === undefined || checkpoint.seq <= headSeq) return { ok: true, count: headSeq, headSeq, headHash }
  const detail = `The log ends at row ${headSeq}, but the checkpoint contains row ${checkpoint.seq}: the tail was cut off.`
  return { ok: false, reason: 'cut', seq: headSeq + 1, detail }
}

function rewritten({ seq }: Checkpoint): VerifyResult {
  const detail = `Row ${seq} differs from the checkpoint: the log was rewritten up to this row.`
  return { ok: false, reason: 'tampered', seq, detail }
}

function faultOf(row: AuditRow, seq: number, previousHash: string): string | null {
  if (row.seq !== seq) return `Row ${seq} is missing: row ${row.seq} stands in its place.`
  if (row.prev_hash !== previousHash) return `Row ${seq} does not follow from row ${seq - 1}: one of them was changed.`
  if (row.hash !== hashOrNull(row, previousHash)) return `Row ${seq} does not match its hash: it was changed.`
  return null
}

/** A forged row may hold what cannot be hashed; that is a finding, not a crash of the verification. */
function hashOrNull(row: AuditRow, previousHash: string): string | null {
  try {
    return auditHash(row, previousHash)
  } catch {
    return null
  }
}

/** One line without its line feed: `wardline-audit-checkpoint v1 seq=<n> hash=<hex> at=<ISO 8601>`. */
export function formatCheckpoint({ seq, hash, at }: Checkpoint): string {
  return `wardline-audit-checkpoint v1 seq=${seq} hash=${hash} at=${new Date(at).toISOString()}`
}

const checkpointForm = /^wardline-audit-checkpoint v1 seq=(\d{1,16}) hash=([0-9a-f]{64}) at=(\d{4}-[0-9T:.-]{1,20}Z)$/

/** Reads exactly what `formatCheckpoint` writes, white space around it aside; throws an Error with one sentence. */
export function parseCheckpoint(text: string): Checkpoint {
  const line = text.trim()
  const found = checkpointForm.exec(line)
  if (found === null) {
    throw new Error(
      'This is not an audit checkpoint: expected one line "wardline-audit-checkpoint v1 seq=… hash=… at=…".',
    )
  }
  const [, seq = '', hash = '', at = ''] = found
  const checkpoint = { seq: Number(seq), hash, at: Date.parse(at) }
  if (!Number.isSafeInteger(checkpoint.seq) || String(checkpoint.seq) !== seq) {
    throw new Error(`The audit checkpoint has no valid row number: "${seq}".`)
  }
  if (checkpoint.seq === 0 && hash !== genesisHash) {
    throw new Error('The audit checkpoint of an empty log must carry the hash of 64 zeros.')
  }
  if (Number.isNaN(checkpoint.at) || new Date(checkpoint.at).toISOString() !== at) {
    throw new Error(`The audit checkpoint has no valid time: "${at}".`)
  }
  return checkpoint
}
