import { alertTypes, severities } from '@wardline/contract'
import type { Trx } from '../../db/database.ts'
import type { Deps } from '../../deps.ts'
import { uuidV7 } from '../../ids.ts'
import { isAtLeast } from './alert-match.ts'
import { allChannels } from './channels/all-channels.ts'
import { composeMessage, shownAlerts } from './compose.ts'
import type { Directory, KnownChannel } from './directory.ts'
import {
  countGroups,
  type DeliveryRow,
  deleteGroups,
  insertDeliveries,
  moveJoined,
  readDueGroups,
  readGroups,
  readJoined,
  readUnattended,
  writeGroups,
} from './group-queries.ts'
import { decide, flush, type Group, held } from './grouping.ts'
import type { Message, Severity } from './message.ts'
import {
  type AlertRow,
  advance,
  type ChannelProgress,
  countMessagesSince,
  countPending,
  insertMessages,
  lockChannel,
  readAlerts,
  readEventDetails,
  toldAlert,
} from './plan-queries.ts'
import { groupNameOf } from './resolutions.ts'
import { takes } from './takers.ts'

/** Alerts looked at in one transaction: a few milliseconds, so that a kill never waits long for its own. */
const batchAlerts = 200
/** Messages that may wait for one machine: what a dead one is still to get stays in the outbox, where it costs nothing. */
const mostPending = 1_000
/** Groups told in one turn; the others are due in the next. */
const batchGroups = 100
const minuteMs = 60_000
/** Problems of one channel that are remembered without having been told: an attacker could invent as many as types. */
const mostRemembered = 1_000
/** Alerts among which the ones that a digest shows are chosen. */
const digestRead = 1_000
/** Groups that decide about alerts of others. */
const alwaysRead = [alertTypes.fleetOutage, ...Object.values(held)]

const severitiesFrom = (least: Severity): Severity[] => severities.filter((severity) => isAtLeast(severity, least))

export interface Planner {
  /** Looks at alerts after the channel's place, up to `head`, and writes the messages that follow from them. Resolves with whether there may be more. */
  plan(channel: KnownChannel, progress: ChannelProgress, head: number): Promise<boolean>
  /** Writes the messages of groups whose time has come. */
  flushDue(channels: readonly KnownChannel[]): Promise<void>
}

/**
 * Turns the outbox into messages, channel by channel. Each step is one transaction that begins with a guarded update of
 * the channel's row: of several processes one does it, and a crash leaves no half of it.
 */
