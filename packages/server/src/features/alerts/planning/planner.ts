import { alertTypes, channelKinds, severities } from '@wardline/contract'
import type { Db, Trx } from '../../../db/database.ts'
import type { Deps } from '../../../deps.ts'
import { uuidV7 } from '../../../ids.ts'
import type { Planner } from '../delivery/dispatcher.ts'
import { countMessagesSince, countPending, dropMessages, insertMessages } from '../delivery/queries.ts'
import { groupNameOf, isAtOrAbove, type Lane, laneOf, lanes } from '../outbox/alert.ts'
import { type PlannedAlert, readAlertHead, readOwnAlerts, readReportedAlerts } from '../outbox/queries.ts'
import { optionsOf } from '../routing/channel-options.ts'
import type { Waiting } from '../routing/channels.ts'
import { advancePlace, type ChannelRow, lockChannel } from '../routing/queries.ts'
import { type KnownChannel, type RoutingTable, takes } from '../routing/routing-table.ts'
import { addContext, addContextForPeople } from './alert-context.ts'
import { composeMessage, shownAlerts } from './compose.ts'
import { type AlertGroup, decideAlert, delayedNames, flush, laneOfGroup, roomsOf } from './grouping.ts'
import {
  type AlertOutcome,
  countGroups,
  deleteAllGroups,
  deleteGroups,
  insertOutcomes,
  moveJoined,
  readDueGroups,
  readGroups,
  readJoined,
  readPlanned,
  readUnattended,
  releaseGroups,
  writeGroups,
} from './queries.ts'

/** Alerts planned per transaction: a few milliseconds, so that a kill does not wait long. */
const batchAlerts = 200
/** Maximum pending messages per lane of a machine. Further alerts for a failing receiver stay in the outbox, at no cost. */
const maxPending = 1_000
/** Groups flushed per turn; the next turn continues. */
const batchGroups = 100
const minuteMs = 60_000
/** Maximum remembered problems of a channel without a notification yet: an attacker can invent any number of types. */
const maxRemembered = 1_000
/** Alerts read to choose those listed in a digest. */
const digestRead = 1_000
/** Groups that affect alerts of other groups. */
const alwaysRead = [alertTypes.fleetOutage, ...lanes.flatMap((lane) => Object.values(delayedNames[lane]))]

/** Operations on the delayed alerts and pending messages of a channel. */
export const waiting: Waiting = {
  async drop(trx, channelId, reason) {
    await deleteAllGroups(trx, channelId)
    await dropMessages(trx, channelId, reason)
  },
  releaseQuiet: (trx, channelId, now) =>
    releaseGroups(trx, channelId, [delayedNames.own.quiet, delayedNames.reported.quiet], now),
}

/** Alerts of a lane that match a channel, and its positions before and after them. */
interface Step {
  lane: Lane
  channel: KnownChannel
  from: number
  to: number
  rows: PlannedAlert[]
}

/**
 * Turns alerts of the outbox into messages, channel by channel. Each step is one transaction that starts with a guarded
 * update of the channel's row, so that only one of several processes does it and a crash leaves nothing incomplete.
 */
