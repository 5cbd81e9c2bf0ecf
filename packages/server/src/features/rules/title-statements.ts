import type { Db } from '../../db/database.ts'

/** Reads the titles of all rules. */
export function readRuleTitles(db: Db) {
  return db.selectFrom('rules').select(['id', 'title', 'mode']).orderBy('title').execute()
}

/** Reads the names of all lists. */
export function readListNames(db: Db) {
  return db.selectFrom('rule_lists').select(['name', 'description']).orderBy('name').execute()
}
