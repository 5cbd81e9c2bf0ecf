import type { AlertChange, AlertCountQuery, AlertCounts, AlertDetail, AlertQuery } from '@wardline/contract'
import { dayMs, isoTime } from '../../clock.ts'
import type { Db } from '../../db/database.ts'
import { inPortions } from '../../db/portions.ts'
import type { Deps } from '../../deps.ts'
import { AppError, unknownId } from '../../errors.ts'
import type { Principal } from '../../http/auth.ts'
import { uuidV7Floor } from '../../ids.ts'
import { recordAction } from '../audit/audit.ts'
import { findMailChoice } from '../people/mail-statements.ts'
import { readHistory } from './alert-history.ts'
import { describeAssignees, filterFor, findAssignee } from './assignees.ts'
import { type Changing, forgetComments, listComments, writeComment } from './comments.ts'
import { deleteMessagesBefore, findMessages } from './delivery/queries.ts'
import { groupNameOf, type StoredAlert } from './outbox/alert.ts'
import { countUndeleted } from './outbox/comment-queries.ts'
import {
  type AlertState,
  changeOne,
  changeSiblings,
  hasUnresolved,
  type SiblingState,
} from './outbox/handling-queries.ts'
import { deleteNotices, insertAssigned } from './outbox/notice-queries.ts'
import {
  countAlertRows,
  deleteAlerts,
  findAlert,
  readAlertPage,
  readExpiredAlerts,
  readTitledAlerts,
} from './outbox/queries.ts'
import { changeGroups, channelsOfGroup, deleteOutcomes, readOutcomes } from './planning/queries.ts'
import { lockChannel, readChannelIds } from './routing/queries.ts'

// Operations of people on alerts, which involve all folders of this feature.

/** What reading an alert with its assignee takes. */
type Reading = Pick<Deps, 'config' | 'clock'>

type Delivery = AlertDetail['deliveries'][number]

const notFound = (id: string) => unknownId('alert', id, 'wardline alerts list')

const time = (epochMs: number | null) => (epochMs === null ? null : isoTime(epochMs))

const viewOf = ({ subject, only_channels, note, assignee, ...row }: StoredAlert) => ({
  ...row,
  by_service: row.by_service === 1,
  created_at: isoTime(row.created_at),
  changed_at: time(row.changed_at),
})

/** Returns a page, newest first; pass `next` as `before`. A page may be short although more follow. */
export async function listAlerts(deps: Reading, db: Db, principal: Principal, query: AlertQuery, limit: number) {
  const before = query.before === undefined ? Number.MAX_SAFE_INTEGER : Number(query.before)
  const { rows, lookedDownTo } = await readAlertPage(db, filterFor(query, principal), before, limit)
  const assignees = rows.map(({ assignee }) => assignee)
  const described = await describeAssignees(deps, db, assignees, deps.clock.now())
  const comments = await countUndeleted(
    db,
    rows.map(({ seq }) => seq),
  )
  const alerts = rows.map((row) => ({
    ...viewOf(row),
    ...described(row.assignee),
    comment_count: comments.get(row.seq) ?? 0,
  }))
  return { alerts, next: lookedDownTo === undefined ? null : String(lookedDownTo) }
}

/** Reads what names the newest alerts above info, newest first. */
export const readNewestAlerts = readTitledAlerts

/** Counts alerts by status and severity. */
export const countAlerts = (db: Db, principal: Principal, filter: AlertCountQuery): Promise<AlertCounts> =>
  countAlertRows(db, filterFor(filter, principal))

/** Returns an alert with its outcome at each channel, as the caller sees it. Throws AppError `not_found`. */
export async function viewAlert(
  deps: Reading,
  db: Db,
  id: string,
  { team, registers: { owner } }: Pick<Principal, 'team' | 'registers'>,
): Promise<AlertDetail> {
  const alert = await findAlert(db, id, team)
  if (!alert) throw notFound(id)
  // Read before the messages, so that a message written in between is found.
  const outcomes = await readOutcomes(db, alert.seq)
  const found = await findMessages(db, [...new Set(outcomes.flatMap(({ message_id }) => message_id ?? []))])
  const messages = new Map(found.map((message) => [message.id, message]))
  const deliveries = outcomes.map(({ channel_id, outcome, message_id, waits_in }): Delivery => {
    const message = messages.get(message_id ?? '')
    return {
      channel_id,
      outcome: outcomeOf(outcome, message !== undefined, waits_in !== null),
      message_id: message?.id ?? null,
      state: message?.state ?? null,
      attempts: message?.attempts ?? 0,
      last_status: message?.last_status ?? null,
      last_answer: message?.last_answer ?? null,
      last_error: message?.last_error ?? null,
      due_at: message?.state === 'pending' ? isoTime(message.due_at) : null,
      delivered_at: time(message?.delivered_at ?? null),
    }
  })
  const comments = await listComments(db, alert.seq, owner)
  const described = await describeAssignees(deps, db, [alert.assignee], deps.clock.now())
  const history = await readHistory(db, id)
  const comment_count = comments.filter(({ text }) => text !== null).length
  return { ...viewOf(alert), ...described(alert.assignee), comment_count, deliveries, comments, history }
}

