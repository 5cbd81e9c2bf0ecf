import type { Db } from '../../db/database.ts'

/** Reads the titles of all rules. */
export function readRuleTitles(db: Db) {
  return db.selectFrom('rules').select(['id', 'title', 'mode']).orderBy('title').execute()
}
