import type { Db } from '../../db/database.ts'
import type { StoredEvent } from '../../db/schema.ts'

/** Events after a seq in order, at most `limit`. */
export function readEventsAfter(db: Db, seq: number, limit: number): Promise<StoredEvent[]> {
  return db.selectFrom('events').selectAll().where('seq', '>', seq).orderBy('seq').limit(limit).execute()
}

export async function readLastSeq(db: Db): Promise<number> {
  const row = await db.selectFrom('counters').select('value').where('name', '=', 'event_seq').executeTakeFirstOrThrow()
  return Number(row.value)
}