export function createPlanner(
  { database: { db }, clock, log }: Pick<Deps, 'database' | 'clock' | 'log'>,
  directory: { readonly current: Directory },
): Planner {
  async function planMachine(channel: KnownChannel, progress: ChannelProgress, rows: AlertRow[], to: number) {
    const details = await readEventDetails(db, rows)
    const now = clock.now()
    const messages = rows.map((row) => {
      const { ip_address = null, metadata = null } = details.get(row.event_seq ?? 0) ?? {}
      const told = { ...toldAlert(row), ip_address, metadata: metadata === null ? null : JSON.parse(metadata) }
      return composeMessage({ kind: 'alert', now, group: groupNameOf(row), alerts: [told], count: 1 })
    })
    await db.transaction().execute(async (trx) => {
      if (!(await advance(trx, channel.id, progress.plannedSeq, to))) return
      await insertMessages(trx, channel.id, messages)
      const deliveries = rows.map((row, index) => delivery(row, channel, 'told', messages[index]!.id))
      await insertDeliveries(trx, deliveries)
    })
  }

  function planPeople(channel: KnownChannel, progress: ChannelProgress, rows: AlertRow[], to: number) {
    return db.transaction().execute(async (trx) => {
      if (!(await advance(trx, channel.id, progress.plannedSeq, to)) || rows.length === 0) return
      const names = new Set([...rows.map(groupNameOf), ...alwaysRead])
      const groups = await readGroups(trx, channel.id, [...names])
      const known = [...groups.keys()]
      const room = await roomOf(trx, channel, clock.now())
      const mayRemember = (await countGroups(trx, channel.id)) < mostRemembered
      let collected: DeliveryRow[] = []
      const touched = new Set<string>()
      const put = (group: Group) => {
        groups.set(group.name, group)
        touched.add(group.name)
      }
      for (const row of rows) {
        const now = clock.now()
        const { silences } = directory.current
        const before = groups.get(groupNameOf(row))
        const decision = decide(row, { channel, silences, groups, mayRemember, ...room, now })
        if (decision.ended !== undefined) groups.delete(decision.ended)
        if (decision.outcome === 'told') {
          // What waited with it is read back from the database.
          await insertDeliveries(trx, collected)
          collected = []
          room.room -= 1
          room.urgentRoom -= 1
          await tellNow(trx, channel, row, decision.kind, before)
          if (decision.kind === 'alert') put(decision.group)
        } else if (decision.outcome === 'waiting') {
          const messageId = decision.group.message_id ?? uuidV7(now)
          put({ ...decision.group, message_id: messageId })
          if (decision.remembered) put(decision.remembered)
          collected.push(delivery(row, channel, 'joined', messageId))
        } else collected.push(delivery(row, channel, decision.outcome, null))
      }
      await insertDeliveries(trx, collected)
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

  /** Messages that the channel may still get within this minute. */
  async function roomOf(trx: Trx, channel: KnownChannel, now: number) {
    const sent = await countMessagesSince(trx, channel.id, now - minuteMs)
    return { room: channel.max_per_minute - sent, urgentRoom: 2 * channel.max_per_minute - sent }
  }

  /** One message of an alert and of all that waited with it. */
  async function tellNow(
    trx: Trx,
    channel: KnownChannel,
    row: AlertRow,
    kind: 'alert' | 'resolved',
    before: Group | undefined,
  ): Promise<void> {
    const { message_id: id = null, waiting = 0 } = before ?? {}
    const waited = id === null ? [] : await readJoined(trx, id, shownAlerts)
    const alerts = [...waited, row].map(toldAlert)
    const message = composeMessage({ id, kind, now: clock.now(), group: groupNameOf(row), alerts, count: waiting + 1 })
    await insertMessages(trx, channel.id, [message])
    await insertDeliveries(trx, [delivery(row, channel, 'told', message.id)])
  }

  function flushOne(channel: KnownChannel, name: string): Promise<void> {
    return db.transaction().execute(async (trx) => {
      if (!(await lockChannel(trx, channel.id))) return
      const now = clock.now()
      const groups = await readGroups(trx, channel.id, [name, held.storm])
      const group = groups.get(name)
      // Another process was faster.
      if (!group || group.due_at === null || group.due_at > now) return
      const { room } = await roomOf(trx, channel, now)
      const isReminder = group.waiting === 0 && group.state === 'open'
      const unattended = isReminder
        ? await readUnattended(trx, channel.id, name, shownAlerts)
        : { count: 0, alerts: [] }
      const { silences } = directory.current
      const decision = flush(group, { channel, silences, groups, room, now, unattended: unattended.alerts })
      const put = (after: Group | null) =>
        after ? writeGroups(trx, channel.id, [after]) : deleteGroups(trx, channel.id, [name])
      const tell = async (kind: Message['kind'], rows: readonly AlertRow[], count: number) => {
        const parts = { id: group.message_id, kind, now, group: name, alerts: rows.map(toldAlert), count }
        await insertMessages(trx, channel.id, [composeMessage(parts)])
      }
      const waited = (limit: number) => (group.message_id === null ? [] : readJoined(trx, group.message_id, limit))
      switch (decision.kind) {
        case 'alert':
          await tell('alert', await waited(shownAlerts), group.waiting)
          return put(decision.group)
        case 'digest':
          await tell('digest', mostImportant(await waited(digestRead)), group.waiting)
          return put(null)
        case 'reminder':
          await tell('reminder', unattended.alerts, unattended.count)
          return put(decision.group)
        case 'wait':
          return put(decision.group)
        case 'resolved':
          await tell('resolved', await waited(shownAlerts), group.waiting)
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
    async plan(channel, progress, head) {
      if (progress.plannedSeq >= head) return false
      const isMachine = allChannels[channel.type].audience === 'machines'
      const pending = isMachine ? await countPending(db, channel.id) : 0
      const limit = Math.min(batchAlerts, mostPending - pending)
      if (limit <= 0) return false
      const rows = await readAlerts(db, progress.plannedSeq, head, severitiesFrom(channel.min_severity), limit)
      const to = rows.length === limit ? rows.at(-1)!.seq : head
      const taken = rows.filter((row) => takes(channel, directory.current.routes, row))
      await (isMachine ? planMachine : planPeople)(channel, progress, taken, to)
      return to < head
    },

    async flushDue(channels) {
      if (channels.length === 0) return
      const byId = new Map(channels.map((channel) => [channel.id, channel]))
      const due = await readDueGroups(db, [...byId.keys()], clock.now(), batchGroups)
      for (const { channelId, name } of due) {
        // One that cannot be told just now holds up no other.
        await flushOne(byId.get(channelId)!, name).catch((fault) => {
          log.error({ err: fault, channel: channelId }, 'a group of alerts is not told just now')
        })
      }
    },
  }
}

const delivery = (
  row: AlertRow,
  channel: KnownChannel,
  outcome: DeliveryRow['outcome'],
  messageId: string | null,
): DeliveryRow => ({
  alert_seq: row.seq,
  channel_id: channel.id,
  outcome,
  // Machines have no groups.
  group_name: allChannels[channel.type].audience === 'people' ? groupNameOf(row) : null,
  message_id: messageId,
})

/** Of what came together, what a person must see: first what the service itself says, then the worst, then the newest. */
function mostImportant(rows: readonly AlertRow[]): AlertRow[] {
  const weight = ({ by_service, severity }: AlertRow) => by_service * 10 + severities.indexOf(severity)
  const chosen = rows.toSorted((one, other) => weight(one) - weight(other) || one.seq - other.seq).slice(-shownAlerts)
  return chosen.sort((one, other) => one.seq - other.seq)
}
