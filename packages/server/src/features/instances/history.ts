import { heartbeatIntervalSeconds, type InstanceHistory } from '@wardline/contract'
import { dayMs, hourMs, isoTime, minuteMs, startOf } from '../../clock.ts'
import type { Db } from '../../db/database.ts'
import { readAppliedAt } from '../../db/migrate.ts'
import { WriteBehind } from '../../db/write-behind.ts'
import type { Deps } from '../../deps.ts'
import { unknownInstance } from '../../errors.ts'
import { randomSecret } from '../../ids.ts'
import { deleteHoursBefore, type HourCells, hoursStatement, readAlive, readHours } from './history-queries.ts'
import { findInstance } from './queries.ts'

/** Width of a bucket. Counts of several processes and restarts within a bucket are added. */
export const bucketMs = 5 * minuteMs
const bucketsOfHour = hourMs / bucketMs
/** In the order in which the counts of an hour are stored. */
const series = ['heartbeats', 'events', 'tool_calls'] as const
const heartbeats = 0
const events = bucketsOfHour
const toolCalls = 2 * bucketsOfHour
/** Events reported by the instance itself. Events that the service reports about it are no sign of activity. */
const reports = 3 * bucketsOfHour

/** Time span of a history, and the width of its buckets. */
interface Reach {
  spanMs: number
  widthMs: number
}
const lastDayOfOne: Reach = { spanMs: dayMs, widthMs: bucketMs }
export const lastDay: Reach = { spanMs: dayMs, widthMs: 30 * minuteMs }
export const lastHour: Reach = { spanMs: hourMs, widthMs: bucketMs }

export const writeHistoryEveryMs = minuteMs
/** A day is shown; its first hour may have begun earlier. */
const keptMs = dayMs + hourMs
/** Later counts may still be in the memory of a process, and the last heartbeat may only be due now. */
const settledAfterMs = writeHistoryEveryMs + heartbeatIntervalSeconds * 1_000

interface Hour {
  instanceId: string
  /** Name among the hours that are not written. */
  key: string
  start: number
  counts: number[]
  /** Epoch milliseconds of the last request by the instance; 0: none yet. */
  lastRequestAt: number
  /** The hour before, which still gets counts of commits that began in it, or of a clock that was set back. */
  before: Hour | undefined
}

/** Counts the activity of each instance in this process until it is written to the database. */
export class ActivityCounts {
  readonly #deps: Pick<Deps, 'database' | 'clock'>
  readonly #maxInstances: number
  /** Distinct per process and start, so that each replaces only its own rows. */
  readonly #writer = randomSecret(6)
  readonly #hours = new Map<string, Hour>()
  readonly #unwritten: WriteBehind<Hour>

