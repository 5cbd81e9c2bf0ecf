import { peopleLimits } from '@wardline/contract'
import type { Database, Db, Statement } from '../../db/database.ts'
import type { Schema } from '../../db/schema.ts'

import { configuredKeyPrefix } from './key-format.ts'

export type SessionRow = Schema['sessions']

/** Characters of the hash of a session's token that name it: 128 bits, of which nothing of the token follows. */
const idLength = 32
export const sessionId = ({ token_hash }: Pick<SessionRow, 'token_hash'>): string => token_hash.slice(0, idLength)

/** Returns the sessions of a key or person, last used first. */
export function readSessionsOf(db: Db, keyId: string): Promise<SessionRow[]> {
  return db
    .selectFrom('sessions')
    .selectAll()
    .where('key_id', '=', keyId)
    .orderBy('last_used_at', 'desc')
    .limit(peopleLimits.sessions)
    .execute()
}

export function findSession(db: Db, tokenHash: string): Promise<SessionRow | undefined> {
  return db.selectFrom('sessions').selectAll().where('token_hash', '=', tokenHash).executeTakeFirst()
}

/** Returns the session with this public id. */
export function findSessionById(db: Db, id: string): Promise<SessionRow | undefined> {
  return db
    .selectFrom('sessions')
    .selectAll()
    .where('token_hash', '>=', id)
    .where('token_hash', '<', `${id}g`)
    .executeTakeFirst()
}

/** Counts the sessions of each key or person. */
export async function countSessionsOf(
  db: Db,
  keyIds: readonly string[],
  { now, idleBefore }: { now: number; idleBefore: number },
): Promise<Map<string, number>> {
  if (keyIds.length === 0) return new Map()
  const rows = await db
    .selectFrom('sessions')
    .select(['key_id', (e) => e.fn.countAll<number>().as('count')])
    .where('key_id', 'in', keyIds)
    .where('expires_at', '>', now)
    .where((e) => e.or([e('last_used_at', '>', idleBefore), e('host', 'is not', null)]))
    .groupBy('key_id')
    .execute()
  return new Map(rows.map(({ key_id, count }) => [key_id, Number(count)]))
}

/** Ends the sessions of a person. */
export const endSessionsStatement = (db: Db, keyId: string): Statement =>
  db.deleteFrom('sessions').where('key_id', '=', keyId).compile()

/** Sessions that a provider ends. */
interface ProviderLogout {
  person: string | undefined
  /** The provider's name of its session; undefined: all of the person. */
  providerSession: string | undefined
  before: number
}

/** Returns the sessions to end, at most `peopleLimits.sessions`; those of the person whose name at the provider is unknown are among them. */
export function readSessionsToEnd(db: Db, { person, providerSession, before }: ProviderLogout): Promise<SessionRow[]> {
  const begun = db
    .selectFrom('sessions')
    .selectAll()
    .where('created_at', '<', before)
    .where('evaluated_at', 'is not', null)
    .limit(peopleLimits.sessions)
  if (providerSession === undefined) return begun.where('key_id', '=', person!).execute()
  const unnamed = person === undefined ? [] : [person]
  return begun
    .where((e) =>
      e.or([
        e('provider_session', '=', providerSession),
        ...unnamed.map((id) => e.and([e('key_id', '=', id), e('provider_session', 'is', null)])),
      ]),
    )
    .execute()
}

/** Notes that the holder of the session proved just now who they are. */
export const confirmedStatement = (db: Db, tokenHash: string, now: number): Statement =>
  db.updateTable('sessions').set({ authenticated_at: now }).where('token_hash', '=', tokenHash).compile()

export const endSessionStatement = (db: Db, tokenHash: string): Statement =>
  db.deleteFrom('sessions').where('token_hash', '=', tokenHash).compile()

/** Ends the session and its family. A command line ends alone: its family is that of the browser that allowed it. */
export function endFamilyStatement(db: Db, tokenHash: string): Statement {
  const family = db
    .selectFrom('sessions')
    .select('family')
    .where('token_hash', '=', tokenHash)
    .where('host', 'is', null)
  return db
    .deleteFrom('sessions')
    .where((e) => e.or([e('token_hash', '=', tokenHash), e('family', 'in', family)]))
    .compile()
}

/** Returns the sessions of people whose groups are due, at most `limit`. */
export function readDueSessions(db: Db, now: number, limit: number): Promise<SessionRow[]> {
  return db.selectFrom('sessions').selectAll().where('due_at', '<=', now).orderBy('due_at').limit(limit).execute()
}

/** Claims a due session until `until`. False: another process has claimed it. */
export async function claimSession(db: Db, { token_hash, due_at }: SessionRow, until: number): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable('sessions')
    .set({ due_at: until })
    .where('token_hash', '=', token_hash)
    .where('due_at', '=', due_at)
    .executeTakeFirst()
  return numUpdatedRows > 0n
}

export const evaluatedStatement = (
  db: Db,
  tokenHash: string,
  evaluated: Pick<SessionRow, 'evaluated_at' | 'due_at' | 'sealed'>,
): Statement => db.updateTable('sessions').set(evaluated).where('token_hash', '=', tokenHash).compile()

/** Gives the session of a command line its first secret. */
export const fetchedStatement = (db: Db, tokenHash: string, secretHash: string, now: number): Statement =>
  db
    .updateTable('sessions')
    .set({ secret_hash: secretHash, last_used_at: now })
    .where('token_hash', '=', tokenHash)
    .where('secret_hash', 'is', null)
    .compile()

/** Hexadecimal digits of a SHA-256. */
const hashLength = 64

/** Returns the hashes of the secret of a command line and, once it was replaced, of the one before. */
export const secretHashes = (stored: string): [current: string, previous?: string] => {
  const [current, previous] = [stored.slice(0, hashLength), stored.slice(hashLength)]
  return previous === '' ? [current] : [current, previous]
}

/** Replaces the secret of a session, in a batch that fails as stale if the session has ended or has another one by now. */
export function renewStatements(
  { db, dialect }: Database,
  { token_hash, secret_hash }: SessionRow,
  { previous, next }: Record<'previous' | 'next', string>,
  now: number,
): Statement[] {
  const asRead = db
    .selectFrom('sessions')
    .select('token_hash')
    .where('token_hash', '=', token_hash)
    .where('secret_hash', '=', secret_hash)
  const replace = db
    .updateTable('sessions')
    .set({ secret_hash: next + previous, last_used_at: now })
    .where('token_hash', '=', token_hash)
  return [dialect.lockFound(asRead.compile()), replace.compile()]
}

/** Ends the sessions of keys; those of people, by their prefix, and of the named keys and passkeys stay. */
export const endKeySessionsStatement = (db: Db, personPrefix: string, kept: readonly string[]): Statement =>
  db
    .deleteFrom('sessions')
    .where('key_id', 'not like', `${personPrefix}%`)
    .where('key_id', 'not like', `${configuredKeyPrefix}%`)
    .$if(kept.length > 0, (query) => query.where('key_id', 'not in', kept))
    .compile()
