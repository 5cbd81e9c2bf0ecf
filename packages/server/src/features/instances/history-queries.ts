import { sql } from 'kysely'
import type { Database, Db, Statement } from '../../db/database.ts'
import { deleteInPortions } from '../../db/portions.ts'
import type { Schema } from '../../db/schema.ts'

type HourRow = Schema['instance_hours']

/** Instance id, hour, counts. */
export type HourCells = [string, number, string]

/** Replaces whole hours of registered instances; returns the ids of these instances. */
export function hoursStatement({ db, dialect }: Database, writer: string, rows: readonly HourCells[]): Statement {
  const columns = { instance_id: 'text', hour: 'bigint', counts: 'text' } as const
  return sql`insert into instance_hours (instance_id, hour, writer, counts)
    select instance_id, hour, ${writer}, counts from ${dialect.rowsFromJson(JSON.stringify(rows), columns)} as batch
    where exists (select 1 from instances where instances.id = batch.instance_id)
    on conflict (instance_id, hour, writer) do update set counts = excluded.counts
    returning instance_id`.compile(db)
}

/** Reads instances after an id that sent a heartbeat since an instant. */
export function readAlive(db: Db, after: string, since: number, limit: number) {
  return db
    .selectFrom('instances')
    .select(['id', 'suspended', 'control_changed_at'])
    .where('id', '>', after)
    .where('last_heartbeat_at', '>=', since)
    .orderBy('id')
    .limit(limit)
    .execute()
}

/** Reads the hours of these instances from all processes, starting with an hour. */
export function readHours(db: Db, ids: readonly string[], since: number): Promise<Omit<HourRow, 'writer'>[]> {
  return db
    .selectFrom('instance_hours')
    .select(['instance_id', 'hour', 'counts'])
    .where('instance_id', 'in', ids)
    .where('hour', '>=', since)
    .execute()
}

export const deleteHoursBefore = (db: Db, hour: number, stopping?: AbortSignal): Promise<void> =>
  deleteInPortions(
    db,
    'instance_hours',
    { key: ['instance_id', 'hour', 'writer'], where: sql`hour < ${hour}` },
    stopping,
  )
