import type { Db, Statement } from '../../db/database.ts'
import type { Schema } from '../../db/schema.ts'

/** Marks an attempt as used. Fails the batch if it was used before. */
export const insertSignInStatement = (db: Db, row: Schema['sign_ins']): Statement =>
  db.insertInto('sign_ins').values(row).compile()

export async function deleteSignInsBefore(db: Db, expiredBefore: number): Promise<void> {
  await db.deleteFrom('sign_ins').where('expires_at', '<=', expiredBefore).execute()
}