/** An alert that joined an unwritten message is pending while its group exists, and dropped without a group. */
function outcomeOf(stored: Delivery['outcome'], isWritten: boolean, isWaiting: boolean): Delivery['outcome'] {
  if (stored !== 'joined' || isWritten) return stored
  return isWaiting ? 'waiting' : 'dropped'
}

function newState(alert: StoredAlert, { status, verdict, assignee }: AlertChange): AlertState {
  const state: AlertState = {
    status: status ?? alert.status,
    verdict: verdict === undefined ? alert.verdict : verdict,
    assignee: assignee === undefined ? alert.assignee : assignee,
  }
  if (state.status === 'resolved') return state
  if (verdict) throw new AppError('invalid', 'verdict is only for an alert with status resolved.')
  // What is open again is judged again.
  return { ...state, verdict: null }
}

const stateOf = ({ status, verdict, assignee }: AlertState) => ({ status, verdict, assignee })

/**
 * Acknowledges, assigns or resolves an alert, or all unresolved ones of its type and instance. This stops reminders, and
 * channels that were notified of the problem are notified of its end. Resolves with the number of changed alerts. Throws
 * AppError `not_found` or `invalid`.
 */
export async function changeAlert(changing: Changing, id: string, request: AlertChange): Promise<number> {
  const { database, actor, now, principal } = changing
  const { db } = database
  const known = await findAlert(db, id, principal.team)
  if (!known) throw notFound(id)
  const { assignee } = request
  const change = assignee ? { ...request, assignee: await findAssignee(changing, assignee.trim()) } : request
  const { assignee: theirs, ...state } = newState(known, change)
  // Only who was named takes others over.
  const ofOthers = assignee === undefined ? state : { ...state, assignee: theirs }
  const isMailed = change.assignee ? (await findMailChoice(db, change.assignee))?.assigned === 1 : false
  const others = change.whole_group ? await changeOthers(db, known, ofOthers, now) : 0
  await db.transaction().execute(async (trx) => {
    const group = groupNameOf(known)
    const channels = await channelsOfGroup(trx, await readChannelIds(trx), group)
    for (const channel of channels) await lockChannel(trx, channel)
    const alert = (await findAlert(trx, id)) ?? known
    const after = newState(alert, change)
    await changeOne(trx, alert, after, now)
    const { assignee: next } = after
    // Who assigns an alert to themselves has it in front of them.
    if (next !== null && next !== alert.assignee && next !== principal.registers.owner && isMailed)
      await insertAssigned(trx, next, alert.seq, now)
    if (after.status !== 'resolved' || !(await hasUnresolved(trx, alert))) {
      await changeGroups(trx, channels, group, after.status, now)
    }
    const action = { action: 'alert.change', target: id, before: stateOf(alert) }
    await recordAction(database, trx, actor, { ...action, after: { ...stateOf(after), alerts: others + 1 } }, now)
    if (change.comment !== undefined) await writeComment(trx, changing, alert, change.comment)
  })
  return others + 1
}

async function changeOthers(db: Db, alert: StoredAlert, state: SiblingState, now: number): Promise<number> {
  let changed = 0
  await inPortions(async (limit) => {
    const count = await changeSiblings(db, alert, state, now, limit)
    changed += count
    return count
  })
  return changed
}

/** Deletes alerts, outcomes and messages that are older than the retention of events. */
export async function forgetOldAlerts(
  { database: { db }, clock, config }: Deps,
  stopping?: AbortSignal,
): Promise<void> {
  const cutoff = clock.now() - config.retentionDays * dayMs
  await inPortions(async (limit) => {
    const seqs = await readExpiredAlerts(db, cutoff, limit)
    if (seqs.length > 0) {
      await deleteOutcomes(db, seqs)
      await forgetComments(db, seqs)
      await deleteNotices(db, seqs)
      await deleteAlerts(db, seqs)
    }
    return seqs.length
  }, stopping)
  await inPortions((limit) => deleteMessagesBefore(db, uuidV7Floor(cutoff), limit), stopping)
}
