import type { Db, Trx } from '../../db/database.ts'
import type { Schema } from '../../db/schema.ts'

export type ViewRow = Schema['views']

/** Returns all views, sorted by name. `limits.views` bounds their number. */
export function readViews(db: Db): Promise<ViewRow[]> {
  return db.selectFrom('views').selectAll().orderBy('name').orderBy('id').execute()
}

export function findView(db: Db, id: string): Promise<ViewRow | undefined> {
  return db.selectFrom('views').selectAll().where('id', '=', id).executeTakeFirst()
}

export async function insertView(trx: Trx, row: ViewRow): Promise<void> {
  await trx.insertInto('views').values(row).execute()
}

export async function updateView(trx: Trx, { id, ...columns }: Omit<ViewRow, 'owner' | 'created_at'>): Promise<void> {
  await trx.updateTable('views').set(columns).where('id', '=', id).execute()
}

export async function removeView(trx: Trx, id: string): Promise<void> {
  await trx.deleteFrom('views').where('id', '=', id).execute()
}
