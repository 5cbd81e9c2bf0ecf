import { type Selectable, sql } from 'kysely'
import { dayMs } from '../../../clock.ts'
import type { Db, Statement, Trx } from '../../../db/database.ts'
import { claimRows, isFree, type LeasedQueue, type TimedClaim, unclaimed } from '../../../db/lease.ts'
import type { Schema } from '../../../db/schema.ts'
import type { Attempted } from '../../../delivery/delivery.ts'
import type { Thread, Verdict } from '../channels/channel.ts'
import { type Incident, type Message, readMessage } from '../channels/message.ts'
import { openOf } from '../channels/message-lines.ts'
import type { Lane } from '../outbox/alert.ts'

// Owns alert_messages, which is both the queue of each channel and the delivery log.

type MessageRow = Selectable<Schema['alert_messages']>

export type ClaimedMessage = Pick<
  MessageRow,
  'id' | 'channel_id' | 'kind' | 'content' | 'subject' | 'created_at' | 'attempts' | 'person_id'
>
export type MessageAttempt = Attempted<ClaimedMessage, Verdict>

const viewColumns = [
  'id',
  'channel_id',
  'person_id',
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
export type LoggedMessage = Pick<MessageRow, (typeof viewColumns)[number]>

/** A literal as in the partial indexes, which are not used for a parameter. */
const pending = sql.lit('pending' as const)
/** Tests and checks are not retried, because a failure is their result. */
const unrepeatable = ['test', 'check'] as const
const isPending = sql<boolean>`state = 'pending'`
export const messages: LeasedQueue = { table: 'alert_messages', isOpen: isPending, mayBeLeased: isPending }

/** What the messages of an incident are about; null if later messages cannot belong to the same. */
function subjectOf({ group, incident }: Message, lane: Lane): string | null {
  if (incident === null || group === null) return null
  const [, instance] = group.split(' ')
  // Whatever an agent reports begins and joins no incident of the service's own alerts.
  return lane === 'own' && instance ? instance : `~${group}`
}

/** After so long without a message, trouble of an instance is another incident. */
const incidentMs = dayMs
/** Messages that may be of the same millisecond: the plan of one step. */
const sameTime = 20

/** Returns the incident that a message to people about one problem belongs to. */
export async function findIncident(
  trx: Trx,
  channelId: string,
  lane: Lane,
  message: Message,
): Promise<Incident | null> {
  const { id, group, created_at } = message
  if (group === null) return null
  const own = { id, group, place: 0 }
  const rows = await trx
    .selectFrom('alert_messages')
    .select('content')
    .where('channel_id', '=', channelId)
    .where('subject', '=', subjectOf({ ...message, incident: own }, lane))
    .where('created_at', '>', created_at - incidentMs)
    .orderBy('created_at', 'desc')
    .limit(sameTime)
    .execute()
  const placeOf = ({ incident }: Message): number => incident?.place ?? 0
  const before = rows
    .map(({ content }) => readMessage(content))
    .reduce<Message | undefined>((last, each) => (last && placeOf(last) > placeOf(each) ? last : each), undefined)
  if (!before?.incident) return own
  const isOver = before.kind === 'resolved' && before.group === before.incident.group && openOf(before) === null
  return { ...(isOver ? own : before.incident), place: before.incident.place + 1 }
}

/** Returns the first message of the incident as its receiver stored it, if that gave it an id. */
export async function readThread(db: Db, { id, incident }: Message): Promise<Thread | undefined> {
  if (incident === null || incident.id === id) return undefined
  const first = await db
    .selectFrom('alert_messages')
    .select(['content', 'reference'])
    .where('id', '=', incident.id)
    .executeTakeFirst()
  return first?.reference ? { reference: first.reference, first: readMessage(first.content) } : undefined
}

/**
 * Whether a later message about the same was delivered, before one that is sent again or late. An edit by the earlier one
 * would hide what the later one says.
 */
export async function isOvertaken(
  db: Db,
  { channel_id, subject, created_at }: Pick<ClaimedMessage, 'channel_id' | 'subject' | 'created_at'>,
): Promise<boolean> {
  if (subject === null) return false
  const later = await db
    .selectFrom('alert_messages')
    .select('id')
    .where('channel_id', '=', channel_id)
    .where('subject', '=', subject)
    .where('created_at', '>', created_at)
    .where('state', '=', sql.lit('delivered'))
    .limit(1)
    .executeTakeFirst()
  return later !== undefined
}

/** Inserts messages that are due now, with a lease if the caller sends them itself; for a person, or the receivers of the channel. */
export async function insertMessages(
  db: Db,
  channelId: string,
  lane: Lane,
  messages: readonly Message[],
  { lease, personId = null }: { lease?: { owner: string; until: number }; personId?: string | null } = {},
): Promise<void> {
  if (messages.length === 0) return
  const rows = messages.map((message) => ({
    id: message.id,
    channel_id: channelId,
    kind: message.kind,
    lane,
    title: message.title,
    severity: message.severity,
    content: JSON.stringify(message),
    subject: subjectOf(message, lane),
    person_id: personId,
    state: 'pending' as const,
    created_at: message.created_at,
    due_at: message.created_at,
    leased_until: lease?.until ?? null,
    lease_owner: lease?.owner ?? null,
  }))
  await db.insertInto('alert_messages').values(rows).execute()
}

/** Selects due messages of a channel's lane that no process is sending. */
const dueMessages = (db: Db, channelId: string, lane: Lane, now: number) =>
  db
    .selectFrom('alert_messages')
    .select('id')
    .where('channel_id', '=', channelId)
    .where('lane', '=', lane)
    .where('state', '=', pending)
    .where('due_at', '<=', now)
    .where(isFree(now))

export async function hasDueMessage(db: Db, channelId: string, lane: Lane, now: number): Promise<boolean> {
  return (await dueMessages(db, channelId, lane, now).limit(1).executeTakeFirst()) !== undefined
}

interface Wanted {
  channelId: string
  lane: Lane
  limit: number
  /** Only messages that were not attempted yet. */
  unattemptedOnly: boolean
}

/** Claims due messages, oldest first: until the lease ends no other process sends them. */
export function claimMessages(
  db: Db,
  { channelId, lane, limit, unattemptedOnly }: Wanted,
  claim: TimedClaim,
): Promise<ClaimedMessage[]> {
  const due = dueMessages(db, channelId, lane, claim.now)
  const chosen = unattemptedOnly ? due.where('attempts', '=', 0) : due
  return claimRows<ClaimedMessage>(db, messages, chosen.orderBy('due_at').limit(limit), claim)
}

/**
 * Stores the result of an attempt. A delivery is stored even if another process took over the lease, a failure only for
 * the owner of the lease.
 */
export function resultStatement(db: Db, { row, owner, verdict, now, nextAt }: MessageAttempt): Statement {
  const { status, answer, error } = verdict
  const update = db
    .updateTable('alert_messages')
    .set({ ...unclaimed, last_status: status, last_answer: answer, last_error: error })
    .set((e) => ({ attempts: e('attempts', '+', 1) }))
    .where('id', '=', row.id)
    .where('state', '=', 'pending')
  if (verdict.delivered) {
    return update.set({ state: 'delivered', delivered_at: now, reference: verdict.reference ?? null }).compile()
  }
  // The count, because a failure whose storing went unanswered is stored again, when the next attempt may be running.
  const held = update.where('lease_owner', '=', owner).where('attempts', '=', row.attempts)
  return nextAt === undefined ? held.set({ state: 'dead' }).compile() : held.set({ due_at: nextAt }).compile()
}

/** Puts dead messages back into the queue, at the start of the retry schedule. Resolves with their number. */
export async function reviveMessages(trx: Trx, which: { id: string } | { channelId: string }, now: number) {
  const update = trx
    .updateTable('alert_messages')
    .set({ ...unclaimed, state: 'pending', due_at: now, attempts: 0 })
    .where('state', '=', sql.lit('dead'))
    .where('kind', 'not in', unrepeatable)
    .where('person_id', 'is', null)
  const chosen = 'id' in which ? update.where('id', '=', which.id) : update.where('channel_id', '=', which.channelId)
  const { numUpdatedRows } = await chosen.executeTakeFirstOrThrow()
  return Number(numUpdatedRows)
}

/** Drops all pending messages of a channel. */
export async function dropMessages(trx: Trx, channelId: string, reason: string): Promise<void> {
  await trx
    .updateTable('alert_messages')
    .set({ ...unclaimed, state: 'dead', last_error: reason })
    .where('channel_id', '=', channelId)
    .where('state', '=', pending)
    .execute()
}

/** Deletes up to `limit` messages created before the time of the id that are not pending. Resolves with their number. */
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

/** Counts the mails to a person since an instant. */
export async function countMailsSince(db: Db, personId: string, since: number): Promise<number> {
  const { count } = await db
    .selectFrom('alert_messages')
    .select((e) => e.fn.countAll<number>().as('count'))
    .where('person_id', '=', personId)
    .where('created_at', '>', since)
    .executeTakeFirstOrThrow()
  return count
}

/** Counts the messages to the receivers of a channel since an instant, by lane. */
export async function countMessagesSince(trx: Trx, channelId: string, since: number): Promise<Record<Lane, number>> {
  const rows = await trx
    .selectFrom('alert_messages')
    .select((e) => ['lane', e.fn.countAll<number>().as('count')])
    .where('channel_id', '=', channelId)
    .where('created_at', '>=', since)
    .where('person_id', 'is', null)
    .groupBy('lane')
    .execute()
  return { own: 0, reported: 0, ...Object.fromEntries(rows.map(({ lane, count }) => [lane, count])) }
}

export async function countPending(db: Db, channelId: string, lane: Lane): Promise<number> {
  const { count } = await db
    .selectFrom('alert_messages')
    .select((e) => e.fn.countAll<number>().as('count'))
    .where('channel_id', '=', channelId)
    .where('lane', '=', lane)
    .where('state', '=', pending)
    .executeTakeFirstOrThrow()
  return count
}

/** Counts messages in this state by channel; channels without any are missing in the result. */
export async function countMessages(db: Db, state: 'pending' | 'dead'): Promise<Map<string, number>> {
  const rows = await db
    .selectFrom('alert_messages')
    .select((e) => ['channel_id', e.fn.countAll<number>().as('count')])
    .where('state', '=', sql.lit(state))
    .$if(state === 'dead', (dead) => dead.where('kind', 'not in', unrepeatable).where('person_id', 'is', null))
    .groupBy('channel_id')
    .execute()
  return new Map(rows.map(({ channel_id, count }) => [channel_id, count]))
}

export function findMessage(db: Db, id: string): Promise<LoggedMessage | undefined> {
  return db.selectFrom('alert_messages').select(viewColumns).where('id', '=', id).executeTakeFirst()
}

/** A message of the delivery log. */
export function findContent(db: Db, id: string) {
  return db
    .selectFrom('alert_messages')
    .select(['channel_id', 'content', 'attempts'])
    .where('id', '=', id)
    .executeTakeFirst()
}

export async function findMessages(db: Db, ids: readonly string[]): Promise<LoggedMessage[]> {
  if (ids.length === 0) return []
  return db
    .selectFrom('alert_messages')
    .select(viewColumns)
    .where('id', 'in', [...ids])
    .execute()
}

/** Reads a page of messages, newest first. */
export function listMessageRows(
  db: Db,
  filter: { channel_id?: string; state?: MessageRow['state']; before?: string },
  limit: number,
): Promise<LoggedMessage[]> {
  let query = db.selectFrom('alert_messages').select(viewColumns).orderBy('id', 'desc').limit(limit)
  if (filter.channel_id !== undefined) query = query.where('channel_id', '=', filter.channel_id)
  // A literal, for the partial indexes; the value is one of a fixed list.
  if (filter.state !== undefined) query = query.where('state', '=', sql.lit(filter.state) as never)
  if (filter.before !== undefined) query = query.where('id', '<', filter.before)
  return query.execute()
}
