import { alertTypes, eventTypes, offlineAfterMs } from '@wardline/contract'
import { dayMs, minuteMs } from '../../clock.ts'
import type { Db, Trx } from '../../db/database.ts'
import { pagesOf } from '../../db/portions.ts'
import { claimRun, endRun, readRun, recordRun } from '../../db/runs.ts'
import type { Deps } from '../../deps.ts'
import type { Outbox } from '../alerts/outbox/outbox.ts'
import type { ControlStream } from '../control/control-stream.ts'
import type { Ingest } from '../events/ingest.ts'
import type { ActivityCounts } from '../instances/history.ts'
import {
  countBack,
  countSilent,
  findLate,
  type Moved,
  markOffline,
  markRecovered,
  noteSeen,
  suspectSilent,
} from '../instances/liveness-statements.ts'

const scoutName = 'scout'
export const scoutEveryMs = 30_000

/** Instances per transaction in a fleet-wide outage, so that a kill does not wait long. */
const sweepRows = 200
/** Instances listed per sweep: an attacker who invents instances must not bury the others. */
const maxNamed = 500
/** So many, and half of all that were online: then something else than single agents is the matter. */
const outageInstances = 5
/** When the last outage was reported, and since when its whole fleet has been seen, as runs of these names. */
const outageName = 'fleet_outage'
const outageFleetName = 'fleet_outage_fleet'
/** Within this time, several processes report an outage once. */
const sameOutageMs = 60_000
/** After this time without a heartbeat an agent is not expected back from an outage. */
const expectedBackMs = dayMs

type Liveness = 'offline' | 'recovered'

/** A second sweep must find it silent too, and every process has swept by then: the agent may be connected to another one. */
const confirmedAfterMs = 29_000
/** An open connection alone proves little, because the machine behind it may have lost power. */
const maxOnlyConnectedMs = 5 * minuteMs

interface ScoutParts {
  ingest: Ingest
  outbox: Outbox
  activityCounts: Pick<ActivityCounts, 'lastRequestAt'>
  controlStream: Pick<ControlStream, 'has'>
}

/**
 * Checks the fleet every 30 seconds for agents that fell silent or recovered. Guarded updates decide which process reports,
 * so that any number of processes may sweep.
 */
