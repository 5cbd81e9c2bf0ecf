import { sql } from 'kysely'
import type { Db, Statement, Trx } from '../../db/database.ts'
import type { Schema } from '../../db/schema.ts'
import type { Verdict } from './channels/channel.ts'

type MessageRow = Schema['alert_messages']
export type ClaimedMessage = Pick<MessageRow, 'id' | 'channel_id' | 'kind' | 'content' | 'created_at'> & {
  attempts: number
}

const claimedColumns = ['id', 'channel_id', 'kind', 'content', 'created_at', 'attempts'] as const

/** Whether a channel has a message that is due and that nobody is sending. */
export async function hasDueMessage(db: Db, channelId: string, now: number): Promise<boolean> {
  const row = await db
    .selectFrom('alert_messages')
    .select('id')
    .where('channel_id', '=', channelId)
    .where('state', '=', sql.lit('pending'))
    .where('due_at', '<=', now)
    .where((e) => e.or([e('leased_until', 'is', null), e('leased_until', '<=', now)]))
    .limit(1)
    .executeTakeFirst()
  return row !== undefined
}

/** Takes messages that are due for `leaseMs`, oldest first: until then no other process sends them. */
export async function claimMessages(
  db: Db,
  claim: { channelId: string; owner: string; now: number; leaseMs: number; limit: number },
): Promise<ClaimedMessage[]> {
  const { channelId, owner, now, leaseMs, limit } = claim
  const rows = await db
    .updateTable('alert_messages')
    .set({ leased_until: now + leaseMs, lease_owner: owner })
    .where('id', 'in', (e) =>
      e
        .selectFrom('alert_messages')
        .select('id')
        .where('channel_id', '=', channelId)
        .where('state', '=', sql.lit('pending'))
        .where('due_at', '<=', now)
        .where((f) => f.or([f('leased_until', 'is', null), f('leased_until', '<=', now)]))
        .orderBy('due_at')
        .limit(limit),
    )
    // Looked at once more after waiting for the row: another process may have taken it meanwhile.
    .where('state', '=', 'pending')
    .where((e) => e.or([e('leased_until', 'is', null), e('leased_until', '<=', now)]))
    .returning(claimedColumns)
    .execute()
  return rows.map((row) => ({ ...row, created_at: Number(row.created_at) })).sort((a, b) => (a.id < b.id ? -1 : 1))
}

/** Gives back what this process took and did not send: these, or all. */
export async function releaseMessages(db: Db, owner: string, ids?: readonly string[]): Promise<void> {
  const own = db
    .updateTable('alert_messages')
    .set({ leased_until: null, lease_owner: null })
    .where('lease_owner', '=', owner)
    .where('state', '=', sql.lit('pending'))
  await (ids ? own.where('id', 'in', [...ids]) : own).execute()
}

/** Frees what a process that is gone had taken; only where no other process can be sending. */
export async function releaseAllMessages(db: Db): Promise<void> {
  await db
    .updateTable('alert_messages')
    .set({ leased_until: null, lease_owner: null })
    .where('lease_owner', 'is not', null)
    .where('state', '=', sql.lit('pending'))
    .execute()
}

export interface TryResult {
  message: ClaimedMessage
  owner: string
  verdict: Verdict
  now: number
  /** When it is tried again; undefined = never, or delivered. */
  dueAt: number | undefined
}

/** Writes what came of a try. What was delivered is so whoever held the message; a failure counts for its holder only. */
export function resultStatement(db: Db, { message, owner, verdict, now, dueAt }: TryResult): Statement {
  const common = {
    last_status: verdict.status,
    last_answer: verdict.answer,
    last_error: verdict.error,
    leased_until: null,
    lease_owner: null,
  }
  const update = db
    .updateTable('alert_messages')
    .set((e) => ({ ...common, attempts: e('attempts', '+', 1) }))
    .where('id', '=', message.id)
    .where('state', '=', 'pending')
  if (verdict.delivered) return update.set({ state: 'delivered', delivered_at: now }).compile()
  const held = update.where('lease_owner', '=', owner)
  return dueAt === undefined ? held.set({ state: 'dead' }).compile() : held.set({ due_at: dueAt }).compile()
}

/** What a channel's last tries say of its receiver. */
export function channelStatement(
  db: Db,
  channelId: string,
  tries: { failures: number | null; error: string | null; now: number; resumeAt: number | null },
): Statement {
  const { failures, error, now, resumeAt } = tries
  const update = db.updateTable('alert_channels').where('id', '=', channelId)
  const delivered = failures === null
  const withError = error === null ? update : update.set({ last_error: error, last_error_at: now })
  return delivered
    ? withError.set({ failures: 0, resume_at: null, last_delivered_at: now }).compile()
    : withError.set((e) => ({ failures: e('failures', '+', failures), resume_at: resumeAt })).compile()
}

/**
 * Tries what was given up once more, from the beginning of the schedule; tests and checks told what they were for.
 * Resolves with how many there are.
 */
export async function reviveMessages(trx: Trx, which: { id: string } | { channelId: string }, now: number) {
  const update = trx
    .updateTable('alert_messages')
    .set({ state: 'pending', due_at: now, attempts: 0, leased_until: null, lease_owner: null })
    .where('state', '=', sql.lit('dead'))
    .where('kind', 'not in', ['test', 'check'])
  const chosen = 'id' in which ? update.where('id', '=', which.id) : update.where('channel_id', '=', which.channelId)
  const { numUpdatedRows } = await chosen.executeTakeFirstOrThrow()
  return Number(numUpdatedRows)
}

const viewColumns = [
  'id',
  'channel_id',
  'kind',
  'title',
  'severity',
  'state',
  'attempts',
  'created_at',
  'due_at',
  'delivered_at',
  'last_status',
  'last_answer',
  'last_error',
] as const

export function findMessage(db: Db, id: string) {
  return db.selectFrom('alert_messages').select(viewColumns).where('id', '=', id).executeTakeFirst()
}

/** One page, newest first. */
export function listMessageRows(
  db: Db,
  filter: { channel_id?: string; state?: MessageRow['state']; before?: string },
  limit: number,
) {
  let query = db.selectFrom('alert_messages').select(viewColumns).orderBy('id', 'desc').limit(limit)
  if (filter.channel_id !== undefined) query = query.where('channel_id', '=', filter.channel_id)
  // The partial indexes are found only by a literal; the value comes from a closed list.
  if (filter.state !== undefined) query = query.where('state', '=', sql.lit(filter.state) as never)
  if (filter.before !== undefined) query = query.where('id', '<', filter.before)
  return query.execute()
}
