import { eventTypes, severities } from '@wardline/contract'
import { hourMs, minuteMs, startOf } from '../../clock.ts'
import { readCounter } from '../../db/counters.ts'
import type { Day } from '../../db/database.ts'
import { countLargest } from '../../db/largest-tables.ts'
import { claimRun } from '../../db/runs.ts'
import type { StoredEvent } from '../../db/schema/events.ts'
import type { Deps } from '../../deps.ts'
import type { Ingest } from './ingest.ts'
import { seqRange } from './queries.ts'
import { dropDay } from './retention.ts'
import { deleteSeverity, findSeverity, hasMore, measureSeverity, readOldestSeq } from './size-queries.ts'

type Severity = StoredEvent['severity']

/** Rows per delete, as in retention by age: a few milliseconds, which a kill may have to wait. */
const batchRows = 500
/** Rows read to find the next one of a severity, so that other readers do not wait long. */
const lookRows = 20_000
/** Target below the limit, so that it is not reached again within a minute. */
const targetShare = 0.95
/** Severities that are kept up to `evidenceShare` of the limit, even if other events fill the database. */
const evidence: readonly Severity[] = ['critical', 'breach']
const evidenceShare = 0.5
/** Rows measured per query, which reads their texts. */
const measureRows = 5_000
/** Maximum duration of a run, which ends before the next one is due. */
const runMs = 40_000
/** Among processes that share a database, only one runs within this time. */
const onceWithinMs = 50_000
/** Younger events are kept, because streams and lists still read them. */
const minAgeMs = minuteMs
const reportEveryMs = hourMs
const tablesNamed = 3
const mebibyte = 1024 * 1024

/**
 * Keeps the data below WARDLINE_MAX_DB_MB. Deletes the oldest info events first, then warnings, then critical events and
 * breaches beyond half of the limit.
 */
