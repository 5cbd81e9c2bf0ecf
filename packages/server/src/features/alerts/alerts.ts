import type { Alert, AlertChange, AlertDetail, AlertQuery } from '@wardline/contract'
import { isoTime } from '../../clock.ts'
import type { Db } from '../../db/database.ts'
import type { Deps } from '../../deps.ts'
import { AppError } from '../../errors.ts'
import { type Actor, recordAction } from '../audit/audit.ts'
import {
  type AlertState,
  changeGroups,
  changeOne,
  changeSiblings,
  channelsOfGroup,
  type FullAlert,
  findAlert,
  hasUnresolved,
  readAlertPage,
  readDeliveries,
} from './alert-queries.ts'
import { lockChannel } from './plan-queries.ts'
import { groupNameOf } from './resolutions.ts'

type Delivery = AlertDetail['deliveries'][number]

/** Alerts changed in one statement: a few milliseconds, so that nothing waits long for the database. */
const chunkRows = 500
/** Of a larger problem the rest is changed by asking again. */
const mostChunks = 200

const notFound = () => new AppError('not_found', 'There is no alert with this id.')

const time = (epochMs: number | string | null) => (epochMs === null ? null : isoTime(Number(epochMs)))

const viewOf = (row: FullAlert): Alert => ({
  ...row,
  by_service: row.by_service === 1,
  created_at: isoTime(row.created_at),
  changed_at: time(row.changed_at),
})

/** One page, newest first; `next` goes back as `before`. A page may be short while more follow. */
export async function listAlerts(db: Db, query: AlertQuery, limit: number) {
  const before = query.before === undefined ? Number.MAX_SAFE_INTEGER : Number(query.before)
  const { rows, lookedDownTo } = await readAlertPage(db, query, before, limit)
  return { alerts: rows.map(viewOf), next: lookedDownTo === undefined ? null : String(lookedDownTo) }
}

/** One alert, and what became of it at each channel. Throws AppError `not_found`. */
export async function viewAlert(db: Db, id: string): Promise<AlertDetail> {
  const alert = await findAlert(db, id)
  if (!alert) throw notFound()
  const deliveries = await readDeliveries(db, alert.seq)
  return {
    ...viewOf(alert),
    deliveries: deliveries.map(({ waits_in, ...row }) => ({
      ...row,
      outcome: outcomeOf(row.outcome, row.state !== null, waits_in !== null),
      message_id: row.state === null ? null : row.message_id,
      attempts: row.attempts ?? 0,
      delivered_at: time(row.delivered_at),
    })),
  }
}

/** What joined a message that is not written waits as long as a group is to tell it, and is dropped without one. */
function outcomeOf(stored: Delivery['outcome'], isWritten: boolean, isWaiting: boolean): Delivery['outcome'] {
  if (stored !== 'joined' || isWritten) return stored
  return isWaiting ? 'waiting' : 'dropped'
}

function newState(alert: FullAlert, { status, verdict, assignee, note }: AlertChange): AlertState {
  const state: AlertState = {
    status: status ?? alert.status,
    verdict: verdict === undefined ? alert.verdict : verdict,
    assignee: assignee === undefined ? alert.assignee : (assignee?.trim() ?? null),
    note: note === undefined ? alert.note : (note?.trim() ?? null),
  }
  if (state.status === 'resolved') return state
  if (verdict) throw new AppError('invalid', 'verdict is only for an alert with status resolved.')
  // What is open again is judged again.
  return { ...state, verdict: null }
}

const stateOf = ({ status, verdict, assignee, note }: AlertState) => ({ status, verdict, assignee, note })

/**
 * Acknowledges, assigns or resolves an alert, or all unresolved ones of its type and instance. What people did stops
 * reminders, and what is resolved is told to channels that were told of it. Resolves with how many alerts changed.
 * Throws AppError `not_found` or `invalid`.
 */
export async function changeAlert(deps: Deps, id: string, change: AlertChange, actor: Actor): Promise<number> {
  const { db } = deps.database
  const now = deps.clock.now()
  const known = await findAlert(db, id)
  if (!known) throw notFound()
  const state = newState(known, change)
  const others = change.whole_group ? await changeOthers(db, known, state, now) : 0
  await db.transaction().execute(async (trx) => {
    const group = groupNameOf(known)
    const channels = await channelsOfGroup(trx, group)
    for (const channel of channels) await lockChannel(trx, channel)
    const alert = (await findAlert(trx, id)) ?? known
    const after = newState(alert, change)
    await changeOne(trx, alert, after, now)
    if (after.status !== 'resolved' || !(await hasUnresolved(trx, alert))) {
      await changeGroups(trx, channels, group, after.status, now)
    }
    const action = { action: 'alert.change', target: id, before: stateOf(alert) }
    await recordAction(trx, actor, { ...action, after: { ...stateOf(after), alerts: others + 1 } }, now)
  })
  return others + 1
}

async function changeOthers(db: Db, alert: FullAlert, state: AlertState, now: number): Promise<number> {
  let changed = 0
  for (let chunk = 0; chunk < mostChunks; chunk++) {
    const count = await changeSiblings(db, alert, state, now, chunkRows)
    changed += count
    if (count < chunkRows) break
  }
  return changed
}
