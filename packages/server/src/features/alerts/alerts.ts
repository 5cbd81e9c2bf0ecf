import type { Alert, AlertChange, AlertDetail, AlertQuery } from '@wardline/contract'
import { isoTime } from '../../clock.ts'
import type { Db } from '../../db/database.ts'
import type { Deps } from '../../deps.ts'
import { AppError } from '../../errors.ts'
import { type Actor, recordAction } from '../audit/audit.ts'
import {
  type AlertState,
  changeAlerts,
  changeGroups,
  channelsOfGroup,
  type FullAlert,
  findAlert,
  hasUnresolved,
  readAlertPage,
  readDeliveries,
} from './alert-queries.ts'
import { lockChannel } from './plan-queries.ts'
import { groupNameOf } from './resolutions.ts'

const notFound = () => new AppError('not_found', 'There is no alert with this id.')

const time = (epochMs: number | string | null) => (epochMs === null ? null : isoTime(Number(epochMs)))

const viewOf = ({ by_service: _, ...row }: FullAlert): Alert => ({
  ...row,
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
    deliveries: deliveries.map((row) => ({
      ...row,
      attempts: row.attempts ?? 0,
      delivered_at: time(row.delivered_at),
    })),
  }
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
export function changeAlert(deps: Deps, id: string, change: AlertChange, actor: Actor): Promise<number> {
  const now = deps.clock.now()
  const wholeGroup = change.whole_group ?? false
  return deps.database.db.transaction().execute(async (trx) => {
    const known = await findAlert(trx, id)
    if (!known) throw notFound()
    const group = groupNameOf(known)
    const channels = await channelsOfGroup(trx, group)
    for (const channel of channels) await lockChannel(trx, channel)
    const alert = (await findAlert(trx, id)) ?? known
    const after = newState(alert, change)
    const changed = await changeAlerts(trx, alert, after, { wholeGroup, now })
    if (after.status !== 'resolved' || !(await hasUnresolved(trx, alert))) {
      await changeGroups(trx, channels, group, after.status, now)
    }
    await recordAction(
      trx,
      actor,
      { action: 'alert.change', target: id, before: stateOf(alert), after: { ...stateOf(after), alerts: changed } },
      now,
    )
    return changed
  })
}
