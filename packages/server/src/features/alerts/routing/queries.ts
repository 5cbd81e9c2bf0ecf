import type { Selectable } from 'kysely'
import { raiseCounter, readCounter } from '../../../db/counters.ts'
import type { Db, Statement, Trx } from '../../../db/database.ts'
import type { Schema } from '../../../db/schema.ts'
import type { Lane } from '../outbox/alert.ts'
import { newestAlert } from '../outbox/queries.ts'

// Owns the tables alert_channels, alert_routes and silences. A channel's row also contains the progress of planning and the
// health of its receiver: every change of these locks the row.

export type ChannelRow = Selectable<Schema['alert_channels']>
export type RouteRow = Selectable<Schema['alert_routes']>
export type SilenceRow = Selectable<Schema['silences']>

/** Columns of a channel's progress and health, which start empty. */
type HealthColumn =
  | 'planned_seq'
  | 'own_planned_seq'
  | 'failures'
  | 'resume_at'
  | 'failing_since'
  | 'last_delivered_at'
  | 'last_error'
  | 'last_error_at'
  | 'checked_at'
type NewChannelRow = Omit<ChannelRow, HealthColumn>

/** Counter that is incremented by every change of channels, routes and silences. */
export const readConfigVersion = (db: Db): Promise<number> => readCounter(db, 'alert_config')

/**
 * Counts a change of channels, routes or silences. Must be the first statement of its transaction: the lock on this row
 * serializes such changes, so that limits are exact and no route refers to a deleted channel.
 */
export async function countChange(trx: Trx): Promise<void> {
  await raiseCounter('alert_config', 1).execute(trx)
}

async function countRows(trx: Trx, table: 'alert_routes' | 'silences'): Promise<number> {
  const { count } = await trx
    .selectFrom(table)
    .select((e) => e.fn.countAll<number>().as('count'))
    .executeTakeFirstOrThrow()
  return count
}

// Channels.

export function readChannelRows(db: Db) {
  return db.selectFrom('alert_channels').selectAll().orderBy('created_at').orderBy('id').execute()
}

export function findChannel(db: Db, id: string): Promise<ChannelRow | undefined> {
  return db.selectFrom('alert_channels').selectAll().where('id', '=', id).executeTakeFirst()
}

/** Returns which of these channels have a row. */
export function findNamedChannels(trx: Trx, ids: readonly string[]) {
  return trx.selectFrom('alert_channels').select(['id', 'managed_by']).where('id', 'in', ids).execute()
}

/** Locks a channel until the transaction ends. */
export function readLockedChannel(trx: Trx, id: string): Promise<ChannelRow | undefined> {
  return trx
    .updateTable('alert_channels')
    .set((e) => ({ name: e.ref('name') }))
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirst()
}

export async function insertChannel(trx: Trx, row: NewChannelRow): Promise<void> {
  await trx
    .insertInto('alert_channels')
    .values({ ...row, planned_seq: newestAlert, own_planned_seq: newestAlert })
    .execute()
}

/** Updates an existing row only in the columns that depend on the environment. */
export async function insertMissingChannel(db: Db, row: NewChannelRow): Promise<void> {
  await db
    .insertInto('alert_channels')
    .values({ ...row, planned_seq: newestAlert, own_planned_seq: newestAlert })
    .onConflict((conflict) =>
      conflict.column('id').doUpdateSet((e) => ({
        name: e.ref('excluded.name'),
        destination: e.ref('excluded.destination'),
      })),
    )
    .execute()
}

export async function updateChannel(
  trx: Trx,
  id: string,
  columns: Partial<Omit<NewChannelRow, 'id' | 'type' | 'managed_by' | 'created_at'>>,
): Promise<void> {
  await trx.updateTable('alert_channels').set(columns).where('id', '=', id).execute()
}

/** Resets a channel: it starts with future alerts and without failures. */
export async function restartChannel(trx: Trx, id: string): Promise<void> {
  await trx
    .updateTable('alert_channels')
    .set({ planned_seq: newestAlert, own_planned_seq: newestAlert, failures: 0, resume_at: null, failing_since: null })
    .where('id', '=', id)
    .execute()
}

export async function deleteChannelRow(trx: Trx, id: string): Promise<void> {
  await trx.deleteFrom('alert_channels').where('id', '=', id).execute()
}

/** Counts the channels created by API. */
export async function countChannels(trx: Trx): Promise<number> {
  const { count } = await trx
    .selectFrom('alert_channels')
    .select((e) => e.fn.countAll<number>().as('count'))
    .where('managed_by', '=', 'api')
    .executeTakeFirstOrThrow()
  return count
}

