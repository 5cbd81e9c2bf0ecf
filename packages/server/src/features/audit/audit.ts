import { type ChainRow, type ChainVerdict, type Checkpoint, type Json, verifyChain } from '@wardline/contract'
import type { Database, Db, Statement, Trx } from '../../db/database.ts'
import type { Schema } from '../../db/schema.ts'
import { AppError } from '../../errors.ts'
import { sha256Hex } from './chain.ts'
import { appendManyStatements, appendStatements, readEntries, readHead, readLatestActors } from './queries.ts'

/** Actor and address. */
export interface Actor {
  keyId: string
  /** The key's name, for people; the log has the id. */
  name: string
  scope: string
  ip: string | null
  requestId: string | null
}

/** Names of actors that have no key. */
export const localNames = { system: 'Wardline', cli: 'the command line' } as const

/** The service itself, or its command line on the same machine. */
export const localActor = (name: keyof typeof localNames): Actor => ({
  keyId: name,
  name: localNames[name],
  scope: 'local',
  ip: null,
  requestId: null,
})

/** Names of the keys that acted. The feature of keys knows them: it writes audit entries, so it is handed in. */
export interface KeyNames {
  /** By id, also of keys that were revoked or have expired. */
  names(db: Db, actors: readonly string[]): Promise<Map<string, string>>
  /** The ids of the keys with this id or name: several keys may have one name. */
  called(db: Db, given: string): Promise<string[]>
}

export interface Action {
  action: string
  target: string | null
  before: Json
  after: Json
  reason?: string
}

/**
 * Statements that append to the chain within the batch of the change itself: neither exists without the other. They
 * belong at its end, since they take a lock that every such change takes.
 */
export function auditStatements(database: Database, actor: Actor, action: Action, now: number): Statement[] {
  return appendStatements(database, {
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
  })
}

/** The same for one action on many targets, an entry each: cheaper by far than their statements one by one. */
export function auditManyStatements(
  database: Database,
  actor: Actor,
  { action, reason }: Pick<Action, 'action' | 'reason'>,
  changes: readonly Pick<Action, 'target' | 'before' | 'after'>[],
  now: number,
): Statement[] {
  const { keyId, scope, ip, requestId } = actor
  const shared = { at: now, actor: keyId, scope, ip, action, reason: reason ?? null, request_id: requestId }
  return appendManyStatements(database, shared, changes)
}

/** Appends within the transaction of a change that reads what it wrote, and so cannot be a batch. */
export async function recordAction(
  database: Database,
  trx: Trx,
  actor: Actor,
  action: Action,
  now: number,
): Promise<void> {
  for (const statement of auditStatements(database, actor, action, now)) await trx.executeQuery(statement)
}

/** A value that an edit made unreadable stays as it is: it then fails its hash, which is the finding. */
function parsed(text: string | null): Json {
  try {
    return JSON.parse(text ?? 'null')
  } catch {
    return text
  }
}

/** A stored row with its values read. */
export const toRow = (row: Schema['audit_log']): ChainRow => ({
  ...row,
  seq: row.seq,
  at: row.at,
  scope: row.scope ?? '',
  before: parsed(row.before),
  after: parsed(row.after),
})

/** Key ids of who did an action to each of these targets last. */
export async function lastActors(db: Db, action: string, targets: readonly string[]): Promise<Map<string, string>> {
  if (targets.length === 0) return new Map()
  const entries = await readLatestActors(db, action, targets)
  return new Map(entries.map(({ target, actor }) => [target!, actor]))
}

/** Rows read at once, and hashed in one turn of the event loop: about five milliseconds. */
const pageRows = 500
/** Name under which reads of a verification queue among those of keys. */
const reader = 'audit verification'

async function* allRows(database: Database): AsyncGenerator<ChainRow> {
  for (let after = 0; ; ) {
    const page = await database.scan(reader, (db) => readEntries(db, after, pageRows))
    for (const row of page) yield toRow(row)
    if (page.length < pageRows) return
    after = page.at(-1)!.seq
  }
}

/** The end of the chain, to be stored where no one with write access to the database can write. */
export async function auditCheckpoint(db: Db, now: number): Promise<Checkpoint> {
  const head = await readHead(db)
  if (!head) throw new AppError('internal', 'The end of the audit log is missing; run: wardline audit verify')
  return { seq: head.seq, hash: head.hash, at: now }
}

/** Checks the whole log, and that it ends where its head says. */
export async function verifyAudit(database: Database, checkpoint?: Checkpoint): Promise<ChainVerdict> {
  const head = await readHead(database.db)
  const result = await verifyChain(allRows(database), sha256Hex, checkpoint)
  if (!result.ok) return result
  const seq = result.headSeq + 1
  if (!head) return { ok: false, reason: 'tampered', seq, detail: 'The record of where the log ends is missing.' }
  if (result.headSeq >= head.seq) return result
  return {
    ok: false,
    reason: 'cut',
    seq,
    detail: `The log ends at entry ${result.headSeq}, but entry ${head.seq} was written.`,
  }
}
