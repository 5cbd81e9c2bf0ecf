import { type ChainRow, type ChainVerdict, type Checkpoint, type Json, verifyChain } from '@wardline/contract'
import type { Database, Db, Statement, Trx } from '../../db/database.ts'
import { pagesOf } from '../../db/portions.ts'
import type { Schema } from '../../db/schema.ts'
import { AppError } from '../../errors.ts'
import { sha256Hex } from './chain.ts'
import {
  appendManyStatements,
  appendStatements,
  readEntries,
  readExtent,
  readHead,
  readLatestActors,
} from './queries.ts'

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

/** Returns the actor for the service or for its command line on the same machine. */
export const localActor = (name: keyof typeof localNames): Actor => ({
  keyId: name,
  name: localNames[name],
  scope: 'local',
  ip: null,
  requestId: null,
})

/** Ids of keys contain no colon. */
const channelPrefix = 'channel:'

/** Returns the actor for the press on a button of an alert. The name is part of the id, because channels are deleted. */
export const channelActor = (name: string, ip: string | null, requestId: string | null): Actor => ({
  keyId: `${channelPrefix}${name}`,
  name,
  scope: 'channel',
  ip,
  requestId,
})

/** Returns the display name of an actor that is a channel; undefined for any other. */
export const channelName = (actor: string): string | undefined =>
  actor.startsWith(channelPrefix) ? `${actor.slice(channelPrefix.length)} (channel)` : undefined

/** Resolves the names of keys. It is injected because the keys feature imports this one. */
export interface KeyNames {
  /** Returns names by id, including those of revoked and expired keys. */
  names(db: Db, actors: readonly string[]): Promise<Map<string, string>>
  /** Returns the ids of all keys with this id or name. Names are not unique. */
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
 * Returns statements that append an entry to the chain. They belong in the same batch as the change, so that both are
 * committed or neither, and at its end, because they lock the head of the chain for all other changes.
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

/** Like `auditStatements` for one action on many targets, with an entry for each; much cheaper than one by one. */
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

/** Appends an entry within a transaction, for changes that need query results and therefore cannot be a batch. */
export async function recordAction(
  database: Database,
  trx: Trx,
  actor: Actor,
  action: Action,
  now: number,
): Promise<void> {
  for (const statement of auditStatements(database, actor, action, now)) await trx.executeQuery(statement)
}

/**
 * Parses a state. Text that the service cannot have written is returned within an object, so that it does not match the
 * hash: white space, duplicate keys or NULL have the same value here, but not for other readers of the database.
 */
function parsed(text: string | null): Json {
  try {
    const state: Json = JSON.parse(text ?? '')
    if (JSON.stringify(state) === text) return state
  } catch {}
  return { altered: text }
}

/** Parses the JSON columns of a stored row. */
export const toRow = (row: Schema['audit_log']): ChainRow => ({
  ...row,
  seq: row.seq,
  at: row.at,
  scope: row.scope ?? '',
  before: parsed(row.before),
  after: parsed(row.after),
})

/** Returns the key id of the last actor of an action, by target. */
export async function lastActors(db: Db, action: string, targets: readonly string[]): Promise<Map<string, string>> {
  if (targets.length === 0) return new Map()
  const entries = await readLatestActors(db, action, targets)
  return new Map(entries.map(({ target, actor }) => [target!, actor]))
}

/** Rows per query, hashed in one turn of the event loop: about 5 ms. */
const pageRows = 500
/** Caller name of a verification in `database.scan`, which lets callers take turns. */
const reader = 'audit verification'

async function* allRows(database: Database): AsyncGenerator<ChainRow> {
  // No lower bound: rows before the first entry were added by others.
  const pages = pagesOf(pageRows, (last?: { seq: number }) =>
    database.scan(reader, (db) => readEntries(db, last?.seq, pageRows)),
  )
  for await (const page of pages) yield* page.map(toRow)
}

/** Returns the end of the chain. Store it out of reach of accounts with write access to the database. */
export async function auditCheckpoint(db: Db, now: number): Promise<Checkpoint> {
  const head = await readHead(db)
  if (!head) throw new AppError('internal', 'The end of the audit log is missing; run: wardline audit verify')
  return { seq: head.seq, hash: head.hash, at: now }
}

/** Verifies the whole log, that it ends at the recorded head, and that the table has no other rows. */
export async function verifyAudit(database: Database, checkpoint?: Checkpoint): Promise<ChainVerdict> {
  const head = await readHead(database.db)
  const result = await verifyChain(allRows(database), sha256Hex, checkpoint)
  if (!result.ok) return result
  const seq = result.headSeq + 1
  if (!head) return { ok: false, reason: 'tampered', seq, detail: 'The stored end of the log is missing.' }
  if (result.headSeq < head.seq) {
    const detail = `The log ends at entry ${result.headSeq}, but entry ${head.seq} was written.`
    return { ok: false, reason: 'cut', seq, detail }
  }
  // Entries may have been appended since, so rows and head are of one reading.
  const { rows, last } = await database.scan(reader, readExtent)
  if (rows === last) return result
  const added = result.headSeq > last ? `Entry ${last + 1} was added` : 'Others were added or deleted'
  const detail = `${last} entries were written, but the table has ${rows} rows. ${added} outside the service.`
  return { ok: false, reason: 'tampered', seq: last + 1, detail }
}
