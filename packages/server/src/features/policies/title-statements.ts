import type { Db } from '../../db/database.ts'

/** Reads the titles of all policies. */
export function readPolicyTitles(db: Db) {
  return db.selectFrom('policies').select(['id', 'title', 'mode']).orderBy('title').execute()
}
