import type { Db, Trx } from '../../db/database.ts'
import type { Schema } from '../../db/schema.ts'

type Row = Schema['audit_log']

/** Takes the next place in the chain. The update makes other appenders wait until this transaction ends. */
export async function takeNextPlace(trx: Trx): Promise<{ seq: number; previousHash: string }> {
  const head = await trx
    .updateTable('audit_head')
    .set((e) => ({ seq: e('seq', '+', 1) }))
    .where('id', '=', 1)
    .returning(['seq', 'hash'])
    .executeTakeFirstOrThrow()
  return { seq: Number(head.seq), previousHash: head.hash }
}

export async function insertEntry(trx: Trx, row: Row): Promise<void> {
  await trx.insertInto('audit_log').values(row).execute()
  await trx.updateTable('audit_head').set({ hash: row.hash }).where('id', '=', 1).execute()
}

export function readEntries(db: Db, afterSeq: number, limit: number): Promise<Row[]> {
  return db.selectFrom('audit_log').selectAll().where('seq', '>', afterSeq).orderBy('seq').limit(limit).execute()
}

/** The end of the chain; undefined when somebody removed it. */
export function readHead(db: Db): Promise<{ seq: number; hash: string } | undefined> {
  return db.selectFrom('audit_head').select(['seq', 'hash']).where('id', '=', 1).executeTakeFirst()
}