export function createPlanner(
  { database: { db }, clock, log }: Pick<Deps, 'database' | 'clock' | 'log'>,
  table: Pick<RoutingTable, 'current'>,
): Planner {
  /** Advances the channel's position; returns the channel as locked and the alerts to plan, none if another process was faster. */
  async function take(trx: Trx, { lane, channel: known, from, to, rows }: Step) {
    const row = await advancePlace(trx, known.id, lane, from, to)
    if (!row || rows.length === 0) return { channel: known, rows: [] }
    const channel = asLocked(known, row)
    if (lane === 'reported') return { channel, rows }
    const planned = await readPlanned(trx, channel.id, rows)
    return { channel, rows: rows.filter(({ seq }) => !planned.has(seq)) }
  }

  async function planMachine(step: Step) {
    const { channel } = step
    const delivered = new Map((await addContext(db, step.rows)).map((alert) => [alert.seq, alert]))
    await db.transaction().execute(async (trx) => {
      const now = clock.now()
      const planned = (await take(trx, step)).rows.map((row) => {
        const alerts = [delivered.get(row.seq)!]
        return { row, message: composeMessage({ kind: 'alert', now, group: groupNameOf(row), alerts, count: 1 }) }
      })
      for (const lane of lanes) {
        const own = planned.filter(({ row }) => laneOf(row) === lane)
        const messages = own.map(({ message }) => message)
        await insertMessages(trx, channel.id, lane, messages)
      }
      await insertOutcomes(
        trx,
        planned.map(({ row, message }) => outcomeOf(row, channel, 'sent', message.id)),
      )
    })
  }

  function planPeople(step: Step) {
    return db.transaction().execute(async (trx) => {
      const { channel, rows } = await take(trx, step)
      if (rows.length === 0) return
      const names = new Set([...rows.map(groupNameOf), ...alwaysRead])
      const groups = await readGroups(trx, channel.id, [...names])
      const known = [...groups.keys()]
      const rooms = await readRooms(trx, channel, clock.now())
      const remembered = await countGroups(trx, channel.id, step.lane)
      let collected: AlertOutcome[] = []
      const touched = new Set<string>()
      const put = (group: AlertGroup) => {
        groups.set(group.name, group)
        touched.add(group.name)
      }
      for (const row of rows) {
        const now = clock.now()
        const { silences } = table.current
        const before = groups.get(groupNameOf(row))
        const room = rooms[laneOf(row)]
        // Includes new groups of this batch.
        const mayRemember = remembered + groups.size - known.length < maxRemembered
        const decision = decideAlert(row, { channel, silences, groups, mayRemember, ...room, now })
        if (decision.ended !== undefined) groups.delete(decision.ended)
        if (decision.outcome === 'sent') {
          // sendNow reads the waiting alerts from the database, so store them first.
          await insertOutcomes(trx, collected)
          collected = []
          room.room -= 1
          room.urgentRoom -= 1
          await sendNow(trx, channel, row, decision.kind, before)
          if (decision.kind === 'alert') put(decision.group)
        } else if (decision.outcome === 'waiting') {
          const messageId = decision.group.message_id ?? uuidV7(now)
          put({ ...decision.group, message_id: messageId })
          if (decision.remembered) put(decision.remembered)
          collected.push(outcomeOf(row, channel, 'joined', messageId))
        } else collected.push(outcomeOf(row, channel, decision.outcome, null))
      }
      await insertOutcomes(trx, collected)
      await writeGroups(
        trx,
        channel.id,
        [...touched].flatMap((name) => groups.get(name) ?? []),
      )
      await deleteGroups(
        trx,
        channel.id,
        known.filter((name) => !groups.has(name)),
      )
    })
  }

  const readRooms = async (trx: Trx, { id, max_per_minute }: KnownChannel, now: number) =>
    roomsOf(max_per_minute, await countMessagesSince(trx, id, now - minuteMs))

  /** Writes one message with an alert and all waiting alerts of its group. */
  async function sendNow(
    trx: Trx,
    channel: KnownChannel,
    row: PlannedAlert,
    kind: 'alert' | 'resolved',
    before: AlertGroup | undefined,
  ): Promise<void> {
    const { message_id: id = null, waiting = 0 } = before ?? {}
    const waited = id === null ? [] : await readJoined(trx, id, shownAlerts)
    const alerts = await addContextForPeople(trx, [...waited, row].slice(-shownAlerts))
    const message = composeMessage({ id, kind, now: clock.now(), group: groupNameOf(row), alerts, count: waiting + 1 })
    await insertMessages(trx, channel.id, laneOf(row), [message])
    await insertOutcomes(trx, [outcomeOf(row, channel, 'sent', message.id)])
  }

  function flushOne(known: KnownChannel, name: string): Promise<void> {
    return db.transaction().execute(async (trx) => {
      const row = await lockChannel(trx, known.id)
      if (!row) return
      const channel = asLocked(known, row)
      const now = clock.now()
      const lane = laneOfGroup(name)
      const groups = await readGroups(trx, channel.id, [name, delayedNames[lane].storm])
      const group = groups.get(name)
      // Another process was faster.
      if (!group || group.due_at === null || group.due_at > now) return
      const { room } = (await readRooms(trx, channel, now))[lane]
      const isReminder = group.waiting === 0 && group.state === 'open'
      const unattended = isReminder
        ? await readUnattended(trx, channel.id, name, shownAlerts)
        : { count: 0, alerts: [] }
      const { silences } = table.current
      const decision = flush(group, { channel, silences, groups, room, now, unattended: unattended.alerts })
      const put = (after: AlertGroup | null) =>
        after ? writeGroups(trx, channel.id, [after]) : deleteGroups(trx, channel.id, [name])
      const send = async (
        kind: Parameters<typeof composeMessage>[0]['kind'],
        rows: readonly PlannedAlert[],
        count: number,
      ) => {
        const parts = {
          id: group.message_id,
          kind,
          now,
          group: name,
          alerts: await addContextForPeople(trx, rows),
          count,
        }
        await insertMessages(trx, channel.id, lane, [composeMessage(parts)])
      }
      const waited = (limit: number) => (group.message_id === null ? [] : readJoined(trx, group.message_id, limit))
      switch (decision.kind) {
        case 'alert':
          await send('alert', await waited(shownAlerts), group.waiting)
          return put(decision.group)
        case 'digest':
          await send('digest', leadingAlerts(await waited(digestRead)), group.waiting)
          return put(null)
        case 'reminder':
          await send('reminder', unattended.alerts, unattended.count)
          return put(decision.group)
        case 'wait':
          return put(decision.group)
        case 'resolved':
          await send('resolved', await waited(shownAlerts), group.waiting)
          return put(null)
        case 'join storm': {
          const messageId = decision.storm.message_id ?? uuidV7(now)
          await moveJoined(trx, group.message_id!, messageId)
          await writeGroups(trx, channel.id, [{ ...decision.storm, message_id: messageId }])
          return put(decision.group)
        }
        case 'end':
          return put(null)
      }
    })
  }

  return {
    async plan(lane, channel, from) {
      const isMachine = channelKinds[channel.type].audience === 'machines'
      const pending = isMachine ? await countPending(db, channel.id, lane) : 0
      const limit = Math.min(batchAlerts, maxPending - pending)
      if (limit <= 0) return false
      const read = await readLane(db, lane, channel, from, limit)
      if (read === undefined) return false
      const rows = read.rows.filter((row) => takes(channel, table.current.routes, row))
      await (isMachine ? planMachine : planPeople)({ lane, channel, from, to: read.to, rows })
      return read.hasMore
    },

    async flushDue(lane, channels) {
      if (channels.length === 0) return
      const byId = new Map(channels.map((channel) => [channel.id, channel]))
      const due = await readDueGroups(db, lane, [...byId.keys()], clock.now(), batchGroups)
      for (const { channel_id, name } of due) {
        // A group that fails must not delay the others.
        await flushOne(byId.get(channel_id)!, name).catch((fault) => {
          log.error({ err: fault, channel: channel_id }, 'sending a group of alerts failed; it will be retried')
        })
      }
    },
  }
}

