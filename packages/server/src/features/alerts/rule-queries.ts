import type { Db, Trx } from '../../db/database.ts'
import type { RouteRow, SilenceRow } from './directory-queries.ts'

export async function insertRoute(trx: Trx, row: RouteRow): Promise<void> {
  await trx.insertInto('alert_routes').values(row).execute()
}

export function findRoute(trx: Trx, id: string): Promise<RouteRow | undefined> {
  return trx.selectFrom('alert_routes').selectAll().where('id', '=', id).executeTakeFirst()
}

export async function updateRoute(trx: Trx, id: string, columns: Partial<Omit<RouteRow, 'id'>>): Promise<void> {
  await trx.updateTable('alert_routes').set(columns).where('id', '=', id).execute()
}

/** The route that was; undefined when it is unknown. */
export function removeRoute(trx: Trx, id: string): Promise<RouteRow | undefined> {
  return trx.deleteFrom('alert_routes').where('id', '=', id).returningAll().executeTakeFirst()
}

export async function countRoutes(trx: Trx): Promise<number> {
  const { count } = await trx
    .selectFrom('alert_routes')
    .select((e) => e.fn.countAll<number>().as('count'))
    .executeTakeFirstOrThrow()
  return Number(count)
}

/** Takes a channel out of all routes, and removes those that named no other. Says which they were. */
export async function forgetChannel(
  trx: Trx,
  channelId: string,
): Promise<{ id: string; name: string; deleted: boolean }[]> {
  const routes = await trx.selectFrom('alert_routes').selectAll().orderBy('id').execute()
  const changed = []
  for (const { id, name, channels } of routes) {
    const named: string[] = JSON.parse(channels)
    if (!named.includes(channelId)) continue
    const others = named.filter((other) => other !== channelId)
    const deleted = others.length === 0
    await (deleted ? removeRoute(trx, id) : updateRoute(trx, id, { channels: JSON.stringify(others) }))
    changed.push({ id, name, deleted })
  }
  return changed
}

/** Which of these channels have a row. */
export function findNamedChannels(trx: Trx, ids: readonly string[]) {
  return trx.selectFrom('alert_channels').select(['id', 'managed_by']).where('id', 'in', ids).execute()
}

export async function insertSilence(trx: Trx, row: SilenceRow): Promise<void> {
  await trx.insertInto('silences').values(row).execute()
}

/** Silences that ended keep nothing quiet and explain nothing that the audit log does not. */
export async function forgetEndedSilences(trx: Trx, now: number): Promise<void> {
  await trx.deleteFrom('silences').where('ends_at', '<=', now).execute()
}

export async function countSilences(db: Db): Promise<number> {
  const { count } = await db
    .selectFrom('silences')
    .select((e) => e.fn.countAll<number>().as('count'))
    .executeTakeFirstOrThrow()
  return Number(count)
}

/** The silence that was; undefined when it is unknown or ended already. */
export function removeSilence(trx: Trx, id: string, now: number): Promise<SilenceRow | undefined> {
  return trx.deleteFrom('silences').where('id', '=', id).where('ends_at', '>', now).returningAll().executeTakeFirst()
}
