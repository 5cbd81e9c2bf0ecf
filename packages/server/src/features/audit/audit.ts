import type { AuditEntry } from '@wardline/contract'
import { isoTime } from '../../clock.ts'
import type { Db, Trx } from '../../db/database.ts'
import type { Schema } from '../../db/schema.ts'
import { AppError } from '../../errors.ts'
import { type AuditRow, auditHash, type Checkpoint, type Json, type VerifyResult, verifyChain } from './chain.ts'
import { insertEntry, readEntries, readHead, takeNextPlace } from './queries.ts'

/** Who did it, from where. */
export interface Actor {
  keyId: string
  scope: string
  ip: string | null
  requestId: string | null
}

/** The service itself, or its command line on the same machine. */
export const localActor = (name: 'system' | 'cli'): Actor => ({
  keyId: name,
  scope: 'local',
  ip: null,
  requestId: null,
})

export interface Action {
  action: string
  target: string | null
  before: Json
  after: Json
  reason?: string
}

/** Appends to the chain within the transaction of the change itself: neither exists without the other. */
export async function recordAction(trx: Trx, actor: Actor, action: Action, now: number): Promise<void> {
  const { seq, previousHash } = await takeNextPlace(trx)
  const entry = {
    seq,
    at: now,
    actor: actor.keyId,
    scope: actor.scope,
    ip: actor.ip,
    action: action.action,
    target: action.target,
    before: action.before,
    after: action.after,
    reason: action.reason ?? null,
    request_id: actor.requestId,
  }
  await insertEntry(trx, {
    ...entry,
    before: JSON.stringify(entry.before),
    after: JSON.stringify(entry.after),
    prev_hash: previousHash,
    hash: auditHash(entry, previousHash),
  })
}

/** A value that an edit made unreadable stays as it is: it then fails its hash, which is the finding. */
function parsed(text: string | null): Json {
  try {
    return JSON.parse(text ?? 'null')
  } catch {
    return text
  }
}

const toRow = (row: Schema['audit_log']): AuditRow => ({
  ...row,
  seq: Number(row.seq),
  at: Number(row.at),
  scope: row.scope ?? '',
  before: parsed(row.before),
  after: parsed(row.after),
})

/** One page of the log, oldest first. */
export async function listAudit(db: Db, afterSeq: number, limit: number): Promise<AuditEntry[]> {
  const rows = await readEntries(db, afterSeq, limit)
  return rows.map((row) => ({ ...toRow(row), at: isoTime(Number(row.at)) }))
}

/** Rows read at once: verification of a long log neither fills memory nor holds up the database. */
const pageRows = 2_000

async function* allRows(db: Db): AsyncGenerator<AuditRow> {
  for (let after = 0; ; ) {
    const page = await readEntries(db, after, pageRows)
    for (const row of page) yield toRow(row)
    if (page.length < pageRows) return
    after = Number(page.at(-1)!.seq)
  }
}

/** The end of the chain, to be kept where nobody who can write the database can write. */
export async function auditCheckpoint(db: Db, now: number): Promise<Checkpoint> {
  const head = await readHead(db)
  if (!head) throw new AppError('internal', 'The end of the audit log is gone; run: wardline audit verify')
  return { seq: Number(head.seq), hash: head.hash, at: now }
}

/** Checks the whole log, and that it ends where its head says. */
export async function verifyAudit(db: Db, checkpoint?: Checkpoint): Promise<VerifyResult> {
  const head = await readHead(db)
  const result = await verifyChain(allRows(db), checkpoint)
  if (!result.ok) return result
  const seq = result.headSeq + 1
  if (!head) return { ok: false, reason: 'tampered', seq, detail: 'The row that names the end of the log is gone.' }
  if (result.headSeq >= Number(head.seq)) return result
  return {
    ok: false,
    reason: 'cut',
    seq,
    detail: `The log ends at row ${result.headSeq}, but row ${head.seq} was written.`,
  }
}
