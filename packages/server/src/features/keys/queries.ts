import type { Db, Trx } from '../../db/database.ts'
import type { Schema } from '../../db/schema.ts'

export type KeyRow = Schema['api_keys']
type SessionRow = Schema['sessions']

export function readKeys(db: Db): Promise<KeyRow[]> {
  return db.selectFrom('api_keys').selectAll().orderBy('created_at').orderBy('id').execute()
}

/** A key that is not revoked, and cannot be by anyone else until the transaction ends. */
export function holdKey(trx: Trx, id: string): Promise<KeyRow | undefined> {
  return trx
    .updateTable('api_keys')
    .set((e) => ({ name: e.ref('name') }))
    .where('id', '=', id)
    .where('revoked_at', 'is', null)
    .returningAll()
    .executeTakeFirst()
}

export async function insertKey(trx: Trx, row: KeyRow): Promise<void> {
  await trx.insertInto('api_keys').values(row).execute()
}

/** Marks the key revoked unless it is; false when nothing changed. */
export async function revokeKeyRow(trx: Trx, id: string, now: number): Promise<boolean> {
  const { numUpdatedRows } = await trx
    .updateTable('api_keys')
    .set({ revoked_at: now })
    .where('id', '=', id)
    .where('revoked_at', 'is', null)
    .executeTakeFirstOrThrow()
  return numUpdatedRows === 1n
}

/** Lets the key end at `expiresAt`, never later than it would have. */
export async function expireKeyRow(trx: Trx, id: string, expiresAt: number): Promise<void> {
  await trx
    .updateTable('api_keys')
    .set({ expires_at: expiresAt })
    .where('id', '=', id)
    .where((e) => e.or([e('expires_at', 'is', null), e('expires_at', '>', expiresAt)]))
    .execute()
}

export async function touchKeys(db: Db, ids: readonly string[], now: number): Promise<void> {
  await db.updateTable('api_keys').set({ last_used_at: now }).where('id', 'in', ids).execute()
}

export async function insertSession(db: Db, row: SessionRow): Promise<void> {
  await db.insertInto('sessions').values(row).execute()
}

export function findSession(db: Db, tokenHash: string): Promise<SessionRow | undefined> {
  return db.selectFrom('sessions').selectAll().where('token_hash', '=', tokenHash).executeTakeFirst()
}

export async function touchSession(db: Db, tokenHash: string, now: number): Promise<void> {
  await db.updateTable('sessions').set({ last_used_at: now }).where('token_hash', '=', tokenHash).execute()
}

export async function deleteSessionRow(db: Db, tokenHash: string): Promise<void> {
  await db.deleteFrom('sessions').where('token_hash', '=', tokenHash).execute()
}

export async function deleteStaleSessions(db: Db, expiredBefore: number, idleBefore: number): Promise<void> {
  await db
    .deleteFrom('sessions')
    .where((e) => e.or([e('expires_at', '<', expiredBefore), e('last_used_at', '<', idleBefore)]))
    .execute()
}
