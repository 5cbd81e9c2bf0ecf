import { alertTypes, type ChannelView } from '@wardline/contract'
import { dayMs, isoTime } from '../../../clock.ts'
import type { Db } from '../../../db/database.ts'
import { endRun, readRun, recordRun } from '../../../db/runs.ts'
import type { Deps } from '../../../deps.ts'
import { unknownId } from '../../../errors.ts'
import { noticeMessage } from '../channels/message.ts'
import type { Outbox } from '../outbox/outbox.ts'
import { countOwnAlerts, readAlertHead } from '../outbox/queries.ts'
import { optionsOf } from '../routing/channel-options.ts'
import {
  type ChannelRow,
  claimCheck,
  hasFailing,
  markChannelsRecovered,
  markFailing,
  readChannelRows,
  readFailing,
  readUncheckedChannels,
} from '../routing/queries.ts'
import { quietUntil } from '../routing/quiet-hours.ts'
import { decides, type KnownChannel, type RoutingTable } from '../routing/routing-table.ts'
import { countMessages, insertMessages } from './queries.ts'

const checkEveryMs = dayMs
/** Since when some channel fails, as a run of this name. */
const failingName = 'alert_channels_failing'
/** Long enough for a receiver to restart; short enough for people who rely on the channel. */
const failingAfterMs = 5 * 60_000
/** Number of attempts that a message gets within this time. */
const failingAfter = 3

type Needed = Pick<Deps, 'database' | 'clock' | 'log' | 'metrics'>

/** Sends the daily check to each channel, because only a delivery proves that alerts arrive. */
async function sendChecks({ database: { db }, clock }: Needed, known: ReadonlySet<string>): Promise<number> {
  const now = clock.now()
  const isQuiet = (hours: string | null) => hours !== null && quietUntil(JSON.parse(hours), 'info', now) !== undefined
  // Skips channels that only another process can send to.
  const due = (await readUncheckedChannels(db, now - checkEveryMs)).filter(
    ({ id, quiet_hours }) => known.has(id) && !isQuiet(quiet_hours),
  )
  for (const { id } of due) {
    await db.transaction().execute(async (trx) => {
      if (!(await claimCheck(trx, id, now - checkEveryMs, now))) return
      await insertMessages(trx, id, 'own', [noticeMessage('check', now)])
    })
  }
  return due.length
}

/** Notifies the other channels of a channel that fails. */
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
    // Another process may report a recovery while this one reports a failure.
    if (await hasFailing(db, [...known])) await recordRun(db, failingName, clock.now())
    return
  }
  const isOver = await db.transaction().execute(async (trx) => {
    await markChannelsRecovered(trx)
    if ((await hasFailing(trx, [...known])) || !(await endRun(trx, failingName))) return false
    const alert = { severity: 'info', event_type: alertTypes.channelRecovered, instance_id: null } as const
    await outbox.write(trx, [{ ...alert, description: 'All channels work again.' }], clock.now())
    return true
  })
  if (!isOver) return
  log.info('alerts reach every channel again')
  outbox.notify()
}

/** Counts pending and dead messages by type of channel. */
async function measureMessages({ database: { db }, metrics }: Needed): Promise<void> {
  const types = new Map((await readChannelRows(db)).map(({ id, type }) => [id, type]))
  const counts = { pending: await countMessages(db, 'pending'), dead: await countMessages(db, 'dead') }
  metrics.alertMessages.reset()
  for (const state of ['pending', 'dead'] as const) {
    for (const [id, count] of counts[state]) {
      const channel = types.get(id)
      if (channel !== undefined) metrics.alertMessages.inc({ channel, state }, count)
    }
  }
}

/** Checks the health of the channels. Only another channel can report a failing one. */
export async function watchChannels(
  deps: Needed,
  outbox: Outbox,
  { current }: Pick<RoutingTable, 'current'>,
): Promise<void> {
  const known = new Set(current.channels.map(({ id }) => id))
  if ((await sendChecks(deps, known)) > 0) outbox.notify()
  await reportFailing(deps, outbox)
  await reportRecovered(deps, outbox, known)
  await measureMessages(deps)
}

const time = (epochMs: number | null) => (epochMs === null ? null : isoTime(epochMs))

function stateOf({ enabled, failing_since }: ChannelRow, opens: boolean): ChannelView['state'] {
  if (enabled === 0) return 'disabled'
  return failing_since === null && opens ? 'ok' : 'failing'
}

interface Backlog {
  pending: ReadonlyMap<string, number>
  dead: ReadonlyMap<string, number>
  /** Alerts not planned yet. */
  behind(row: ChannelRow): number
}

/** The service's own alerts have a separate place, which most channels share. */
async function readBacklog(db: Db, rows: readonly ChannelRow[]): Promise<Backlog> {
  const head = await readAlertHead(db)
  const ownPlace = ({ own_planned_seq, planned_seq }: ChannelRow) => own_planned_seq ?? planned_seq
  const own = new Map<number, number>()
  for (const row of rows) {
    const place = ownPlace(row)
    if (row.enabled === 1 && !own.has(place)) own.set(place, await countOwnAlerts(db, place))
  }
  return {
    pending: await countMessages(db, 'pending'),
    dead: await countMessages(db, 'dead'),
    behind: (row) => (row.enabled === 0 ? 0 : Math.max(own.get(ownPlace(row)) ?? 0, head - row.planned_seq)),
  }
}

function viewOf(
  row: ChannelRow,
  { pending, dead, behind }: Backlog,
  channel: KnownChannel | undefined,
  now: number,
): ChannelView {
  const opens = channel !== undefined
  const { id, name, type, managed_by, destination } = row
  return {
    id,
    name,
    type,
    managed_by,
    destination,
    ...optionsOf(row),
    decides: channel !== undefined && decides(channel),
    state: stateOf(row, opens),
    waiting: pending.get(id) ?? 0,
    dead: dead.get(id) ?? 0,
    behind: behind(row),
    paused_until: row.enabled === 1 && row.resume_at !== null && row.resume_at > now ? isoTime(row.resume_at) : null,
    last_delivered_at: time(row.last_delivered_at),
    last_error: opens
      ? row.last_error
      : 'The settings cannot be decrypted: replace them, or restore the master secret.',
    last_error_at: time(row.last_error_at),
  }
}

/** Returns all channels with their health, oldest first. */
export async function listChannels(db: Db, table: RoutingTable, now: number): Promise<ChannelView[]> {
  await table.refresh()
  const known = new Map(table.current.channels.map((channel) => [channel.id, channel]))
  const rows = (await readChannelRows(db)).filter((row) => table.has(row))
  const backlog = await readBacklog(db, rows)
  return rows.map((row) => viewOf(row, backlog, known.get(row.id), now))
}

/** Returns one channel with its health. Throws AppError `not_found`. */
export async function viewChannel(db: Db, table: RoutingTable, id: string, now: number): Promise<ChannelView> {
  const found = (await listChannels(db, table, now)).find((channel) => channel.id === id)
  if (!found) throw unknownId('channel', id, 'wardline channels list')
  return found
}
