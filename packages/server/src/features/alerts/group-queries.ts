import { type ExpressionBuilder, sql } from 'kysely'
import type { Db, Trx } from '../../db/database.ts'
import type { Schema } from '../../db/schema.ts'
import type { Group } from './grouping.ts'
import { alertColumns, alertOf, toldAlert } from './plan-queries.ts'

export type DeliveryRow = Schema['alert_deliveries']

const groupColumns = ['name', 'severity', 'waiting', 'due_at', 'told_at', 'messages', 'reminders', 'state'] as const
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

const waitingOf = (channelId: string, groupName: string) => (e: ExpressionBuilder<Schema, 'alert_deliveries'>) =>
  e.and([e('channel_id', '=', channelId), e('group_name', '=', groupName), e('outcome', '=', sql.lit('waiting'))])

/** The latest alerts that wait in a group, newest last, and how many there are. */
export async function readWaiting(trx: Trx, channelId: string, groupName: string, limit: number) {
  const { count } = await trx
    .selectFrom('alert_deliveries')
    .select((e) => e.fn.countAll<number>().as('count'))
    .where(waitingOf(channelId, groupName))
    .executeTakeFirstOrThrow()
  const seqs = trx
    .selectFrom('alert_deliveries')
    .select('alert_seq')
    .where(waitingOf(channelId, groupName))
    .orderBy('alert_seq', 'desc')
    .limit(limit)
  const rows = await trx.selectFrom('alerts').select(alertColumns).where('seq', 'in', seqs).orderBy('seq').execute()
  return { count: Number(count), alerts: rows.map(alertOf).map(toldAlert) }
}

/** What waits in a group was told by this message, or is over without one. */
export async function endWaiting(
  trx: Trx,
  channelId: string,
  groupName: string,
  messageId: string | null,
): Promise<void> {
  await trx
    .updateTable('alert_deliveries')
    .set({ outcome: messageId === null ? 'inhibited' : 'joined', message_id: messageId })
    .where(waitingOf(channelId, groupName) as never)
    .execute()
}

export async function moveWaiting(trx: Trx, channelId: string, from: string, to: string): Promise<void> {
  await trx
    .updateTable('alert_deliveries')
    .set({ group_name: to })
    .where(waitingOf(channelId, from) as never)
    .execute()
}

/** The latest alerts of a group that nobody acknowledged or resolved, newest last, and how many there are. */
export async function readUnattended(trx: Trx, channelId: string, groupName: string, limit: number) {
  const open = trx
    .selectFrom('alert_deliveries')
    .innerJoin('alerts', 'alerts.seq', 'alert_deliveries.alert_seq')
    .where('channel_id', '=', channelId)
    .where('group_name', '=', groupName)
    .where('group_name', 'is not', null)
    .where('status', '=', 'open')
  const { count } = await open.select((e) => e.fn.countAll<number>().as('count')).executeTakeFirstOrThrow()
  const rows = await open.select(alertColumns).orderBy('alert_seq', 'desc').limit(limit).execute()
  return { count: Number(count), alerts: rows.toReversed().map(alertOf) }
}
