import { sql } from 'kysely'
import type { Database, Db, Statement } from '../../db/database.ts'
import type { Schema } from '../../db/schema.ts'
import type { SessionRow } from './session-statements.ts'

export type KeyRow = Schema['api_keys']

export function readKeys(db: Db): Promise<KeyRow[]> {
  return db.selectFrom('api_keys').selectAll().orderBy('created_at').orderBy('id').execute()
}

export function readKeyNames(db: Db, ids: readonly string[]): Promise<Pick<KeyRow, 'id' | 'name'>[]> {
  return db.selectFrom('api_keys').select(['id', 'name']).where('id', 'in', ids).execute()
}

/** Returns the ids of all keys with this name. */
export async function readKeyIds(db: Db, name: string): Promise<string[]> {
  const rows = await db.selectFrom('api_keys').select('id').where('name', '=', name).execute()
  return rows.map(({ id }) => id)
}

/** Returns the key if it is not revoked. */
export function findKey(db: Db, id: string): Promise<KeyRow | undefined> {
  return db.selectFrom('api_keys').selectAll().where('id', '=', id).where('revoked_at', 'is', null).executeTakeFirst()
}

/** Locks a key that is not revoked and whose expiry and quotas have not changed since it was read. */
export function lockKey({ db, dialect }: Database, { id, expires_at, quotas }: KeyRow): Statement {
  const asRead = db
    .selectFrom('api_keys')
    .select('id')
    .where('id', '=', id)
    .where('revoked_at', 'is', null)
    .where('expires_at', expires_at === null ? 'is' : '=', expires_at as never)
    .where('quotas', quotas === null ? 'is' : '=', quotas as never)
  return dialect.lockFound(asRead.compile())
}

export function insertKeyStatement(db: Db, row: KeyRow): Statement {
  return db.insertInto('api_keys').values(row).compile()
}

export function revokeKeyStatement(db: Db, id: string, now: number): Statement {
  return db.updateTable('api_keys').set({ revoked_at: now }).where('id', '=', id).compile()
}

/** Sets the expiry of the key to `expiresAt` unless it already expires earlier. */
export function expireKeyStatement(db: Db, id: string, expiresAt: number): Statement {
  return db
    .updateTable('api_keys')
    .set({ expires_at: expiresAt })
    .where('id', '=', id)
    .where((e) => e.or([e('expires_at', 'is', null), e('expires_at', '>', expiresAt)]))
    .compile()
}

export function quotasStatement(db: Db, id: string, quotas: string | null): Statement {
  return db.updateTable('api_keys').set({ quotas }).where('id', '=', id).compile()
}

export async function touchKeys({ db, dialect }: Database, used: readonly [id: string, at: number][]): Promise<void> {
  const rows = dialect.rowsFromJson(JSON.stringify(used), { id: 'text', at: 'bigint' })
  await sql`update api_keys set last_used_at = used.at from ${rows} as used where api_keys.id = used.id`.execute(db)
}

export function insertSessionStatement(db: Db, row: SessionRow): Statement {
  return db.insertInto('sessions').values(row).compile()
}

export async function touchSession(db: Db, tokenHash: string, now: number): Promise<void> {
  await db.updateTable('sessions').set({ last_used_at: now }).where('token_hash', '=', tokenHash).execute()
}

export function findSessions(db: Db, tokenHashes: readonly string[]): Promise<SessionRow[]> {
  return db.selectFrom('sessions').selectAll().where('token_hash', 'in', tokenHashes).execute()
}

export async function deleteStaleSessions(
  db: Db,
  {
    expiredBefore,
    idleBefore,
    unevaluatedBefore,
    unfetchedBefore,
  }: Record<`${'expired' | 'idle' | 'unevaluated' | 'unfetched'}Before`, number>,
): Promise<void> {
  await db
    .deleteFrom('sessions')
    .where((e) =>
      e.or([
        e('expires_at', '<', expiredBefore),
        e.and([e('host', 'is', null), e('last_used_at', '<', idleBefore)]),
        e.and([e('host', 'is not', null), e('secret_hash', 'is', null), e('created_at', '<', unfetchedBefore)]),
        e('evaluated_at', '<', unevaluatedBefore),
      ]),
    )
    .execute()
}

/** Stores a code; it replaces the previous code of the key. */
export function loginCodeStatement(db: Db, row: Schema['login_codes']): Statement {
  const { key_id: _keyId, ...columns } = row
  return db
    .insertInto('login_codes')
    .values(row)
    .onConflict((conflict) => conflict.column('key_id').doUpdateSet(columns))
    .compile()
}

/** Returns the key of a code that has not expired. */
export async function findLoginCode(db: Db, codeHash: string, now: number): Promise<string | undefined> {
  const row = await db
    .selectFrom('login_codes')
    .select('key_id')
    .where('code_hash', '=', codeHash)
    .where('expires_at', '>', now)
    .executeTakeFirst()
  return row?.key_id
}

/** Deletes a code that has not expired. Of concurrent batches only one succeeds. */
export function takeLoginCodeStatements({ db, dialect }: Database, codeHash: string, now: number): Statement[] {
  const valid = db
    .selectFrom('login_codes')
    .select('key_id')
    .where('code_hash', '=', codeHash)
    .where('expires_at', '>', now)
  return [dialect.lockFound(valid.compile()), db.deleteFrom('login_codes').where('code_hash', '=', codeHash).compile()]
}

export async function deleteLoginCodesBefore(db: Db, expiredBefore: number): Promise<void> {
  await db.deleteFrom('login_codes').where('expires_at', '<=', expiredBefore).execute()
}