export function createSizeRetention(deps: Deps, ingest: Pick<Ingest, 'own' | 'store'>) {
  const { config, database, clock, log } = deps
  const { db } = database
  const removed: Record<Severity, number> = { info: 0, warning: 0, critical: 0, breach: 0 }
  /** Size of the data after runs that could not delete more. */
  let unmet: { since: number; bytes: number } | undefined
  let stopping: AbortSignal | undefined
  const isOver = (until: number) => stopping?.aborted || clock.monotonic() >= until

  /** Deletes events of one severity, oldest first, until `excess` bytes are freed; resolves with the bytes still to free. */
  async function removeSeverity(severity: Severity, excess: number, until: number): Promise<number> {
    const times = { from: Number.POSITIVE_INFINITY, to: 0 }
    const range = await seqRange(db, 0, startOf(clock.now() - minAgeMs, minuteMs))
    const end = Math.min((range?.last ?? 0) + 1, (await readCounter(db, 'indexed_seq')) + 1)
    let left = excess
    let seq = (await readOldestSeq(db)) ?? end
    while (left > 0 && seq < end && !isOver(until)) {
      const first = await findSeverity(db, severity, seq, Math.min(seq + lookRows, end))
      if (first === undefined) {
        seq += lookRows
        continue
      }
      seq = Math.min(first + batchRows, end)
      const { rows, bytes, from, to } = await deleteSeverity(db, severity, first, seq)
      removed[severity] += rows
      left -= bytes
      if (from > 0) times.from = Math.min(times.from, from)
      times.to = Math.max(times.to, to)
    }
    if (times.to > 0) await database.noteDeleted(times.from, times.to)
    return left
  }

  /** Drops days that contain no event more severe than `severity`: a partition only shrinks by dropping it. */
  async function dropDays(severity: Severity, excess: number): Promise<number> {
    const now = clock.now()
    const worthMore = severities.slice(severities.indexOf(severity) + 1)
    const indexed = await readCounter(db, 'indexed_seq')
    let left = excess
    const mayGo = async (day: Day) =>
      day.lastSeq <= indexed && !(await hasMore(db, worthMore, day.firstSeq, day.lastSeq + 1))
    const { days } = await database.expired(now - minAgeMs)
    for (const day of days) {
      // Drop a day of evidence only if all of it exceeds the share.
      if (left <= 0 || (evidence.includes(severity) && day.bytes > left) || !(await mayGo(day))) continue
      if (!(await dropDay(db, day, now, stopping))) break
      removed[severity] += Math.max(0, day.lastSeq - day.firstSeq + 1)
      left -= day.bytes
    }
    return left
  }

  /** Estimates the size of critical events and breaches, up to `enough`. */
  async function measureEvidence(enough: number, until: number): Promise<number> {
    const end = (await readCounter(db, 'indexed_seq')) + 1
    let bytes = 0
    let seq = (await readOldestSeq(db)) ?? end
    for (; seq < end && bytes < enough && !isOver(until); seq += measureRows) {
      for (const severity of evidence) {
        bytes += (await measureSeverity(db, severity, seq, Math.min(seq + measureRows, end))).bytes
      }
    }
    return bytes
  }

  async function remove(used: number, limit: number): Promise<void> {
    const until = clock.monotonic() + runMs
    let left = used - limit * targetShare
    let isBeyondShare = false
    for (const severity of severities) {
      if (left > 0 && !isBeyondShare && evidence.includes(severity)) {
        isBeyondShare = true
        const share = limit * evidenceShare
        left = Math.min(left, (await measureEvidence(share + left, until)) - share)
      }
      if (left > 0) left = await dropDays(severity, left)
      if (left > 0) left = await removeSeverity(severity, left, until)
    }
    if (isOver(until)) return
    const bytes = await database.usedBytes()
    unmet = bytes > limit ? { since: unmet?.since ?? clock.now(), bytes } : undefined
  }

  async function report(maxMb: number): Promise<void> {
    const now = clock.now()
    const total = severities.reduce((sum, severity) => sum + removed[severity], 0)
    if (total === 0 || !(await claimRun(db, 'size_report', now - reportEveryMs, now))) return
    const parts = severities.filter((severity) => removed[severity] > 0).map((name) => `${removed[name]} ${name}`)
    const event = ingest.own({
      severity: 'warning',
      event_type: eventTypes.eventsRemoved,
      description: `About ${total} events were removed to keep the database below ${maxMb} MiB (WARDLINE_MAX_DB_MB): ${parts.join(', ')}`,
      metadata: { removed: { ...removed }, max_db_mb: maxMb },
    })
    await ingest.store([event])
    for (const severity of severities) removed[severity] = 0
  }

  async function reportUnmet(maxMb: number): Promise<void> {
    const now = clock.now()
    // The remaining data may only be too young to delete now.
    if (!unmet || now - unmet.since < minAgeMs) return
    if (!(await claimRun(db, 'size_unmet', now - reportEveryMs, now))) return
    const largest = await countLargest(db, tablesNamed)
    const usedMb = Math.ceil(unmet.bytes / mebibyte)
    const rows = largest.map(([table, count]) => `${count} ${table}`).join(', ')
    const event = ingest.own({
      severity: 'warning',
      event_type: eventTypes.eventsRemoved,
      description: `The database holds ${usedMb} MiB, more than ${maxMb} MiB (WARDLINE_MAX_DB_MB), and no more events can be removed. Largest tables: ${rows}`,
      metadata: { used_mb: usedMb, max_db_mb: maxMb, rows: Object.fromEntries(largest) },
    })
    await ingest.store([event])
  }

  return {
    async run(signal?: AbortSignal): Promise<void> {
      stopping = signal
      const maxMb = config.maxDbMb
      if (maxMb === undefined) return
      const limit = maxMb * mebibyte
      const now = clock.now()
      const used = await database.usedBytes()
      if (used > limit && (await claimRun(db, 'size_retention', now - onceWithinMs, now))) {
        await remove(used, limit)
        log.warn({ usedMb: Math.round(used / mebibyte), maxMb, removed }, 'events removed to keep the database small')
      } else if (used <= limit) {
        unmet = undefined
      }
      await report(maxMb)
      await reportUnmet(maxMb)
    },
  }
}