export function createScout(
  { database, clock, timekeeping }: Deps,
  { ingest, outbox, activityCounts: activity, controlStream }: ScoutParts,
) {
  const { db } = database
  let sweptAt = clock.monotonic()
  let watchingSince = sweptAt

  /** After a start, a pause of the machine or a clock jump, silence proves nothing until it was watched whole. */
  function mayJudgeSilence(): boolean {
    const now = clock.monotonic()
    if (now - sweptAt > 3 * scoutEveryMs) watchingSince = now
    sweptAt = now
    return Math.min(now - watchingSince, timekeeping.steadyMs()) >= offlineAfterMs
  }

  /** One alert for a fleet-wide outage; written before those of single agents, which it explains. */
  async function reportOutage(now: number): Promise<void> {
    const { silent, online, oldest } = await countSilent(db, now - offlineAfterMs)
    if (silent < outageInstances || silent * 2 < online) return
    await db.transaction().execute(async (trx) => {
      if (!(await claimRun(trx, outageName, now - sameOutageMs, now))) return
      await recordRun(trx, outageFleetName, oldest)
      const alert = { severity: 'critical', event_type: alertTypes.fleetOutage, instance_id: null } as const
      await outbox.write(
        trx,
        [{ ...alert, description: `${silent} of ${online} instances went offline together.` }],
        now,
      )
    })
    outbox.notify()
  }

  function describeLiveness({ id, last_heartbeat_at, typical_gap_ms }: Moved, now: number, kind: Liveness) {
    if (kind === 'recovered') {
      const event = { severity: 'info', event_type: eventTypes.instanceRecovered, instance_id: id } as const
      return ingest.own({ ...event, description: 'Heartbeats resumed' })
    }
    const silent = Math.floor((now - last_heartbeat_at) / 1_000)
    const usual = Math.round(typical_gap_ms / 1_000)
    return ingest.own({
      severity: 'warning',
      event_type: eventTypes.instanceOffline,
      description: `No heartbeat for ${silent} seconds, and no other request; usually one comes every ${usual} seconds`,
      instance_id: id,
      metadata: { silent_seconds: silent, usual_seconds: usual },
    })
  }

  /** Shares with all processes the signs of life of late agents that this process received besides heartbeats. */
  async function noteSigns(now: number): Promise<void> {
    const pages = pagesOf(sweepRows, (last?: { id: string }) =>
      findLate(db, now - offlineAfterMs, last?.id ?? '', sweepRows),
    )
    for await (const page of pages) {
      const seen: [string, number][] = []
      for (const { id, last_heartbeat_at, seen_at } of page) {
        const isConnected = controlStream.has(id) && now - last_heartbeat_at <= maxOnlyConnectedMs
        const at = isConnected ? now : activity.lastRequestAt(id)
        if (at > Math.max(last_heartbeat_at, seen_at ?? 0)) seen.push([id, at])
      }
      if (seen.length > 0) await noteSeen(database, seen)
    }
  }

  /** Instances that one transaction found offline or recovered, and the number of checked ones. */
  async function move(trx: Trx, kind: Liveness, now: number): Promise<{ count: number; reported: Moved[] }> {
    if (kind === 'recovered') return markRecovered(trx, now - offlineAfterMs, sweepRows)
    const reported = await markOffline(trx, now, now - confirmedAfterMs, sweepRows)
    return { count: reported.length, reported }
  }

  /** Number of instances beyond those listed. */
  async function reportOthers(count: number, kind: Liveness): Promise<void> {
    if (count === 0) return
    const event = ingest.own({
      severity: kind === 'offline' ? 'warning' : 'info',
      event_type: kind === 'offline' ? eventTypes.instancesOffline : eventTypes.instancesRecovered,
      description: `${count} more instances ${kind === 'offline' ? 'sent no heartbeat' : 'send heartbeats again'}`,
      metadata: { instances: count },
    })
    await ingest.store([event])
  }

  async function reportLiveness(now: number, kind: Liveness): Promise<void> {
    if (kind === 'offline') await reportOutage(now)
    let named = 0
    let others = 0
    for (let count = sweepRows; count === sweepRows; ) {
      const publish = await db.transaction().execute(async (trx) => {
        const moved = await move(trx, kind, now)
        count = moved.count
        const events = moved.reported.slice(0, maxNamed - named).map((one) => describeLiveness(one, now, kind))
        named += events.length
        others += moved.reported.length - events.length
        return events.length > 0 ? await ingest.storeWithin(trx, events) : () => {}
      })
      publish()
    }
    await reportOthers(others, kind)
  }

  /**
   * An outage is over once three quarters of the agents from before it have reported: half of those that are needed for
   * an outage are back, so that one of exactly half a fleet does not end as soon as it is reported.
   */
  async function reportOutageEnd(now: number): Promise<void> {
    const since = await readRun(db, outageName)
    if (since === null) return
    const seenSince = (await readRun(db, outageFleetName)) ?? since
    const expectedSince = now - since > expectedBackMs ? now - expectedBackMs : seenSince
    const { fleet, fresh } = await countBack(db, expectedSince, now - offlineAfterMs)
    if (fresh === 0 || fresh * 4 < fleet * 3) return
    await db.transaction().execute(async (trx) => {
      if (!(await endRun(trx, outageName))) return
      await endRun(trx, outageFleetName)
      const alert = { severity: 'info', event_type: alertTypes.fleetRecovered, instance_id: null } as const
      const missing = fleet - fresh
      const description = `${fresh} of ${fleet} instances are online again${missing > 0 ? `; ${missing} are still offline` : ''}.`
      await outbox.write(trx, [{ ...alert, description }], now)
    })
    outbox.notify()
  }

  return {
    async sweep(): Promise<void> {
      const now = clock.now()
      await reportLiveness(now, 'recovered')
      await noteSigns(now)
      if (mayJudgeSilence()) {
        await reportLiveness(now, 'offline')
        for (let count = sweepRows; count >= sweepRows; ) {
          count = await db.transaction().execute((trx) => suspectSilent(trx, now, now - offlineAfterMs, sweepRows))
        }
      }
      await reportOutageEnd(now)
      await recordRun(db, scoutName, now)
    },
  }
}

/** Returns the time of the last sweep by any process; null: never. */
export const lastSweep = (db: Db): Promise<number | null> => readRun(db, scoutName)
