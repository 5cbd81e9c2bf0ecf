import type { Selectable } from 'kysely'
import type { Db } from '../../db/database.ts'
import type { Schema } from '../../db/schema.ts'

export type ChannelRow = Selectable<Schema['alert_channels']>
export type RouteRow = Selectable<Schema['alert_routes']>
export type SilenceRow = Selectable<Schema['silences']>

/** Grows with every change of channels, routes and silences. */
export async function readConfigVersion(db: Db): Promise<number> {
  const row = await db.selectFrom('counters').select('value').where('name', '=', 'alert_config').executeTakeFirst()
  return Number(row?.value ?? 0)
}

export function readChannelRows(db: Db) {
  return db.selectFrom('alert_channels').selectAll().orderBy('created_at').orderBy('id').execute()
}

export function readRouteRows(db: Db) {
  return db.selectFrom('alert_routes').selectAll().orderBy('created_at').orderBy('id').execute()
}

/** Silences that have not ended. */
export function readSilenceRows(db: Db, now: number) {
  return db.selectFrom('silences').selectAll().where('ends_at', '>', now).orderBy('ends_at').orderBy('id').execute()
}
