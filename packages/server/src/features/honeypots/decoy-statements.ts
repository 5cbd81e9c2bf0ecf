import { sql } from 'kysely'
import type { Database, Db } from '../../db/database.ts'
import { type JsonPage, readJsonPage } from '../../db/json-page.ts'

const nameColumns = ['id', 'path', 'key_type', 'label', 'instance_id'] as const

/**
 * Reads a page of how people name decoys that are not deleted, as rows of id, path, key_type, label and instance_id. A
 * value is stored nowhere.
 */
export const readDecoyPage = (database: Pick<Database, 'dialect'>, db: Db, page: JsonPage) =>
  readJsonPage(database, db, { table: 'honeypots', columns: nameColumns, where: sql`deleted_at is null` }, page)

/** Reads how people name these decoys, except deleted ones. */
export const readDecoyNames = (db: Db, ids: readonly string[]) =>
  db.selectFrom('honeypots').select(nameColumns).where('deleted_at', 'is', null).where('id', 'in', ids).execute()
