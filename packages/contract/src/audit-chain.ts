import type { AuditEntry } from './audit.ts'
import { canonicalJson, type Json } from './canonical-json.ts'

/**
 * The audit log is a hash chain: every row contains the hash of the previous row, which reveals edits, insertions,
 * removals and swaps. The chain alone cannot reveal that its tail was cut off or that all of it was rewritten; a
 * checkpoint stored elsewhere can. The service, the CLI and the dashboard all verify with this module.
 */

export type ChainEntry = {
  /** From 1, without gaps. */
  seq: number
  /** Epoch milliseconds. */
  at: number
  /** Id of a key, or `system`. */
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

export type ChainRow = ChainEntry & { prev_hash: string; hash: string }

/** Head of the log `at` a time (epoch milliseconds); seq 0 is the empty log. */
export type Checkpoint = { seq: number; hash: string; at: number }

export type ChainVerdict =
  | { ok: true; count: number; headSeq: number; headHash: string }
  | { ok: false; reason: 'tampered' | 'cut'; seq: number; detail: string }

/** Returns the hex SHA-256 of a text in UTF-8. Browsers compute it asynchronously. */
type Sha256Hex = (text: string) => string | Promise<string>

/** Previous hash of the first row. */
export const genesisHash = '0'.repeat(64)

/** Formats a seq. A forged row may contain anything in place of a number. */
const place = (seq: unknown): string => (typeof seq === 'number' ? seq.toLocaleString('en') : JSON.stringify(seq))

/** Converts an entry of GET /api/audit to a chain row, without the fields that the hash does not cover. */
export const chainRowOf = ({ actor_name: _, at, scope, before, after, ...entry }: AuditEntry): ChainRow => ({
  ...entry,
  at: Date.parse(at),
  scope: scope ?? '',
  before: before as Json,
  after: after as Json,
})

/**
 * Returns the text that a row's hash covers: the line `wardline-audit-v1`, then the entry with its previous hash as
 * canonical JSON. Other fields of `entry` are ignored. Throws for values that JSON cannot represent.
 */
export function chainText(entry: ChainEntry, previousHash: string): string {
  const { seq, at, actor, scope, ip, action, target, before, after, reason, request_id } = entry
  const fields = { seq, at, actor, scope, ip, action, target, before, after, reason, request_id }
  return `wardline-audit-v1\n${canonicalJson({ ...fields, prev_hash: previousHash })}`
}

/**
 * Returns the text of `chainText` as the three pieces around the previous hash and the seq, which are only known inside
 * the database once it has locked the end of the chain. Canonical JSON sorts fields alphabetically.
 */
export function chainTextAround(entry: Omit<ChainEntry, 'seq'>): [string, string, string] {
  const { at, actor, scope, ip, action, target, before, after, reason, request_id } = entry
  const inner = (fields: Record<string, Json>) => canonicalJson(fields).slice(1, -1)
  return [
    `wardline-audit-v1\n{${inner({ action, actor, after, at, before, ip })},"prev_hash":"`,
    `",${inner({ reason, request_id, scope })},"seq":`,
    `,${inner({ target })}}`,
  ]
}

/**
 * Checks the rows in the order of `seq` and stops at the first fault. `tampered` names the first row whose hash is
 * wrong: either it was changed, or the row before it was changed and rehashed. `cut` names the first missing row that
 * the checkpoint proves to have existed.
 */
export async function verifyChain(
  entries: AsyncIterable<ChainRow>,
  sha256Hex: Sha256Hex,
  checkpoint?: Checkpoint,
): Promise<ChainVerdict> {
  let headSeq = 0
  let headHash = genesisHash
  for await (const row of entries) {
    const fault = await faultOf(row, headSeq + 1, headHash, sha256Hex)
    if (fault !== null) return { ok: false, reason: 'tampered', seq: headSeq + 1, detail: fault }
    headSeq = row.seq
    headHash = row.hash
    if (headSeq === checkpoint?.seq && headHash !== checkpoint.hash) return rewritten(checkpoint)
  }
  if (checkpoint === undefined || checkpoint.seq <= headSeq) return { ok: true, count: headSeq, headSeq, headHash }
  const detail = `The log ends at entry ${place(headSeq)}, but the checkpoint contains entry ${place(checkpoint.seq)}: the tail was cut off.`
  return { ok: false, reason: 'cut', seq: headSeq + 1, detail }
}

function rewritten({ seq }: Checkpoint): ChainVerdict {
  const detail = `Entry ${place(seq)} differs from the checkpoint: the log was rewritten up to it.`
  return { ok: false, reason: 'tampered', seq, detail }
}

/** A row that discloses only its place in the chain. */
export type WithheldRow = Pick<ChainRow, 'seq' | 'prev_hash' | 'hash'> & { withheld: true }

/** Checks the part of the chain that follows the row `start`. Returns the fault, or the last row. */
export async function verifyChainPart(
  rows: AsyncIterable<ChainRow | WithheldRow>,
  start: { seq: number; hash: string },
  sha256Hex: Sha256Hex,
): Promise<{ seq: number; hash: string } | { fault: string }> {
  let { seq, hash } = start
  for await (const row of rows) {
    const fault = 'withheld' in row ? linkFault(row, seq + 1, hash) : await faultOf(row, seq + 1, hash, sha256Hex)
    if (fault !== null) return { fault }
    seq = row.seq
    hash = row.hash
  }
  return { seq, hash }
}

function linkFault(row: Pick<ChainRow, 'seq' | 'prev_hash'>, seq: number, previousHash: string): string | null {
  if (typeof row.seq === 'number' && row.seq < seq)
    return `Entry ${place(row.seq)} is outside the chain, in the place of entry ${place(seq)}: it was added.`
  if (row.seq !== seq) return `Entry ${place(seq)} is missing: entry ${place(row.seq)} stands in its place.`
  if (row.prev_hash !== previousHash)
    return `Entry ${place(seq)} does not follow from entry ${place(seq - 1)}: one of them was changed.`
  return null
}

async function faultOf(row: ChainRow, seq: number, previousHash: string, sha256Hex: Sha256Hex): Promise<string | null> {
  const link = linkFault(row, seq, previousHash)
  if (link !== null) return link
  const text = textOrNull(row, previousHash)
  if (text === null || (await sha256Hex(text)) !== row.hash) {
    return `Entry ${place(seq)} does not match its hash: it was changed.`
  }
  return null
}

/** Returns null for a forged row that cannot be hashed, so that it is reported instead of stopping the verification. */
function textOrNull(row: ChainRow, previousHash: string): string | null {
  try {
    return chainText(row, previousHash)
  } catch {
    return null
  }
}
