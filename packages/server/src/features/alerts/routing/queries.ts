import type { Selectable } from 'kysely'
import { raiseCounter, readCounter } from '../../../db/counters.ts'
import type { Db, Statement, Trx } from '../../../db/database.ts'
import type { Schema } from '../../../db/schema.ts'
import type { Lane } from '../outbox/alert.ts'
import { newestAlert } from '../outbox/queries.ts'

// The tables of routing: alert_channels, alert_routes and silences. A channel's row also holds how far planning has come
// for it, and what its receiver answered last: every change of these locks it.

export type ChannelRow = Selectable<Schema['alert_channels']>
export type RouteRow = Selectable<Schema['alert_routes']>
export type SilenceRow = Selectable<Schema['silences']>

/** Columns of a channel's progress and health, which begin empty. */
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

/** Grows with every change of channels, routes and silences. */
export const readConfigVersion = (db: Db): Promise<number> => readCounter(db, 'alert_config')

/**
 * Counts a change of channels, routes or silences. To be the first statement of its transaction: the lock on this row
 * makes such changes wait for each other, so that limits are exact and no route names a channel that was just deleted.
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

/** Which of these channels have a row. */
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

/** Of a row that exists only what follows from the environment is updated. */
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

/** Starts a channel over with the alerts to come, and without earlier failures. */
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

/** Channels created by API. */
export async function countChannels(trx: Trx): Promise<number> {
  const { count } = await trx
    .selectFrom('alert_channels')
    .select((e) => e.fn.countAll<number>().as('count'))
    .where('managed_by', '=', 'api')
    .executeTakeFirstOrThrow()
  return count
}

/** Enabled channels, wherever they are named. */
export async function countEnabled(trx: Trx): Promise<number> {
  const { count } = await trx
    .selectFrom('alert_channels')
    .select((e) => e.fn.countAll<number>().as('count'))
    .where('enabled', '=', 1)
    .executeTakeFirstOrThrow()
  return count
}

// Progress of planning.

/** How far an enabled channel has come, and how its receiver does. */
export interface ChannelProgress {
  id: string
  /** Alerts of the lane up to this seq were planned. */
  planned: Record<Lane, number>
  /** Failed attempts since the last delivery. */
  failures: number
  /** Until then no attempt is made; epoch milliseconds. */
  resumeAt: number | null
}

export async function readProgress(db: Db): Promise<ChannelProgress[]> {
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
 * Moves the channel's place in a lane. Resolves with the channel as it is now; undefined when another process was faster.
 * Until the transaction ends no other process changes groups of this channel.
 */
export function advance(trx: Trx, channelId: string, lane: Lane, from: number, to: number) {
  const update = trx.updateTable('alert_channels').where('id', '=', channelId).where('enabled', '=', 1)
  return update
    .$if(lane === 'own', (own) =>
      own.set({ own_planned_seq: to }).where((e) => e(e.fn.coalesce('own_planned_seq', 'planned_seq'), '=', from)),
    )
    .$if(lane === 'reported', (reported) =>
      reported
        // The first move of either parts the two.
        .set((e) => ({ planned_seq: to, own_planned_seq: e.fn.coalesce('own_planned_seq', 'planned_seq') }))
        .where('planned_seq', '=', from),
    )
    .returningAll()
    .executeTakeFirst()
}

/**
 * Makes others wait who would change groups of this channel. Resolves with the channel as it is now; undefined when it
 * was deleted or switched off.
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

/** Sorted: the order in which all transactions lock them. */
export async function readChannelIds(trx: Trx): Promise<string[]> {
  const rows = await trx.selectFrom('alert_channels').select('id').orderBy('id').execute()
  return rows.map(({ id }) => id)
}

// Health.

/** What the last attempts of a channel say about its receiver. `failures`: null = something was delivered. */
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

/** Takes the turn of sending a channel's check; of several processes one gets it. */
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

export function readUnchecked(db: Db, checkedBefore: number) {
  return db
    .selectFrom('alert_channels')
    .select(['id', 'quiet_hours'])
    .where('enabled', '=', 1)
    .where('daily_check', '=', 1)
    .where((e) => e.or([e('checked_at', 'is', null), e('checked_at', '<=', checkedBefore)]))
    .execute()
}

/** Channels that failed several times in a row and delivered nothing since `deliveredBefore`, not reported yet. */
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

/** Marks channels that delivered something since they were reported, or that are switched off. */
export async function markRecovered(trx: Trx): Promise<void> {
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

/** The route that was; undefined when it is unknown. */
export function removeRoute(trx: Trx, id: string): Promise<RouteRow | undefined> {
  return trx.deleteFrom('alert_routes').where('id', '=', id).returningAll().executeTakeFirst()
}

/** Takes a channel out of all routes, and removes those that named no other. Says which they were. */
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

/** Silences that have not ended. */
export function readSilenceRows(db: Db, now: number) {
  return db.selectFrom('silences').selectAll().where('ends_at', '>', now).orderBy('ends_at').orderBy('id').execute()
}

export const countSilences = (trx: Trx): Promise<number> => countRows(trx, 'silences')

export async function insertSilence(trx: Trx, row: SilenceRow): Promise<void> {
  await trx.insertInto('silences').values(row).execute()
}

/** A silence that ended has no effect, and the audit log knows it. */
export async function forgetEndedSilences(trx: Trx, now: number): Promise<void> {
  await trx.deleteFrom('silences').where('ends_at', '<=', now).execute()
}

/** The silence that was; undefined when it is unknown or ended already. */
export function removeSilence(trx: Trx, id: string, now: number): Promise<SilenceRow | undefined> {
  return trx.deleteFrom('silences').where('id', '=', id).where('ends_at', '>', now).returningAll().executeTakeFirst()
}