/**
 * Uses the options of the locked row, because quiet hours may have been changed since the routing table was read: the old
 * ones would delay again what the change released.
 */
const asLocked = (known: KnownChannel, row: ChannelRow): KnownChannel => ({ ...known, ...optionsOf(row) })

interface Read {
  rows: PlannedAlert[]
  /** Position after them. */
  to: number
  hasMore: boolean
}

/** Reads the alerts after a channel's position in a lane; undefined if there are none. */
async function readLane(
  db: Db,
  lane: Lane,
  { min_severity }: KnownChannel,
  after: number,
  limit: number,
): Promise<Read | undefined> {
  if (lane === 'own') {
    // Without own alerts the position stays: an index skips all reported ones.
    const rows = await readOwnAlerts(db, after, limit)
    return rows.length === 0 ? undefined : { rows, to: rows.at(-1)!.seq, hasMore: rows.length === limit }
  }
  const upTo = await readAlertHead(db)
  if (after >= upTo) return undefined
  const wanted = severities.filter((severity) => isAtOrAbove(severity, min_severity))
  const rows = await readReportedAlerts(db, { after, upTo, severities: wanted, limit })
  const to = rows.length === limit ? rows.at(-1)!.seq : upTo
  return { rows, to, hasMore: to < upTo }
}

const outcomeOf = (
  row: PlannedAlert,
  channel: KnownChannel,
  outcome: AlertOutcome['outcome'],
  messageId: string | null,
): AlertOutcome => ({
  alert_seq: row.seq,
  channel_id: channel.id,
  outcome,
  // Machines have no groups.
  group_name: channelKinds[channel.type].audience === 'people' ? groupNameOf(row) : null,
  message_id: messageId,
})

/** Chooses the alerts to list in a digest: own ones first, then by severity, then the newest. */
function leadingAlerts(rows: readonly PlannedAlert[]): PlannedAlert[] {
  const weight = ({ by_service, severity }: PlannedAlert) => by_service * 10 + severities.indexOf(severity)
  const chosen = rows.toSorted((one, other) => weight(one) - weight(other) || one.seq - other.seq).slice(-shownAlerts)
  return chosen.sort((one, other) => one.seq - other.seq)
}
