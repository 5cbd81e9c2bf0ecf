import { peopleLimits } from '@wardline/contract'
import type { Db, Statement } from '../../db/database.ts'
import type { Schema } from '../../db/schema.ts'

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
    .where('last_used_at', '>', idleBefore)
    .groupBy('key_id')
    .execute()
  return new Map(rows.map(({ key_id, count }) => [key_id, Number(count)]))
}

/** Ends the sessions of a person; `before`: only those that began before this time. */
export function endSessionsStatement(db: Db, keyId: string, before?: number): Statement {
  const all = db.deleteFrom('sessions').where('key_id', '=', keyId)
  return (before === undefined ? all : all.where('created_at', '<', before)).compile()
}

/** Ends the session that the provider calls so. */
export const endProviderSessionStatement = (db: Db, issuerSession: string, before: number): Statement =>
  db.deleteFrom('sessions').where('provider_session', '=', issuerSession).where('created_at', '<', before).compile()

export const endSessionStatement = (db: Db, tokenHash: string): Statement =>
  db.deleteFrom('sessions').where('token_hash', '=', tokenHash).compile()

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
