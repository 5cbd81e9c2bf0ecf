import type { Database, Db, Statement } from '../../db/database.ts'
import type { Schema } from '../../db/schema.ts'

export type CommandLoginRow = Schema['command_logins']

export const insertLoginStatement = (db: Db, row: CommandLoginRow): Statement =>
  db.insertInto('command_logins').values(row).compile()

/** Returns the address of each login that waits, at most `limit`. */
export async function readWaitingAddresses(db: Db, now: number, limit: number): Promise<(string | null)[]> {
  const rows = await db
    .selectFrom('command_logins')
    .select('address')
    .where('expires_at', '>', now)
    .limit(limit)
    .execute()
  return rows.map(({ address }) => address)
}

/** Returns the login that waits under a challenge or code. */
export function findLogin(
  db: Db,
  by: Partial<Pick<CommandLoginRow, 'challenge' | 'code_hash'>>,
  now: number,
): Promise<CommandLoginRow | undefined> {
  let query = db.selectFrom('command_logins').selectAll().where('expires_at', '>', now)
  for (const [column, value] of Object.entries(by)) query = query.where(column as 'challenge', '=', value)
  return query.executeTakeFirst()
}

/** Marks a login as allowed, in a batch that fails as stale if it was allowed, refused or deleted since it was read. */
export function allowStatements(
  { db, dialect }: Database,
  { challenge }: CommandLoginRow,
  answerHash: string | null,
  now: number,
): Statement[] {
  const waiting = db
    .selectFrom('command_logins')
    .select('challenge')
    .where('challenge', '=', challenge)
    .where('allowed_at', 'is', null)
  const allow = db
    .updateTable('command_logins')
    .set({ allowed_at: now, answer_hash: answerHash })
    .where('challenge', '=', challenge)
  return [dialect.lockFound(waiting.compile()), allow.compile()]
}

/** Deletes a login that was allowed. Of concurrent batches only one succeeds. */
export function takeLoginStatements({ db, dialect }: Database, challenge: string): Statement[] {
  const allowed = db.selectFrom('command_logins').select('challenge').where('challenge', '=', challenge)
  return [
    dialect.lockFound(allowed.compile()),
    db.deleteFrom('command_logins').where('challenge', '=', challenge).compile(),
  ]
}

/** Deletes a login that nobody has allowed. */
export async function deleteLogin(db: Db, challenge: string): Promise<void> {
  await db.deleteFrom('command_logins').where('challenge', '=', challenge).where('allowed_at', 'is', null).execute()
}

export async function deleteLoginsBefore(db: Db, expiredBefore: number): Promise<void> {
  await db.deleteFrom('command_logins').where('expires_at', '<=', expiredBefore).execute()
}
