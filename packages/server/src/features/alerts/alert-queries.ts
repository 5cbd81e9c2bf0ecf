import type { AlertQuery } from '@wardline/contract'
import { sql } from 'kysely'
import type { Db, Trx } from '../../db/database.ts'
import type { Schema } from '../../db/schema.ts'

export type FullAlert = Schema['alerts']
export type AlertState = Pick<FullAlert, 'status' | 'verdict' | 'assignee' | 'note'>

const numbered = (row: FullAlert): FullAlert => ({
  ...row,
  seq: Number(row.seq),
  created_at: Number(row.created_at),
  event_seq: row.event_seq === null ? null : Number(row.event_seq),
  changed_at: row.changed_at === null ? null : Number(row.changed_at),
})

/** Rows that a page looks at: a rare filter over a year of alerts must not hold up the other readers. */
const scanWindow = 100_000

export interface AlertPage {
  rows: FullAlert[]
  /** Every alert with a higher seq was looked at; undefined when all were. */
  lookedDownTo: number | undefined
}

/** One page, newest first; `lookedDownTo` is where the next one goes on, undefined when all were looked at. */
export async function readAlertPage(db: Db, filter: AlertQuery, before: number, limit: number): Promise<AlertPage> {
  const { head, oldest } = await db
    .selectFrom('alerts')
    .select((e) => [e.fn.max('seq').as('head'), e.fn.min('seq').as('oldest')])
    .executeTakeFirstOrThrow()
  const below = Math.min(before, Number(head ?? 0) + 1)
  const floor = Math.max(Number(oldest ?? 0), below - scanWindow)
  let query = db.selectFrom('alerts').selectAll().where('seq', '<', below).where('seq', '>=', floor)
  for (const column of ['status', 'severity', 'event_type', 'instance_id'] as const) {
    const value = filter[column]
    if (value !== undefined) query = query.where(column, '=', value as never)
  }
  const rows = (await query.orderBy('seq', 'desc').limit(limit).execute()).map(numbered)
  if (rows.length === limit) return { rows, lookedDownTo: rows.at(-1)!.seq }
  return { rows, lookedDownTo: floor > Number(oldest ?? 0) ? floor : undefined }
}

export async function findAlert(db: Db, id: string): Promise<FullAlert | undefined> {
  const row = await db.selectFrom('alerts').selectAll().where('id', '=', id).executeTakeFirst()
  return row && numbered(row)
}

/** What became of an alert at each channel. */
export function readDeliveries(db: Db, seq: number) {
  return (
    db
      .selectFrom('alert_deliveries')
      .leftJoin('alert_messages', 'alert_messages.id', 'alert_deliveries.message_id')
      // While a message is not written yet, the group whose message it will be knows its id.
      .leftJoin('alert_groups', (join) =>
        join
          .onRef('alert_groups.channel_id', '=', 'alert_deliveries.channel_id')
          .onRef('alert_groups.message_id', '=', 'alert_deliveries.message_id'),
      )
      .select([
        'alert_groups.name as waits_in',
        'alert_deliveries.channel_id',
        'alert_deliveries.outcome',
        'alert_deliveries.message_id',
        'alert_messages.state',
        'alert_messages.attempts',
        'alert_messages.last_status',
        'alert_messages.last_answer',
        'alert_messages.last_error',
        'alert_messages.delivered_at',
      ])
      .where('alert_deliveries.alert_seq', '=', seq)
      .orderBy('alert_deliveries.channel_id')
      .execute()
  )
}

/** Alerts of the same type and instance that are not resolved. */
const siblings = (db: Db, { event_type, instance_id, by_service }: FullAlert) =>
  db
    .selectFrom('alerts')
    .where('event_type', '=', event_type)
    .where('instance_id', instance_id === null ? 'is' : '=', instance_id as never)
    .where('by_service', '=', by_service)
    .where('status', '<>', sql.lit('resolved'))
    .where('severity', '<>', sql.lit('info'))

export async function changeOne(trx: Trx, { seq }: FullAlert, change: AlertState, now: number): Promise<void> {
  await trx
    .updateTable('alerts')
    .set({ ...change, changed_at: now })
    .where('seq', '=', seq)
    .execute()
}

/** Changes up to `limit` others of the same problem that are not in that state yet; resolves with how many. */
export async function changeSiblings(db: Db, alert: FullAlert, change: AlertState, now: number, limit: number) {
  const others = siblings(db, alert)
    .select('seq')
    .where('seq', '<>', alert.seq)
    .where('status', '<>', change.status)
    .orderBy('seq')
    .limit(limit)
  const { numUpdatedRows } = await db
    .updateTable('alerts')
    .set({ ...change, changed_at: now })
    .where('seq', 'in', others)
    .executeTakeFirstOrThrow()
  return Number(numUpdatedRows)
}

export async function hasUnresolved(trx: Trx, alert: FullAlert): Promise<boolean> {
  return (await siblings(trx, alert).select('seq').limit(1).executeTakeFirst()) !== undefined
}

/** Channels that know a group, in one order for everybody who locks them. */
export async function channelsOfGroup(trx: Trx, name: string): Promise<string[]> {
  const rows = await trx
    .selectFrom('alert_groups')
    .select('channel_id')
    .where('channel_id', 'in', (e) => e.selectFrom('alert_channels').select('id'))
    .where('name', '=', name)
    .orderBy('channel_id')
    .execute()
  return rows.map(({ channel_id }) => channel_id)
}

/** Tells channels what people did with a problem; a resolved one is due to be told at once. */
export async function changeGroups(
  trx: Trx,
  channelIds: readonly string[],
  name: string,
  state: FullAlert['status'],
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

/** Removes up to `limit` alerts created before `cutoff` with what became of them; resolves with how many went. */
export async function deleteAlertsBefore(db: Db, cutoff: number, limit: number): Promise<number> {
  const old = await db.selectFrom('alerts').select(['seq', 'created_at']).orderBy('seq').limit(limit).execute()
  const seqs = old.filter(({ created_at }) => Number(created_at) < cutoff).map(({ seq }) => Number(seq))
  if (seqs.length === 0) return 0
  await db.deleteFrom('alert_deliveries').where('alert_seq', 'in', seqs).execute()
  await db.deleteFrom('alerts').where('seq', 'in', seqs).execute()
  return seqs.length
}

/** Removes up to `limit` messages created before the id's instant that nobody will send any more. */
export async function deleteMessagesBefore(db: Db, floor: string, limit: number): Promise<number> {
  const { numDeletedRows } = await db
    .deleteFrom('alert_messages')
    .where('id', 'in', (e) =>
      e
        .selectFrom('alert_messages')
        .select('id')
        .where('id', '<', floor)
        .where('state', '<>', 'pending')
        .orderBy('id')
        .limit(limit),
    )
    .executeTakeFirstOrThrow()
  return Number(numDeletedRows)
}
