import type { Db } from '../../db/database.ts'

/** Reads the counts of an instance by hour and process, in [from, to). */
export function readInstanceHours(db: Db, id: string, range: { from: number; to: number }) {
  return db
    .selectFrom('instance_hours')
    .select(['hour', 'counts'])
    .where('instance_id', '=', id)
    .where('hour', '>=', range.from)
    .where('hour', '<', range.to)
    .orderBy('hour')
    .execute()
}
