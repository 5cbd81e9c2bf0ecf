import { limits } from '@wardline/contract'
import type { Database, Db, Statement } from '../../db/database.ts'
import type { Schema } from '../../db/schema.ts'

type IgnoreRow = Schema['decoy_ignores']

const running = (db: Db, now: number) => db.selectFrom('decoy_ignores').selectAll().where('until_at', '>', now)

export async function isToolIgnored(db: Db, tool: string, now: number): Promise<boolean> {
  return (await running(db, now).where('tool', '=', tool).limit(1).executeTakeFirst()) !== undefined
}

export function readIgnores(db: Db, now: number): Promise<IgnoreRow[]> {
  return running(db, now).orderBy('id').limit(limits.decoyIgnores).execute()
}

export function findIgnore(db: Db, id: string, now: number): Promise<IgnoreRow | undefined> {
  return running(db, now).where('id', '=', id).executeTakeFirst()
}

/** Also deletes the ignore rules that have ended. */
export const insertIgnore = (db: Db, row: IgnoreRow): Statement[] => [
  db.deleteFrom('decoy_ignores').where('until_at', '<=', row.created_at).compile(),
  db.insertInto('decoy_ignores').values(row).compile(),
]

/** The batch fails as stale if the rule is already deleted. */
export const removeIgnore = ({ db, dialect }: Database, id: string): Statement[] => [
  dialect.lockFound(db.selectFrom('decoy_ignores').select('id').where('id', '=', id).compile()),
  db.deleteFrom('decoy_ignores').where('id', '=', id).compile(),
]
