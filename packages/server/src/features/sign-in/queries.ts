import type { Database, Db, Statement } from '../../db/database.ts'
import type { Schema } from '../../db/schema.ts'

export type SignInRow = Schema['sign_ins']

export const insertSignInStatement = (db: Db, row: SignInRow): Statement =>
  db.insertInto('sign_ins').values(row).compile()

export function findSignIn(db: Db, stateHash: string, now: number): Promise<SignInRow | undefined> {
  return db
    .selectFrom('sign_ins')
    .selectAll()
    .where('state_hash', '=', stateHash)
    .where('expires_at', '>', now)
    .executeTakeFirst()
}

/** Takes an attempt. Of concurrent batches only one succeeds. */
export function takeSignInStatements({ db, dialect }: Database, stateHash: string): Statement[] {
  const found = db.selectFrom('sign_ins').select('state_hash').where('state_hash', '=', stateHash)
  return [dialect.lockFound(found.compile()), db.deleteFrom('sign_ins').where('state_hash', '=', stateHash).compile()]
}

export async function deleteSignInsBefore(db: Db, expiredBefore: number): Promise<void> {
  await db.deleteFrom('sign_ins').where('expires_at', '<=', expiredBefore).execute()
}

export async function countSignIns(db: Db): Promise<number> {
  const { count } = await db
    .selectFrom('sign_ins')
    .select((e) => e.fn.countAll<number>().as('count'))
    .executeTakeFirstOrThrow()
  return Number(count)
}
