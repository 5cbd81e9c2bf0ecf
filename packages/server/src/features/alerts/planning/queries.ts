import { type ExpressionBuilder, sql } from 'kysely'
import type { Db, Trx } from '../../../db/database.ts'
import type { Schema } from '../../../db/schema.ts'
import type { Lane, StoredAlert } from '../outbox/alert.ts'
import { type PlannedAlert, readAlerts } from '../outbox/queries.ts'
import { type AlertGroup, delayedNames } from './grouping.ts'

// Owns the tables alert_groups and alert_deliveries, which contains the outcome of each alert at each channel.

export type AlertOutcome = Schema['alert_deliveries']

const groupColumns = [
  'name',
  'severity',
  'waiting',
  'due_at',
  'told_at',
  'messages',
  'reminders',
  'state',
  'message_id',
] as const satisfies readonly (keyof AlertGroup)[]

export async function readGroups(
  trx: Trx,
  channelId: string,
  names: readonly string[],
): Promise<Map<string, AlertGroup>> {
  const rows = await trx
    .selectFrom('alert_groups')
    .select(groupColumns)
    .where('channel_id', '=', channelId)
    .where('name', 'in', [...names])
    .execute()
  return new Map(rows.map((row) => [row.name, row]))
}

/** SQL condition of groups whose messages are sent in a lane, the same as `laneOfGroup`. */
const isOfLane = (lane: Lane) => (e: ExpressionBuilder<Schema, 'alert_groups'>) => {
  const isReported = e.or([e('name', 'like', 'reported %'), e('name', 'in', Object.values(delayedNames.reported))])
  return lane === 'reported' ? isReported : e.not(isReported)
}

/** Reads due groups of these channels in a lane. */
export function readDueGroups(db: Db, lane: Lane, channelIds: readonly string[], now: number, limit: number) {
  return db
    .selectFrom('alert_groups')
    .select(['channel_id', 'name'])
    .where('due_at', '<=', now)
    .where('channel_id', 'in', [...channelIds])
    .where(isOfLane(lane))
    .orderBy('due_at')
    .limit(limit)
    .execute()
}

export async function countGroups(trx: Trx, channelId: string, lane: Lane): Promise<number> {
  const { count } = await trx
    .selectFrom('alert_groups')
    .select((e) => e.fn.countAll<number>().as('count'))
    .where('channel_id', '=', channelId)
    .where(isOfLane(lane))
    .executeTakeFirstOrThrow()
  return count
}

export async function writeGroups(trx: Trx, channelId: string, groups: readonly AlertGroup[]): Promise<void> {
  if (groups.length === 0) return
  await trx
    .insertInto('alert_groups')
    .values(groups.map((group) => ({ channel_id: channelId, ...group })))
    .onConflict((conflict) =>
      conflict
        .columns(['channel_id', 'name'])
        .doUpdateSet((e) => Object.fromEntries(groupColumns.map((column) => [column, e.ref(`excluded.${column}`)]))),
    )
    .execute()
}

export async function deleteGroups(trx: Trx, channelId: string, names: readonly string[]): Promise<void> {
  if (names.length === 0) return
  await trx
    .deleteFrom('alert_groups')
    .where('channel_id', '=', channelId)
    .where('name', 'in', [...names])
    .execute()
}

/** Deletes all groups of a channel. */
export async function deleteAllGroups(trx: Trx, channelId: string): Promise<void> {
  await trx.deleteFrom('alert_groups').where('channel_id', '=', channelId).execute()
}

/** Makes these groups due now. */
export async function releaseGroups(trx: Trx, channelId: string, names: readonly string[], now: number) {
  await trx
    .updateTable('alert_groups')
    .set({ due_at: now })
    .where('channel_id', '=', channelId)
    .where('name', 'in', [...names])
    .execute()
}

/** Returns those of the channels that have a group of this name, in the given order. */
export async function channelsOfGroup(trx: Trx, channelIds: readonly string[], name: string): Promise<string[]> {
  if (channelIds.length === 0) return []
  const rows = await trx
    .selectFrom('alert_groups')
    .select('channel_id')
    .where('channel_id', 'in', [...channelIds])
    .where('name', '=', name)
    .execute()
  const found = new Set(rows.map(({ channel_id }) => channel_id))
  return channelIds.filter((id) => found.has(id))
}

