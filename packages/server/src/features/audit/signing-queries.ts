import type { Db, Statement } from '../../db/database.ts'
import type { Schema } from '../../db/schema.ts'

export type SigningKeyRow = Schema['signing_keys']

/** Returns the newest key first. */
export function readSigningKeys(db: Db): Promise<SigningKeyRow[]> {
  return db.selectFrom('signing_keys').selectAll().orderBy('generation', 'desc').execute()
}

/** Fails if the generation exists, so that only one of two concurrent rotations succeeds. */
export function insertSigningKeyStatement(db: Db, row: SigningKeyRow): Statement {
  return db.insertInto('signing_keys').values(row).compile()
}

export function endSigningKeyStatement(db: Db, generation: number, until: number): Statement {
  return db.updateTable('signing_keys').set({ valid_until: until }).where('generation', '=', generation).compile()
}
