import { sql } from 'kysely'
import type { Db, Trx } from '../../db/database.ts'

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

/** Marks channels that delivered something since they were reported, or that nobody uses any more. */
export async function markRecoveredChannels(trx: Trx): Promise<void> {
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

/** Messages that wait or were given up, by type of channel. */
export async function countMessagesByType(db: Db) {
  const count = (state: 'pending' | 'dead') =>
    db
      .selectFrom('alert_messages')
      .innerJoin('alert_channels', 'alert_channels.id', 'alert_messages.channel_id')
      .select((e) => ['type', e.fn.countAll<number>().as('count')])
      .where('state', '=', sql.lit(state))
      .where((e) => e.or([e('state', '=', 'pending'), e('kind', 'not in', ['test', 'check'])]))
      .groupBy('type')
      .execute()
  const rows = async (state: 'pending' | 'dead') =>
    (await count(state)).map((row) => ({ type: row.type, state, count: Number(row.count) }))
  return [...(await rows('pending')), ...(await rows('dead'))]
}