/** Stores the handling of a problem by people in its groups. A resolved group is due at once. */
export async function changeGroups(
  trx: Trx,
  channelIds: readonly string[],
  name: string,
  state: StoredAlert['status'],
  now: number,
): Promise<void> {
  if (channelIds.length === 0) return
  await trx
    .updateTable('alert_groups')
    .set({ state, ...(state === 'resolved' ? { due_at: now } : {}) })
    .where('channel_id', 'in', [...channelIds])
    .where('name', '=', name)
    .execute()
}

export async function insertOutcomes(trx: Trx, rows: readonly AlertOutcome[]): Promise<void> {
  if (rows.length > 0) await trx.insertInto('alert_deliveries').values(rows).execute()
}

/** Returns those of the alerts that have an outcome at the channel already, written by an older version without lanes. */
export async function readPlanned(trx: Trx, channelId: string, alerts: readonly PlannedAlert[]): Promise<Set<number>> {
  const seqs = alerts.map(({ seq }) => seq)
  const rows = await trx
    .selectFrom('alert_deliveries')
    .select('alert_seq')
    .where('channel_id', '=', channelId)
    .where('alert_seq', 'in', seqs)
    .execute()
  return new Set(rows.map(({ alert_seq }) => alert_seq))
}

/** Reads the outcomes of an alert by channel. `waits_in`: group whose unwritten message will contain it. */
export function readOutcomes(db: Db, alertSeq: number) {
  return db
    .selectFrom('alert_deliveries')
    .leftJoin('alert_groups', (join) =>
      join
        .onRef('alert_groups.channel_id', '=', 'alert_deliveries.channel_id')
        .onRef('alert_groups.message_id', '=', 'alert_deliveries.message_id'),
    )
    .select([
      'alert_deliveries.channel_id',
      'alert_deliveries.outcome',
      'alert_deliveries.message_id',
      'alert_groups.name as waits_in',
    ])
    .where('alert_seq', '=', alertSeq)
    .orderBy('alert_deliveries.channel_id')
    .execute()
}

export async function deleteOutcomes(db: Db, alertSeqs: readonly number[]): Promise<void> {
  await db
    .deleteFrom('alert_deliveries')
    .where('alert_seq', 'in', [...alertSeqs])
    .execute()
}

/** Reads the latest alerts that joined a message, newest last. */
export async function readJoined(trx: Trx, messageId: string, limit: number): Promise<PlannedAlert[]> {
  const rows = await trx
    .selectFrom('alert_deliveries')
    .select('alert_seq')
    .where('message_id', '=', messageId)
    .where('outcome', '=', sql.lit('joined'))
    .orderBy('alert_seq', 'desc')
    .limit(limit)
    .execute()
  return readAlerts(
    trx,
    rows.map(({ alert_seq }) => alert_seq),
  )
}

/** Moves all alerts that joined a message to another message. */
export async function moveJoined(trx: Trx, from: string, to: string): Promise<void> {
  await trx
    .updateTable('alert_deliveries')
    .set({ message_id: to })
    .where('message_id', '=', from)
    .where('outcome', '=', sql.lit('joined'))
    .execute()
}

/** Alerts of a group read for a reminder, because its history may be as long as that of all events. */
const latestAlerts = 1_000

/** Reads the open alerts among the latest 1,000 of a group, newest last, and their number. */
export async function readUnattended(trx: Trx, channelId: string, groupName: string, limit: number) {
  const latest = await trx
    .selectFrom('alert_deliveries')
    .select('alert_seq')
    .where('channel_id', '=', channelId)
    .where('group_name', '=', groupName)
    // The same condition as in the partial index.
    .where('group_name', 'is not', null)
    .orderBy('alert_seq', 'desc')
    .limit(latestAlerts)
    .execute()
  const seqs = latest.map(({ alert_seq }) => alert_seq)
  const alerts = await readAlerts(trx, seqs, 'open')
  return { count: alerts.length, alerts: alerts.slice(-limit) }
}