/** Reads the enabled channels, of API and environment. */
export async function countEnabled(trx: Trx): Promise<number> {
  const { count } = await trx
    .selectFrom('alert_channels')
    .select((e) => e.fn.countAll<number>().as('count'))
    .where('enabled', '=', 1)
    .executeTakeFirstOrThrow()
  return count
}

// Progress of planning.

/** Progress of planning for an enabled channel, and health of its receiver. */
export interface ChannelProgress {
  id: string
  /** Alerts of the lane up to this seq were planned. */
  planned: Record<Lane, number>
  /** Failed attempts since the last delivery. */
  failures: number
  /** No attempts before this time; epoch milliseconds. */
  resumeAt: number | null
}

export async function readChannelProgress(db: Db): Promise<ChannelProgress[]> {
  const rows = await db
    .selectFrom('alert_channels')
    .select(['id', 'planned_seq', 'own_planned_seq', 'failures', 'resume_at'])
    .where('enabled', '=', 1)
    .execute()
  return rows.map(({ id, planned_seq, own_planned_seq, failures, resume_at }) => ({
    id,
    planned: { own: own_planned_seq ?? planned_seq, reported: planned_seq },
    failures,
    resumeAt: resume_at,
  }))
}

/**
 * Advances the channel's position in a lane. Resolves with the current row; undefined if another process was faster. Locks
 * the groups of this channel against other processes until the transaction ends.
 */
export function advancePlace(trx: Trx, channelId: string, lane: Lane, from: number, to: number) {
  const update = trx.updateTable('alert_channels').where('id', '=', channelId).where('enabled', '=', 1)
  return update
    .$if(lane === 'own', (own) =>
      own.set({ own_planned_seq: to }).where((e) => e(e.fn.coalesce('own_planned_seq', 'planned_seq'), '=', from)),
    )
    .$if(lane === 'reported', (reported) =>
      reported
        // The first advance in either lane separates the two positions.
        .set((e) => ({ planned_seq: to, own_planned_seq: e.fn.coalesce('own_planned_seq', 'planned_seq') }))
        .where('planned_seq', '=', from),
    )
    .returningAll()
    .executeTakeFirst()
}

/**
 * Locks the groups of this channel against other processes. Resolves with the current row; undefined if it was deleted or
 * disabled.
 */
export function lockChannel(trx: Trx, channelId: string): Promise<ChannelRow | undefined> {
  return trx
    .updateTable('alert_channels')
    .set((e) => ({ planned_seq: e.ref('planned_seq') }))
    .where('id', '=', channelId)
    .where('enabled', '=', 1)
    .returningAll()
    .executeTakeFirst()
}

/** Sorted, because all transactions lock channels in this order. */
export async function readChannelIds(trx: Trx): Promise<string[]> {
  const rows = await trx.selectFrom('alert_channels').select('id').orderBy('id').execute()
  return rows.map(({ id }) => id)
}

// Health.

/** Health of a receiver by the last attempts. `failures`: null after a delivery. */
export interface ReceiverState {
  channelId: string
  failures: number | null
  error: string | null
  now: number
  resumeAt: number | null
}

export function receiverStatement(db: Db, { channelId, failures, error, now, resumeAt }: ReceiverState): Statement {
  const update = db.updateTable('alert_channels').where('id', '=', channelId)
  const withError = error === null ? update : update.set({ last_error: error, last_error_at: now })
  return failures === null
    ? withError.set({ failures: 0, resume_at: null, last_delivered_at: now }).compile()
    : withError.set((e) => ({ failures: e('failures', '+', failures), resume_at: resumeAt })).compile()
}

/** Claims the daily check of a channel; succeeds in only one of several processes. */
export async function claimCheck(trx: Trx, channelId: string, checkedBefore: number, now: number): Promise<boolean> {
  const { numUpdatedRows } = await trx
    .updateTable('alert_channels')
    .set({ checked_at: now })
    .where('id', '=', channelId)
    .where('enabled', '=', 1)
    .where('daily_check', '=', 1)
    .where((e) => e.or([e('checked_at', 'is', null), e('checked_at', '<=', checkedBefore)]))
    .executeTakeFirstOrThrow()
  return numUpdatedRows === 1n
}

export function readUncheckedChannels(db: Db, checkedBefore: number) {
  return db
    .selectFrom('alert_channels')
    .select(['id', 'quiet_hours'])
    .where('enabled', '=', 1)
    .where('daily_check', '=', 1)
    .where((e) => e.or([e('checked_at', 'is', null), e('checked_at', '<=', checkedBefore)]))
    .execute()
}

