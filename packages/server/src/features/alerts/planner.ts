import { alertTypes, severities } from '@wardline/contract'
import type { Trx } from '../../db/database.ts'
import type { Deps } from '../../deps.ts'
import { isAtLeast } from './alert-match.ts'
import { allChannels } from './channels/all-channels.ts'
import { composeMessage, shownAlerts } from './compose.ts'
import type { Directory, KnownChannel } from './directory.ts'
import {
  type DeliveryRow,
  deleteGroups,
  endWaiting,
  insertDeliveries,
  moveWaiting,
  readDueGroups,
  readGroups,
  readUnattended,
  readWaiting,
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
  { database: { db }, clock }: Pick<Deps, 'database' | 'clock'>,
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
      const deliveries = rows.map((row, index) => delivery(row, channel, 'told', null, messages[index]!.id))
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
      let collected: DeliveryRow[] = []
      const touched = new Set<string>()
      for (const row of rows) {
        const { silences } = directory.current
        const decision = decide(row, { channel, silences, groups, hasRoom: room.left > 0, now: clock.now() })
        if ('group' in decision) {
          groups.set(decision.group.name, decision.group)
          touched.add(decision.group.name)
        }
        if (decision.ended !== undefined) groups.delete(decision.ended)
        if (decision.outcome === 'told') {
          await insertDeliveries(trx, collected)
          collected = []
          room.left -= 1
          await tellNow(trx, channel, row, decision.kind)
        } else {
          const name = decision.outcome === 'waiting' ? decision.group.name : groupNameOf(row)
          collected.push(delivery(row, channel, decision.outcome, name, null))
        }
      }
      await insertDeliveries(trx, collected)
      const left = [...touched].flatMap((name) => groups.get(name) ?? [])
      await writeGroups(trx, channel.id, left)
      const ended = known.filter((name) => !groups.has(name))
      await deleteGroups(trx, channel.id, ended)
    })
  }

  /** Messages that the channel may still get within this minute. */
  async function roomOf(trx: Trx, channel: KnownChannel, now: number) {
    const sent = await countMessagesSince(trx, channel.id, now - minuteMs)
    return { left: channel.max_per_minute - sent }
  }

  /** One message of an alert and of all that waited with it. */
  async function tellNow(trx: Trx, channel: KnownChannel, row: AlertRow, kind: 'alert' | 'resolved'): Promise<void> {
    const name = groupNameOf(row)
    const before = await readWaiting(trx, channel.id, name, shownAlerts)
    const alerts = [...before.alerts, toldAlert(row)]
    const message = composeMessage({ kind, now: clock.now(), group: name, alerts, count: before.count + 1 })
    await insertMessages(trx, channel.id, [message])
    await insertDeliveries(trx, [delivery(row, channel, 'told', name, message.id)])
    await endWaiting(trx, channel.id, name, message.id)
  }

  function flushOne(channel: KnownChannel, name: string): Promise<void> {
    return db.transaction().execute(async (trx) => {
      if (!(await lockChannel(trx, channel.id))) return
      const now = clock.now()
      const groups = await readGroups(trx, channel.id, [name, held.storm])
      const group = groups.get(name)
      // Another process was faster.
      if (!group || group.due_at === null || group.due_at > now) return
      const room = await roomOf(trx, channel, now)
      const unattended = await readUnattended(trx, channel.id, name, shownAlerts)
      const { silences } = directory.current
      const surroundings = { channel, silences, groups, hasRoom: room.left > 0, now, unattended: unattended.alerts }
      const decision = flush(group, surroundings)
      const put = (after: Group | null) =>
        after ? writeGroups(trx, channel.id, [after]) : deleteGroups(trx, channel.id, [name])
      const tell = async (told: Pick<Message, 'kind' | 'alerts'> & { count: number }) => {
        const message = composeMessage({ ...told, now, group: name })
        await insertMessages(trx, channel.id, [message])
        await endWaiting(trx, channel.id, name, message.id)
      }
      switch (decision.kind) {
        case 'alert':
        case 'digest':
          await tell({ kind: decision.kind, ...(await readWaiting(trx, channel.id, name, shownAlerts)) })
          return put(decision.group)
        case 'reminder':
          await tell({ kind: 'reminder', alerts: unattended.alerts.map(toldAlert), count: unattended.count })
          return put(decision.group)
        case 'wait':
          return put(decision.group)
        case 'resolved':
          await tell({ kind: 'resolved', alerts: [], count: 0 })
          return put(null)
        case 'join storm':
          await moveWaiting(trx, channel.id, name, held.storm)
          await writeGroups(trx, channel.id, [decision.storm])
          return put(decision.group)
        case 'end':
          await endWaiting(trx, channel.id, name, null)
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
      for (const { channelId, name } of due) await flushOne(byId.get(channelId)!, name)
    },
  }
}

const delivery = (
  row: AlertRow,
  channel: KnownChannel,
  outcome: DeliveryRow['outcome'],
  group: string | null,
  messageId: string | null,
): DeliveryRow => ({
  alert_seq: row.seq,
  channel_id: channel.id,
  outcome,
  group_name: group,
  message_id: messageId,
})
