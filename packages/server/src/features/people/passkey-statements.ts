import type { Database, Db, Statement } from '../../db/database.ts'
import type { Schema } from '../../db/schema.ts'

/** Prefix of the ids of passkeys, as `personPrefix` is of those of people. */
export const passkeyPrefix = 'passkey-'
export const isPasskeyId = (id: string): boolean => id.startsWith(passkeyPrefix)

export type PasskeyRow = Schema['passkeys']

/** Returns names by id, also of removed passkeys. */
export function readPasskeyNames(db: Db, ids: readonly string[]): Promise<{ id: string; name: string }[]> {
  return db.selectFrom('passkeys').select(['id', 'name']).where('id', 'in', ids).execute()
}

/** Returns the ids of all passkeys with this name. */
export async function readPasskeyIds(db: Db, name: string): Promise<string[]> {
  const rows = await db.selectFrom('passkeys').select('id').where('name', '=', name).execute()
  return rows.map(({ id }) => id)
}

/** Returns the passkeys that are not removed, oldest first. */
export function readPasskeys(db: Db): Promise<PasskeyRow[]> {
  return db
    .selectFrom('passkeys')
    .selectAll()
    .where('removed_at', 'is', null)
    .orderBy('created_at')
    .orderBy('id')
    .execute()
}

export const insertPasskeyStatement = (db: Db, row: PasskeyRow): Statement =>
  db.insertInto('passkeys').values(row).compile()

/** Locks a passkey that is not removed, and that has not signed since it was read. */
export function lockPasskey({ db, dialect }: Database, { id, counter, last_used_at }: PasskeyRow): Statement {
  const asRead = db
    .selectFrom('passkeys')
    .select('id')
    .where('id', '=', id)
    .where('counter', '=', counter)
    .where('last_used_at', last_used_at === null ? 'is' : '=', last_used_at as never)
    .where('removed_at', 'is', null)
  return dialect.lockFound(asRead.compile())
}

export const usedStatement = (db: Db, id: string, counter: number, now: number): Statement =>
  db.updateTable('passkeys').set({ counter, last_used_at: now }).where('id', '=', id).compile()

export const removePasskeyStatement = (db: Db, id: string, now: number): Statement =>
  db.updateTable('passkeys').set({ removed_at: now }).where('id', '=', id).compile()
