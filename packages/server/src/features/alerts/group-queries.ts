import { sql } from 'kysely'
import type { Db, Trx } from '../../db/database.ts'
import type { Schema } from '../../db/schema.ts'
import type { Group } from './grouping.ts'
import { type AlertRow, alertColumns, alertOf } from './plan-queries.ts'

export type DeliveryRow = Schema['alert_deliveries']

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
] as const
const groupOf = (row: Pick<Schema['alert_groups'], (typeof groupColumns)[number]>): Group => ({
  ...row,
  waiting: Number(row.waiting),
  due_at: row.due_at === null ? null : Number(row.due_at),
  told_at: row.told_at === null ? null : Number(row.told_at),
})

export async function readGroups(trx: Trx, channelId: string, names: readonly string[]): Promise<Map<string, Group>> {
  const rows = await trx
    .selectFrom('alert_groups')
    .select(groupColumns)
    .where('channel_id', '=', channelId)
    .where('name', 'in', [...names])
    .execute()
  return new Map(rows.map((row) => [row.name, groupOf(row)]))
}

/** Groups whose time has come, of these channels. */
export async function readDueGroups(db: Db, channelIds: readonly string[], now: number, limit: number) {
  const rows = await db
    .selectFrom('alert_groups')
    .select(['channel_id', ...groupColumns])
    .where('due_at', '<=', now)
    .where('channel_id', 'in', [...channelIds])
    .orderBy('due_at')
    .limit(limit)
    .execute()
  return rows.map(({ channel_id, ...row }) => ({ channelId: channel_id, name: groupOf(row).name }))
}

export async function writeGroups(trx: Trx, channelId: string, groups: readonly Group[]): Promise<void> {
  if (groups.length === 0) return
  await trx
    .insertInto('alert_groups')
    .values(groups.map((group) => ({ channel_id: channelId, ...group })))
    .onConflict((conflict) =>
      conflict.columns(['channel_id', 'name']).doUpdateSet((e) => ({
        severity: e.ref('excluded.severity'),
        waiting: e.ref('excluded.waiting'),
        due_at: e.ref('excluded.due_at'),
        told_at: e.ref('excluded.told_at'),
        messages: e.ref('excluded.messages'),
        reminders: e.ref('excluded.reminders'),
        state: e.ref('excluded.state'),
        message_id: e.ref('excluded.message_id'),
      })),
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

export async function insertDeliveries(trx: Trx, rows: readonly DeliveryRow[]): Promise<void> {
  if (rows.length > 0) await trx.insertInto('alert_deliveries').values(rows).execute()
}

/** The latest alerts that joined a message, newest last. */
export async function readJoined(trx: Trx, messageId: string, limit: number): Promise<AlertRow[]> {
  const seqs = trx
    .selectFrom('alert_deliveries')
    .select('alert_seq')
    .where('message_id', '=', messageId)
    .where('outcome', '=', sql.lit('joined'))
    .orderBy('alert_seq', 'desc')
    .limit(limit)
  const rows = await trx.selectFrom('alerts').select(alertColumns).where('seq', 'in', seqs).orderBy('seq').execute()
  return rows.map(alertOf)
}

/** Lets all that joined one message join another. */
export async function moveJoined(trx: Trx, from: string, to: string): Promise<void> {
  await trx
    .updateTable('alert_deliveries')
    .set({ message_id: to })
    .where('message_id', '=', from)
    .where('outcome', '=', sql.lit('joined'))
    .execute()
}

export async function countGroups(trx: Trx, channelId: string): Promise<number> {
  const { count } = await trx
    .selectFrom('alert_groups')
    .select((e) => e.fn.countAll<number>().as('count'))
    .where('channel_id', '=', channelId)
    .executeTakeFirstOrThrow()
  return Number(count)
}

/** Alerts of a group that are looked at for a reminder: its history may be as long as that of all events. */
const latestAlerts = 1_000

/** Of the latest 1,000 alerts of a group those that nobody acknowledged or resolved, newest last, and how many there are. */
export async function readUnattended(trx: Trx, channelId: string, groupName: string, limit: number) {
  const latest = trx
    .selectFrom('alert_deliveries')
    .select('alert_seq')
    .where('channel_id', '=', channelId)
    .where('group_name', '=', groupName)
    .where('group_name', 'is not', null)
    .orderBy('alert_seq', 'desc')
    .limit(latestAlerts)
  const rows = await trx
    .selectFrom('alerts')
    .select(alertColumns)
    .where('seq', 'in', latest)
    .where('status', '=', 'open')
    .orderBy('seq', 'desc')
    .execute()
  return { count: rows.length, alerts: rows.slice(0, limit).toReversed().map(alertOf) }
}