/** Reads unreported channels with several consecutive failures and without a delivery since `deliveredBefore`. */
export function readFailing(db: Db, failures: number, deliveredBefore: number) {
  return db
    .selectFrom('alert_channels')
    .select(['id', 'name', 'type', 'last_error'])
    .where('enabled', '=', 1)
    .where('failing_since', 'is', null)
    .where('failures', '>=', failures)
    .where((e) => e(e.fn.coalesce('last_delivered_at', 'created_at'), '<', deliveredBefore))
    .orderBy('id')
    .execute()
}

export async function markFailing(trx: Trx, channelId: string, now: number): Promise<boolean> {
  const { numUpdatedRows } = await trx
    .updateTable('alert_channels')
    .set({ failing_since: now })
    .where('id', '=', channelId)
    .where('failing_since', 'is', null)
    .executeTakeFirstOrThrow()
  return numUpdatedRows === 1n
}

/** Marks reported channels as recovered that delivered a message since, or that are disabled. */
export async function markChannelsRecovered(trx: Trx): Promise<void> {
  await trx
    .updateTable('alert_channels')
    .set({ failing_since: null })
    .where('failing_since', 'is not', null)
    .where((e) => e.or([e('last_delivered_at', '>', e.ref('failing_since')), e('enabled', '=', 0)]))
    .execute()
}

/** Whether any of these channels fails. */
export async function hasFailing(db: Db, channelIds: readonly string[]): Promise<boolean> {
  if (channelIds.length === 0) return false
  const row = await db
    .selectFrom('alert_channels')
    .select('id')
    .where('failing_since', 'is not', null)
    .where('id', 'in', [...channelIds])
    .executeTakeFirst()
  return row !== undefined
}

// Routes.

export function readRouteRows(db: Db) {
  return db.selectFrom('alert_routes').selectAll().orderBy('created_at').orderBy('id').execute()
}

export const countRoutes = (trx: Trx): Promise<number> => countRows(trx, 'alert_routes')

export function findRoute(trx: Trx, id: string): Promise<RouteRow | undefined> {
  return trx.selectFrom('alert_routes').selectAll().where('id', '=', id).executeTakeFirst()
}

export async function insertRoute(trx: Trx, row: RouteRow): Promise<void> {
  await trx.insertInto('alert_routes').values(row).execute()
}

export async function updateRoute(trx: Trx, id: string, columns: Partial<Omit<RouteRow, 'id'>>): Promise<void> {
  await trx.updateTable('alert_routes').set(columns).where('id', '=', id).execute()
}

/** Returns the previous route; undefined if it is unknown. */
export function removeRoute(trx: Trx, id: string): Promise<RouteRow | undefined> {
  return trx.deleteFrom('alert_routes').where('id', '=', id).returningAll().executeTakeFirst()
}

/** Removes a channel from all routes, and deletes routes without another channel. Resolves with the deleted ones. */
export async function forgetChannel(trx: Trx, channelId: string) {
  const changed: { id: string; name: string; deleted: boolean }[] = []
  for (const { id, name, channels } of await readRouteRows(trx)) {
    const named: string[] = JSON.parse(channels)
    if (!named.includes(channelId)) continue
    const others = named.filter((other) => other !== channelId)
    const deleted = others.length === 0
    await (deleted ? removeRoute(trx, id) : updateRoute(trx, id, { channels: JSON.stringify(others) }))
    changed.push({ id, name, deleted })
  }
  return changed
}

// Silences.

/** Reads silences that have not ended. */
export function readSilenceRows(db: Db, now: number) {
  return db.selectFrom('silences').selectAll().where('ends_at', '>', now).orderBy('ends_at').orderBy('id').execute()
}

export const countSilences = (trx: Trx): Promise<number> => countRows(trx, 'silences')

export async function insertSilence(trx: Trx, row: SilenceRow): Promise<void> {
  await trx.insertInto('silences').values(row).execute()
}

/** Deletes ended silences: they have no effect, and the audit log records them. */
export async function forgetEndedSilences(trx: Trx, now: number): Promise<void> {
  await trx.deleteFrom('silences').where('ends_at', '<=', now).execute()
}

/** Returns the previous silence; undefined if it is unknown or has ended. */
export function removeSilence(trx: Trx, id: string, now: number): Promise<SilenceRow | undefined> {
  return trx.deleteFrom('silences').where('id', '=', id).where('ends_at', '>', now).returningAll().executeTakeFirst()
}
