import { alertTypes, severities } from '@wardline/contract'
import { minuteMs } from '../../../clock.ts'
import type { Trx } from '../../../db/database.ts'
import { uuidV7 } from '../../../ids.ts'
import { countMessagesSince, findIncident, insertMessages } from '../delivery/queries.ts'
import { groupNameOf, type Lane, laneOf, lanes } from '../outbox/alert.ts'
import type { PlannedAlert } from '../outbox/queries.ts'
import type { KnownChannel, Silence } from '../routing/routing-table.ts'
import { addContextForPeople } from './alert-context.ts'
import { composeMessage, shownAlerts } from './compose.ts'
import { type AlertGroup, decideAlert, delayedNames, type Flush, flush, laneOfGroup, roomsOf } from './grouping.ts'
import {
  type AlertOutcome,
  countGroups,
  deleteGroups,
  insertOutcomes,
  moveJoined,
  readGroups,
  readJoined,
  readUnattended,
  writeGroups,
} from './queries.ts'

/** Maximum remembered problems of a channel without a notification yet: an attacker can invent any number of types. */
const maxRemembered = 1_000
/** Alerts read to choose those listed in a digest. */
const digestRead = 1_000
/** Groups that affect alerts of other groups. */
const alwaysRead = [alertTypes.fleetOutage, ...lanes.flatMap((lane) => Object.values(delayedNames[lane]))]

/** A transaction that locks a channel for people and thereby its groups. */
export interface PeopleStep {
  trx: Trx
  channel: KnownChannel
  silences: readonly Silence[]
  now: number
}

const readRooms = async ({ trx, channel: { id, max_per_minute }, now }: PeopleStep) =>
  roomsOf(max_per_minute, await countMessagesSince(trx, id, now - minuteMs))

async function write(
  { trx, channel, now }: PeopleStep,
  lane: Lane,
  message: Pick<Parameters<typeof composeMessage>[0], 'id' | 'kind' | 'group' | 'count'>,
  rows: readonly PlannedAlert[],
): Promise<string> {
  const composed = composeMessage({ ...message, now, alerts: await addContextForPeople(trx, rows) })
  const incident = await findIncident(trx, channel.id, lane, composed)
  await insertMessages(trx, channel.id, lane, [{ ...composed, incident }])
  return composed.id
}

/** Alerts of a group that wait for its message. */
const readWaiting = async (trx: Trx, { message_id }: Pick<AlertGroup, 'message_id'>, limit: number) =>
  message_id === null ? [] : readJoined(trx, message_id, limit)

/** Plans alerts of a lane: sends them, lets them wait in a group, or neither. */
export async function planAlerts(step: PeopleStep, lane: Lane, rows: readonly PlannedAlert[]): Promise<void> {
  const { trx, channel, silences, now } = step
  const names = new Set([...rows.map(groupNameOf), ...alwaysRead])
  const groups = await readGroups(trx, channel.id, [...names])
  const known = [...groups.keys()]
  const touched = new Set<string>()
  const put = (group: AlertGroup) => {
    groups.set(group.name, group)
    touched.add(group.name)
  }
  const rooms = await readRooms(step)
  const remembered = await countGroups(trx, channel.id, lane)
  const outcomes: AlertOutcome[] = []
  const conclude = (row: PlannedAlert, outcome: AlertOutcome['outcome'], message_id: string | null) =>
    outcomes.push({ alert_seq: row.seq, channel_id: channel.id, outcome, group_name: groupNameOf(row), message_id })
  const store = () => insertOutcomes(trx, outcomes.splice(0))

  for (const row of rows) {
    const room = rooms[laneOf(row)]
    // Includes new groups of this batch.
    const mayRemember = remembered + groups.size - known.length < maxRemembered
    const before = groups.get(groupNameOf(row))
    const decision = decideAlert(row, { channel, silences, groups, mayRemember, ...room, now })
    if (decision.ended !== undefined) groups.delete(decision.ended)
    switch (decision.outcome) {
      case 'sent': {
        // The waiting alerts of the group are read from the database, so store them first.
        await store()
        room.room -= 1
        room.urgentRoom -= 1
        const { message_id: id = null, waiting = 0 } = before ?? {}
        const listed = [...(await readWaiting(trx, { message_id: id }, shownAlerts)), row].slice(-shownAlerts)
        const message = { id, kind: decision.kind, group: groupNameOf(row), count: waiting + 1 }
        conclude(row, 'sent', await write(step, laneOf(row), message, listed))
        if (decision.kind === 'alert') put(decision.group)
        break
      }
      case 'waiting': {
        const messageId = decision.group.message_id ?? uuidV7(now)
        put({ ...decision.group, message_id: messageId })
        if (decision.remembered) put(decision.remembered)
        conclude(row, 'joined', messageId)
        break
      }
      default:
        conclude(row, decision.outcome, null)
    }
  }
  await store()
  const changed = [...touched].flatMap((name) => groups.get(name) ?? [])
  await writeGroups(trx, channel.id, changed)
  const ended = known.filter((name) => !groups.has(name))
  await deleteGroups(trx, channel.id, ended)
}

/** Sends the message of a due group, moves its alerts to a digest, or lets it wait on; none of these if it is not due any more. */
export async function flushGroup(step: PeopleStep, name: string): Promise<void> {
  const { trx, channel, silences, now } = step
  const lane = laneOfGroup(name)
  const groups = await readGroups(trx, channel.id, [name, delayedNames[lane].storm])
  const group = groups.get(name)
  // Another process was faster.
  if (!group || group.due_at === null || group.due_at > now) return
  const { room } = (await readRooms(step))[lane]
  const isReminder = group.waiting === 0 && group.state === 'open'
  const unattended = isReminder ? await readUnattended(trx, channel.id, name, shownAlerts) : { count: 0, alerts: [] }
  const decision = flush(group, { channel, silences, groups, room, now, unattended: unattended.alerts })
  const send = (kind: Exclude<Flush['kind'], 'wait' | 'end' | 'join storm'>, rows: PlannedAlert[], count: number) =>
    write(step, lane, { id: group.message_id, kind, group: name, count }, rows)
  switch (decision.kind) {
    case 'alert':
    case 'resolved':
      await send(decision.kind, await readWaiting(trx, group, shownAlerts), group.waiting)
      break
    case 'digest':
      await send('digest', leadingAlerts(await readWaiting(trx, group, digestRead)), group.waiting)
      break
    case 'reminder':
      await send('reminder', unattended.alerts, unattended.count)
      break
    case 'join storm': {
      const messageId = decision.storm.message_id ?? uuidV7(now)
      await moveJoined(trx, group.message_id!, messageId)
      await writeGroups(trx, channel.id, [{ ...decision.storm, message_id: messageId }])
    }
  }
  const after = 'group' in decision ? decision.group : null
  await (after ? writeGroups(trx, channel.id, [after]) : deleteGroups(trx, channel.id, [name]))
}

/** Chooses the alerts to list in a digest: own ones first, then by severity, then the newest. */
function leadingAlerts(rows: readonly PlannedAlert[]): PlannedAlert[] {
  const weight = ({ by_service, severity }: PlannedAlert) => by_service * 10 + severities.indexOf(severity)
  const chosen = rows.toSorted((one, other) => weight(one) - weight(other) || one.seq - other.seq).slice(-shownAlerts)
  return chosen.sort((one, other) => one.seq - other.seq)
}