  constructor(deps: Pick<Deps, 'database' | 'clock' | 'config'>) {
    this.#deps = deps
    this.#maxInstances = deps.config.maxInstances
    this.#unwritten = new WriteBehind({
      merge: (_, hour) => hour,
      write: (hours) => this.#store(hours.map(([, hour]) => hour)),
      // The current hour, and one that ended while the database was unavailable.
      max: 2 * this.#maxInstances,
    })
  }

  noteHeartbeat(instanceId: string, at: number): void {
    this.#count(instanceId, at, heartbeats)
  }

  noteEvents(
    stored: readonly { instance_id: string | null; tool: string | null; by_service: 0 | 1 }[],
    at: number,
  ): void {
    for (const { instance_id, tool, by_service } of stored) {
      if (instance_id === null) continue
      this.#count(instance_id, at, events)
      if (tool !== null) this.#count(instance_id, at, toolCalls)
      if (by_service === 1) continue
      this.#count(instance_id, at, reports)
      this.noteRequest(instance_id, at)
    }
  }

  /** Records a request of the agent that is not counted otherwise. */
  noteRequest(instanceId: string, at: number): void {
    if (!this.#hourOf(instanceId, at)) return
    this.#hours.get(instanceId)!.lastRequestAt = at
  }

  /** Time of the last request other than a heartbeat in this hour or the previous one, seen by this process; 0: none. */
  lastRequestAt(instanceId: string): number {
    return this.#hours.get(instanceId)?.lastRequestAt ?? 0
  }

  #count(instanceId: string, at: number, from: number): Hour | undefined {
    const hour = this.#hourOf(instanceId, at)
    if (!hour) return undefined
    hour.counts[from + Math.floor((at - hour.start) / bucketMs)]! += 1
    this.#unwritten.note(hour.key, hour)
    return hour
  }

  #hourOf(instanceId: string, at: number): Hour | undefined {
    const start = startOf(at, hourMs)
    const known = this.#hours.get(instanceId)
    for (const hour of [known, known?.before]) if (hour?.start === start) return hour
    // Unregistered ids are dropped by the next write; until then they must not fill the memory.
    if (known === undefined && this.#hours.size >= this.#maxInstances) return undefined
    const counts = new Array<number>((series.length + 1) * bucketsOfHour).fill(0)
    const lastRequestAt = known?.lastRequestAt ?? 0
    const hour = { instanceId, key: `${instanceId} ${start}`, start, counts, lastRequestAt, before: known }
    if (known) known.before = undefined
    this.#hours.set(instanceId, hour)
    return hour
  }

  /** Periodic job, also run on shutdown: writes the counts since the last call. */
  async write(): Promise<void> {
    await this.#unwritten.write()
    const now = this.#deps.clock.now()
    const hour = startOf(now, hourMs)
    for (const [id, known] of this.#hours) {
      if (known.start < hour - hourMs) this.#hours.delete(id)
      else if (known.start < now - bucketMs) known.before = undefined
    }
  }

  async #store(hours: readonly Hour[]): Promise<void> {
    const { database } = this.#deps
    const rows = hours.map(({ instanceId, start, counts }): HourCells => [instanceId, start, JSON.stringify(counts)])
    const [written] = await database.batch([hoursStatement(database, this.#writer, rows)])
    const registered = new Set(written!.map(({ instance_id }) => instance_id))
    for (const { instanceId } of hours) if (!registered.has(instanceId)) this.#hours.delete(instanceId)
  }
}

/** An instance whose history is requested. */
interface Recorded {
  id: string
  first_seen_at: number
}

/** Reads the recent histories of these instances, by id. */
export async function readHistories(
  db: Db,
  instances: readonly Recorded[],
  { spanMs, widthMs }: Reach,
  now: number,
): Promise<Map<string, InstanceHistory>> {
  if (instances.length === 0) return new Map()
  const from = now - (now % widthMs) - spanMs + widthMs
  const since = from - (from % hourMs)
  const [rows, recordedSince] = await Promise.all([
    readHours(
      db,
      instances.map(({ id }) => id),
      since,
    ),
    readAppliedAt(db, 'instance-hours'),
  ])
  const histories = new Map(
    instances.map(({ id, first_seen_at }) => [
      id,
      emptyHistory(from, { spanMs, widthMs }, Math.max(first_seen_at, recordedSince), now),
    ]),
  )
  for (const { instance_id, hour, counts } of rows) addHour(histories.get(instance_id)!, from, hour, JSON.parse(counts))
  return histories
}

function emptyHistory(from: number, { spanMs, widthMs }: Reach, since: number, now: number): InstanceHistory {
  const count = spanMs / widthMs
  const zeros = () => new Array<number>(count).fill(0)
  const expected = zeros().map((_, index) => {
    const start = Math.max(from + index * widthMs, since)
    const end = Math.min(from + (index + 1) * widthMs, now - settledAfterMs)
    return Math.max(0, Math.floor((end - start) / (heartbeatIntervalSeconds * 1_000)))
  })
  return {
    from: isoTime(from),
    bucket_seconds: widthMs / 1_000,
    heartbeats: zeros(),
    expected,
    events: zeros(),
    tool_calls: zeros(),
  }
}

/** Adds an hour to a history. Counts of different processes are added up. */
function addHour(history: InstanceHistory, from: number, hour: number, counts: readonly number[]): void {
  const widthMs = history.bucket_seconds * 1_000
  for (const [index, name] of series.entries()) {
    for (let bucket = 0; bucket < bucketsOfHour; bucket++) {
      const at = Math.floor((hour + bucket * bucketMs - from) / widthMs)
      if (at >= 0 && at < history[name].length) history[name][at]! += counts[index * bucketsOfHour + bucket]!
    }
  }
}

/** Activity of an instance in one bucket. `reports` are events that the instance sent itself. */
export interface ActiveBucket {
  start: number
  heartbeats: number
  reports: number
}

/** An instance with recent heartbeats, and its counts by bucket, oldest first. */
interface Activity {
  id: string
  isSuspended: boolean
  /** Time of the last kill or resume. */
  controlChangedAt: number
  buckets: ActiveBucket[]
}

/** Reads the counts since `since` (at most a day ago) of instances with a heartbeat since then, after an id, by id. */
export async function readHourlyActivity(db: Db, after: string, since: number, limit: number): Promise<Activity[]> {
  const rows = await readAlive(db, after, since, limit)
  if (rows.length === 0) return []
  const sums = new Map(rows.map(({ id }) => [id, new Map<number, ActiveBucket>()]))
  const hours = await readHours(
    db,
    rows.map(({ id }) => id),
    since - (since % hourMs),
  )
  for (const { instance_id, hour, counts: text } of hours) {
    const counts: number[] = JSON.parse(text)
    const ofInstance = sums.get(instance_id)!
    for (let bucket = 0; bucket < bucketsOfHour; bucket++) {
      const start = Number(hour) + bucket * bucketMs
      const sum = ofInstance.get(start) ?? { start, heartbeats: 0, reports: 0 }
      sum.heartbeats += counts[heartbeats + bucket]!
      // Rows of older versions have no separate reports; their events include those by the service.
      sum.reports += counts[reports + bucket] ?? counts[events + bucket]!
      ofInstance.set(start, sum)
    }
  }
  return rows.map((row) => ({
    id: row.id,
    isSuspended: row.suspended === 1,
    controlChangedAt: row.control_changed_at ?? 0,
    buckets: [...sums.get(row.id)!.values()].toSorted((a, b) => a.start - b.start),
  }))
}

/** Returns the last 24 hours of one instance. Throws AppError `not_found`. */
export async function viewHistory(db: Db, id: string, now: number): Promise<{ id: string } & InstanceHistory> {
  const row = await findInstance(db, id)
  if (!row) throw unknownInstance(id)
  const histories = await readHistories(db, [row], lastDayOfOne, now)
  return { id, ...histories.get(id)! }
}

/** Periodic job: deletes hours that are no longer shown. */
export function forgetHistory(
  { database, clock }: Pick<Deps, 'database' | 'clock'>,
  stopping?: AbortSignal,
): Promise<void> {
  return deleteHoursBefore(database.db, clock.now() - keptMs, stopping)
}
