import { channelKinds, severities } from '@wardline/contract'
import type { Db, Trx } from '../../../db/database.ts'
import type { Deps } from '../../../deps.ts'
import { countPending, dropMessages, insertMessages } from '../delivery/queries.ts'
import { groupNameOf, isAtOrAbove, type Lane, laneOf, lanes } from '../outbox/alert.ts'
import { type PlannedAlert, readAlertHead, readOwnAlerts, readReportedAlerts } from '../outbox/queries.ts'
import { optionsOf } from '../routing/channel-options.ts'
import type { Waiting } from '../routing/channels.ts'
import { advancePlace, type ChannelRow, lockChannel } from '../routing/queries.ts'
import { type KnownChannel, type RoutingTable, takes } from '../routing/routing-table.ts'
import { addContext } from './alert-context.ts'
import { composeMessage } from './compose.ts'
import { delayedNames } from './grouping.ts'
import { flushGroup, type PeopleStep, planAlerts } from './people-planning.ts'
import { deleteAllGroups, insertOutcomes, readDueGroups, readPlanned, releaseGroups } from './queries.ts'

/** Alerts planned per transaction: a few milliseconds, so that a kill does not wait long. */
const batchAlerts = 200
/** Maximum pending messages per lane of a machine. Further alerts for a failing receiver stay in the outbox, at no cost. */
const maxPending = 1_000
/** Groups flushed per turn; the next turn continues. */
const batchGroups = 100

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
) {
  const stepOf = (trx: Trx, channel: KnownChannel): PeopleStep => {
    return { trx, channel, silences: table.current.silences, now: clock.now() }
  }

  async function planMachine(step: Step): Promise<void> {
    const { id } = step.channel
    const withContext = new Map((await addContext(db, step.rows)).map((alert) => [alert.seq, alert]))
    await db.transaction().execute(async (trx) => {
      const now = clock.now()
      const planned = (await take(trx, step)).rows.map((row) => {
        const alerts = [withContext.get(row.seq)!]
        return { row, message: composeMessage({ kind: 'alert', now, group: groupNameOf(row), alerts, count: 1 }) }
      })
      for (const lane of lanes) {
        const own = planned.filter(({ row }) => laneOf(row) === lane)
        const messages = own.map(({ message }) => message)
        await insertMessages(trx, id, lane, messages)
      }
      // Machines have no groups.
      const shared = { channel_id: id, outcome: 'sent', group_name: null } as const
      await insertOutcomes(
        trx,
        planned.map(({ row, message }) => ({ ...shared, alert_seq: row.seq, message_id: message.id })),
      )
    })
  }

  const planPeople = (step: Step): Promise<void> =>
    db.transaction().execute(async (trx) => {
      const { channel, rows } = await take(trx, step)
      if (rows.length > 0) await planAlerts(stepOf(trx, channel), step.lane, rows)
    })

  const flushOne = (known: KnownChannel, name: string): Promise<void> =>
    db.transaction().execute(async (trx) => {
      const row = await lockChannel(trx, known.id)
      if (row) await flushGroup(stepOf(trx, asLocked(known, row)), name)
    })

  return {
    /** Plans the next alerts of a channel in a lane, after a position. Resolves with whether there may be more. */
    async plan(lane: Lane, channel: KnownChannel, from: number): Promise<boolean> {
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

    /** Writes the messages of due groups of a lane. */
    async flushDue(lane: Lane, channels: readonly KnownChannel[]): Promise<void> {
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

/** Advances the channel's position; returns the channel as locked and the alerts to plan, none if another process was faster. */
async function take(trx: Trx, { lane, channel: known, from, to, rows }: Step) {
  const row = await advancePlace(trx, known.id, lane, from, to)
  if (!row || rows.length === 0) return { channel: known, rows: [] }
  const channel = asLocked(known, row)
  if (lane === 'reported') return { channel, rows }
  const planned = await readPlanned(trx, channel.id, rows)
  return { channel, rows: rows.filter(({ seq }) => !planned.has(seq)) }
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
