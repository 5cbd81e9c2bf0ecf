import { alertTypes } from '@wardline/contract'
import { endRun, readRun, recordRun } from '../../db/runs.ts'
import type { Deps } from '../../deps.ts'
import { localActor, recordAction } from '../audit/audit.ts'
import { countChange, dropWaiting, holdChannel, updateChannel } from './channel-queries.ts'
import { composeMessage } from './compose.ts'
import type { Directory } from './directory.ts'
import {
  claimCheck,
  countMessagesByType,
  hasFailing,
  markFailing,
  markRecoveredChannels,
  readFailing,
  readUnchecked,
} from './health-queries.ts'
import type { Outbox } from './outbox.ts'
import { insertMessages } from './plan-queries.ts'
import { quietUntil } from './quiet-hours.ts'

const checkEveryMs = 86_400_000
/** Since when some channel fails, as a run of this name. */
const failingName = 'alert_channels_failing'
/** A receiver that restarts is back by then; whoever waits for an alert does not want to wait longer for this one. */
const failingAfterMs = 5 * 60_000
/** The three tries that a message gets within those minutes. */
const failingAfter = 3

type Needed = Pick<Deps, 'database' | 'clock' | 'log' | 'metrics'>

/** Sends each channel its daily check: only what arrives proves that alerts would. */
async function sendChecks({ database: { db }, clock }: Needed, known: ReadonlySet<string>): Promise<number> {
  const now = clock.now()
  const isQuiet = (hours: string | null) => hours !== null && quietUntil(JSON.parse(hours), 'info', now) !== undefined
  // A channel that this process cannot send to may be one of another process.
  const due = (await readUnchecked(db, now - checkEveryMs)).filter(
    ({ id, quiet_hours }) => known.has(id) && !isQuiet(quiet_hours),
  )
  for (const { id } of due) {
    await db.transaction().execute(async (trx) => {
      if (!(await claimCheck(trx, id, now - checkEveryMs, now))) return
      await insertMessages(trx, id, [composeMessage({ kind: 'check', now, group: null, alerts: [], count: 0 })])
    })
  }
  return due.length
}

/** Tells the other channels of one that nothing reaches. */
async function reportFailing({ database: { db }, clock, log }: Needed, outbox: Outbox): Promise<void> {
  const now = clock.now()
  for (const { id, name, type, last_error } of await readFailing(db, failingAfter, now - failingAfterMs)) {
    const description = `Alerts do not reach the channel "${name}" (${type}): ${last_error ?? 'no answer.'}`
    const isFirst = await db.transaction().execute(async (trx) => {
      if (!(await markFailing(trx, id, now))) return false
      const alert = { severity: 'critical', event_type: alertTypes.channelFailing, instance_id: null } as const
      await recordRun(trx, failingName, now)
      await outbox.write(trx, [{ ...alert, description: description.slice(0, 1_000) }], now)
      return true
    })
    if (isFirst) log.error({ channel: id, type }, 'alerts do not reach a channel')
    outbox.notify()
  }
}

async function reportRecovered({ database: { db }, clock, log }: Needed, outbox: Outbox, known: ReadonlySet<string>) {
  if ((await readRun(db, failingName)) === null) {
    // Another process may have told of the end just when this one told of a failure.
    if (await hasFailing(db, [...known])) await recordRun(db, failingName, clock.now())
    return
  }
  const isOver = await db.transaction().execute(async (trx) => {
    await markRecoveredChannels(trx)
    if ((await hasFailing(trx, [...known])) || !(await endRun(trx, failingName))) return false
    const alert = { severity: 'info', event_type: alertTypes.channelRecovered, instance_id: null } as const
    await outbox.write(trx, [{ ...alert, description: 'No channel fails any more.' }], clock.now())
    return true
  })
  if (!isOver) return
  log.info('alerts reach every channel again')
  outbox.notify()
}

async function showMessages({ database: { db }, metrics }: Needed): Promise<void> {
  metrics.alertMessages.reset()
  for (const { type, state, count } of await countMessagesByType(db)) {
    metrics.alertMessages.set({ channel: type, state }, count)
  }
}

/**
 * Switches a channel off whose receiver said that it will take nothing ever again (410), as Standard Webhooks asks for,
 * and tells the other channels. Somebody has to switch it on again.
 */
export async function switchOffGone({ database: { db }, clock, log }: Needed, outbox: Outbox, id: string) {
  const now = clock.now()
  const isFirst = await db.transaction().execute(async (trx) => {
    await countChange(trx)
    const row = await holdChannel(trx, id)
    if (row?.enabled !== 1) return false
    await updateChannel(trx, id, { enabled: 0 })
    await dropWaiting(trx, id, 'The receiver said that it is gone (410).')
    const description = `The receiver of the channel "${row.name}" (${row.type}) said that it is gone: it was switched off.`
    const alert = { severity: 'critical', event_type: alertTypes.channelFailing, instance_id: null } as const
    await outbox.write(trx, [{ ...alert, description }], now)
    const action = { action: 'alert_channel.change', target: id, before: { enabled: true }, after: { enabled: false } }
    await recordAction(trx, localActor('system'), { ...action, reason: 'The receiver answered 410.' }, now)
    return true
  })
  if (!isFirst) return
  log.error({ channel: id }, 'the receiver of a channel is gone: the channel was switched off')
  outbox.notify()
}

/** Looks after the channels: who looks after them has to be told by somebody when they fail. */
export async function watchChannels(
  deps: Needed,
  outbox: Outbox,
  directory: { readonly current: Directory },
): Promise<void> {
  const known = new Set(directory.current.channels.map(({ id }) => id))
  if ((await sendChecks(deps, known)) > 0) outbox.notify()
  await reportFailing(deps, outbox)
  await reportRecovered(deps, outbox, known)
  await showMessages(deps)
}
