import { sql } from 'kysely'
import type { Db, Trx } from '../../db/database.ts'
import type { Schema } from '../../db/schema.ts'
import type { Message, Severity, ToldAlert } from './message.ts'

export type AlertRow = Pick<
  Schema['alerts'],
  | 'seq'
  | 'id'
  | 'created_at'
  | 'severity'
  | 'event_type'
  | 'source'
  | 'description'
  | 'instance_id'
  | 'session_id'
  | 'event_seq'
  | 'by_service'
>

export const alertColumns = [
  'seq',
  'id',
  'created_at',
  'severity',
  'event_type',
  'source',
  'description',
  'instance_id',
  'session_id',
  'event_seq',
  'by_service',
] as const

/** Large numbers come as text from one of the engines. */
export const alertOf = (row: AlertRow): AlertRow => ({
  ...row,
  seq: Number(row.seq),
  created_at: Number(row.created_at),
  event_seq: row.event_seq === null ? null : Number(row.event_seq),
})

/** The alert as people are told; machines get address and metadata of the event besides. */
export const toldAlert = (row: AlertRow): ToldAlert => ({
  ...row,
  by_service: row.by_service === 1,
  ip_address: null,
  metadata: null,
})

/** The last seq given to an alert; all alerts up to it are committed. */
export async function readAlertHead(db: Db): Promise<number> {
  const row = await db.selectFrom('counters').select('value').where('name', '=', 'alert_seq').executeTakeFirstOrThrow()
  return Number(row.value)
}

export interface ChannelProgress {
  id: string
  plannedSeq: number
  /** Failed tries since the last delivery. */
  failures: number
  resumeAt: number | null
}

export async function readProgress(db: Db): Promise<ChannelProgress[]> {
  const rows = await db
    .selectFrom('alert_channels')
    .select(['id', 'planned_seq', 'failures', 'resume_at'])
    .where('enabled', '=', 1)
    .execute()
  return rows.map((row) => ({
    id: row.id,
    plannedSeq: Number(row.planned_seq),
    failures: row.failures,
    resumeAt: row.resume_at === null ? null : Number(row.resume_at),
  }))
}

/** Alerts after one, in order, of these severities or by the service itself. */
export async function readAlerts(
  db: Db,
  after: number,
  upTo: number,
  severities: readonly Severity[],
  limit: number,
): Promise<AlertRow[]> {
  const rows = await db
    .selectFrom('alerts')
    .select(alertColumns)
    .where('seq', '>', after)
    .where('seq', '<=', upTo)
    .where((e) => e.or([e('severity', 'in', [...severities]), e('by_service', '=', 1)]))
    .orderBy('seq')
    .limit(limit)
    .execute()
  return rows.map(alertOf)
}

/** Address and metadata of events, by their seq. Times bound the search where events are kept by day. */
export async function readEventDetails(db: Db, alerts: readonly AlertRow[]) {
  const told = alerts.filter(({ event_seq }) => event_seq !== null)
  if (told.length === 0) return new Map<number, { ip_address: string | null; metadata: string | null }>()
  const times = told.map(({ created_at }) => created_at)
  const rows = await db
    .selectFrom('events')
    .select(['seq', 'ip_address', 'metadata'])
    .where(
      'seq',
      'in',
      told.map(({ event_seq }) => event_seq!),
    )
    .where('created_at', '>=', Math.min(...times))
    .where('created_at', '<=', Math.max(...times))
    .execute()
  return new Map(rows.map(({ seq, ip_address, metadata }) => [Number(seq), { ip_address, metadata }]))
}

/**
 * Moves the channel's place in the outbox. False when another process was faster. Until the transaction ends nobody
 * else changes groups of this channel.
 */
export async function advance(trx: Trx, channelId: string, from: number, to: number): Promise<boolean> {
  const { numUpdatedRows } = await trx
    .updateTable('alert_channels')
    .set({ planned_seq: to })
    .where('id', '=', channelId)
    .where('planned_seq', '=', from)
    .where('enabled', '=', 1)
    .executeTakeFirstOrThrow()
  return numUpdatedRows === 1n
}

/** Makes others wait who would change groups of this channel. False when it is gone or switched off. */
export async function lockChannel(trx: Trx, channelId: string): Promise<boolean> {
  const { numUpdatedRows } = await trx
    .updateTable('alert_channels')
    .set((e) => ({ planned_seq: e.ref('planned_seq') }))
    .where('id', '=', channelId)
    .where('enabled', '=', 1)
    .executeTakeFirstOrThrow()
  return numUpdatedRows === 1n
}

/** Writes messages that are due now; with a lease when the writer sends them itself. */
export async function insertMessages(
  db: Db,
  channelId: string,
  messages: readonly Message[],
  lease?: { owner: string; until: number },
): Promise<void> {
  if (messages.length === 0) return
  const rows = messages.map((message) => ({
    id: message.id,
    channel_id: channelId,
    kind: message.kind,
    title: message.title,
    severity: message.severity,
    content: JSON.stringify(message),
    state: 'pending' as const,
    created_at: message.created_at,
    due_at: message.created_at,
    leased_until: lease?.until ?? null,
    lease_owner: lease?.owner ?? null,
  }))
  await db.insertInto('alert_messages').values(rows).execute()
}

/** Messages of a channel since an instant. */
export async function countMessagesSince(trx: Trx, channelId: string, since: number): Promise<number> {
  const { count } = await trx
    .selectFrom('alert_messages')
    .select((e) => e.fn.countAll<number>().as('count'))
    .where('channel_id', '=', channelId)
    .where('created_at', '>=', since)
    .executeTakeFirstOrThrow()
  return Number(count)
}

export async function countPending(db: Db, channelId: string): Promise<number> {
  const { count } = await db
    .selectFrom('alert_messages')
    .select((e) => e.fn.countAll<number>().as('count'))
    .where('channel_id', '=', channelId)
    .where('state', '=', sql.lit('pending'))
    .executeTakeFirstOrThrow()
  return Number(count)
}
