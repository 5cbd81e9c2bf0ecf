import { sql } from 'kysely'
import type { Db, Trx } from '../../db/database.ts'
import type { ChannelRow } from './directory-queries.ts'

/** What a new row says; the rest is how the channel fared, and begins empty. */
export type NewChannelRow = Omit<
  ChannelRow,
  | 'planned_seq'
  | 'failures'
  | 'resume_at'
  | 'failing_since'
  | 'last_delivered_at'
  | 'last_error'
  | 'last_error_at'
  | 'checked_at'
>

const newestAlert = sql<number>`(select value from counters where name = 'alert_seq')`

/**
 * Counts a change of channels, routes or silences. To be the first statement of its transaction: the lock on this row
 * makes such changes wait for each other, so that limits are exact and no route names a channel that just went.
 */
export async function countChange(trx: Trx): Promise<void> {
  await trx
    .updateTable('counters')
    .set((e) => ({ value: e('value', '+', 1) }))
    .where('name', '=', 'alert_config')
    .execute()
}

export async function insertChannel(trx: Trx, row: NewChannelRow): Promise<void> {
  await trx
    .insertInto('alert_channels')
    .values({ ...row, planned_seq: newestAlert })
    .execute()
}

/** Of a row that is there already only what follows from the environment is brought up to date. */
export async function insertMissingChannel(db: Db, row: NewChannelRow): Promise<void> {
  await db
    .insertInto('alert_channels')
    .values({ ...row, planned_seq: newestAlert })
    .onConflict((conflict) =>
      conflict.column('id').doUpdateSet((e) => ({
        name: e.ref('excluded.name'),
        destination: e.ref('excluded.destination'),
      })),
    )
    .execute()
}

export function findChannel(db: Db, id: string): Promise<ChannelRow | undefined> {
  return db.selectFrom('alert_channels').selectAll().where('id', '=', id).executeTakeFirst()
}

/** A channel that nobody else can change until the transaction ends. */
export function holdChannel(trx: Trx, id: string): Promise<ChannelRow | undefined> {
  return trx
    .updateTable('alert_channels')
    .set((e) => ({ name: e.ref('name') }))
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirst()
}

export async function updateChannel(
  trx: Trx,
  id: string,
  columns: Partial<Omit<NewChannelRow, 'id' | 'type' | 'managed_by' | 'created_at'>>,
): Promise<void> {
  await trx.updateTable('alert_channels').set(columns).where('id', '=', id).execute()
}

/** Starts a channel over with the alerts to come, and without what went wrong before. */
export async function restartChannel(trx: Trx, id: string): Promise<void> {
  await trx
    .updateTable('alert_channels')
    .set({ planned_seq: newestAlert, failures: 0, resume_at: null, failing_since: null })
    .where('id', '=', id)
    .execute()
}

export async function deleteChannelRow(trx: Trx, id: string): Promise<void> {
  await trx.deleteFrom('alert_channels').where('id', '=', id).execute()
}

/**
 * Gives up all that waits for a channel; the log of messages keeps the reason. Alerts that joined a message which thereby
 * is never written are the ones that were dropped.
 */
export async function dropWaiting(trx: Trx, channelId: string, reason: string): Promise<void> {
  await trx.deleteFrom('alert_groups').where('channel_id', '=', channelId).execute()
  await trx
    .updateTable('alert_messages')
    .set({ state: 'dead', last_error: reason, leased_until: null, lease_owner: null })
    .where('channel_id', '=', channelId)
    // Written out, as the condition of the index is: with a parameter it would not be used.
    .where('state', '=', sql.lit('pending'))
    .execute()
}

/** What a channel holds back because of its quiet hours is looked at anew. */
export async function releaseQuiet(trx: Trx, channelId: string, groupName: string, now: number): Promise<void> {
  await trx
    .updateTable('alert_groups')
    .set({ due_at: now })
    .where('channel_id', '=', channelId)
    .where('name', '=', groupName)
    .execute()
}

export async function countChannels(trx: Trx): Promise<number> {
  const { count } = await trx
    .selectFrom('alert_channels')
    .select((e) => e.fn.countAll<number>().as('count'))
    .where('managed_by', '=', 'api')
    .executeTakeFirstOrThrow()
  return Number(count)
}

/** Messages of that state by channel; a channel without any is not among them. */
export async function countMessages(db: Db, state: 'pending' | 'dead'): Promise<Map<string, number>> {
  const rows = await db
    .selectFrom('alert_messages')
    .select((e) => ['channel_id', e.fn.countAll<number>().as('count')])
    .where('state', '=', sql.lit(state))
    // A test or a check that failed has told what it was for: nobody will want it sent again.
    .where((e) => e.or([e('state', '=', 'pending'), e('kind', 'not in', ['test', 'check'])]))
    .groupBy('channel_id')
    .execute()
  return new Map(rows.map(({ channel_id, count }) => [channel_id, Number(count)]))
}
