import {
  type EventFacets,
  type EventHistogram,
  type FacetQuery,
  type FleetStatus,
  type HistogramQuery,
  knownTools,
  limits,
  type Severity,
  severities,
  type ToolHistogram,
  type ToolQuery,
} from '@wardline/contract'
import { dayMs, hourMs, isoTime, isoTimeOrNull, minuteMs, startOf } from '../../clock.ts'
import type { Db } from '../../db/database.ts'
import type { Team } from '../../db/teams.ts'
import { AppError } from '../../errors.ts'
import { timeBounds } from '../../http/page.ts'
import {
  countBuckets,
  countFacets,
  countToolBuckets,
  facetFields,
  sumBuckets,
  sumToolBuckets,
  type TimeRange,
} from './aggregate-queries.ts'
import { countedTools } from './classify.ts'
import { minutesKeptDays } from './retention.ts'

const defaultBuckets = 60
/** Bucket widths that are easy to read. */
const widths = [
  ...[1, 2, 5, 10, 15, 30].map((minutes) => minutes * minuteMs),
  ...[1, 2, 3, 6, 12].map((hours) => hours * hourMs),
  ...[1, 2, 7, 14, 30].map((days) => days * dayMs),
]

/** Returns whole buckets that cover the range, at most `maxBuckets` and one, since the first may start earlier. */
export function bucketsOf({ from, to }: TimeRange, maxBuckets: number, minWidthMs: number) {
  const fits = (width: number) => width >= minWidthMs && Math.ceil((to - from) / width) <= maxBuckets
  const widthMs = widths.find(fits) ?? Math.ceil((to - from) / maxBuckets / dayMs) * dayMs
  const start = startOf(from, widthMs)
  const count = Math.ceil((to - start) / widthMs)
  return { from: start, to: start + count * widthMs, widthMs, count }
}

function boundsOf(query: { from?: string; to?: string }, now: number): TimeRange {
  const { from, to = now } = timeBounds(query)
  const bounds = { from: from ?? to - dayMs, to }
  if (bounds.from < bounds.to) return bounds
  throw new AppError('invalid', 'from must be before to.')
}

/** Whether the rollups are sufficient: they count by severity only. */
const isCounted = ({ severity: _severity, from: _from, to: _to, buckets: _buckets, ...others }: HistogramQuery) =>
  Object.keys(others).length === 0

/** Counts events by severity over time. Throws AppError `invalid`. */
export async function readHistogram(db: Db, query: HistogramQuery, now: number, team: Team): Promise<EventHistogram> {
  const asked = boundsOf(query, now)
  // The rollups have no agent.
  const isByCounts = !team && isCounted(query)
  // Rollups of minutes are deleted earlier than those of hours.
  const minWidthMs = isByCounts && asked.from < now - minutesKeptDays * dayMs ? hourMs : minuteMs
  const { widthMs, count, ...bounds } = bucketsOf(asked, Number(query.buckets ?? defaultBuckets), minWidthMs)
  const { rows, scannedTo } = isByCounts
    ? {
        rows: await sumBuckets(
          db,
          widthMs % hourMs === 0 ? 'hour' : 'minute',
          query.severity ? [query.severity] : severities,
          bounds,
          widthMs,
        ),
        scannedTo: undefined,
      }
    : await countBuckets(db, query, bounds, widthMs, team)
  const buckets = Array.from({ length: count }, () => ({ critical: 0, warning: 0, info: 0, breach: 0 }))
  for (const { bucket, severity, count } of rows) buckets[bucket]![severity] += count
  return {
    from: isoTime(bounds.from),
    bucket_seconds: widthMs / 1_000,
    buckets,
    basis: isByCounts ? 'counts' : 'events',
    complete: scannedTo === undefined,
    scanned_to: isoTimeOrNull(scannedTo ?? null),
  }
}

/** Counts tool calls by tool over time. Throws AppError `invalid`. */
export async function readToolHistogram(db: Db, query: ToolQuery, now: number, team: Team): Promise<ToolHistogram> {
  const { widthMs, count, ...bounds } = bucketsOf(
    boundsOf(query, now),
    Number(query.buckets ?? defaultBuckets),
    minuteMs,
  )
  const { rows, scannedTo } = team
    ? await countToolBuckets(db, bounds, widthMs, team)
    : { rows: await sumToolBuckets(db, bounds, widthMs), scannedTo: undefined }
  const calls = new Map(countedTools.map((tool) => [tool, new Array<number>(count).fill(0)]))
  for (const row of rows) calls.get(row.tool)![row.bucket] = row.count
  const used = new Set(rows.map(({ tool }) => tool))
  return {
    from: isoTime(bounds.from),
    bucket_seconds: widthMs / 1_000,
    tools: countedTools.flatMap((tool) => (used.has(tool) ? [{ tool, calls: calls.get(tool)! }] : [])),
    ...(scannedTo === undefined ? {} : { scanned_to: isoTime(scannedTo) }),
  }
}

/** Counts events of the team's agents by severity over a day, and their calls of the known tools over an hour. */
export async function readTeamCounts(
  db: Db,
  team: readonly string[],
  now: number,
): Promise<Pick<FleetStatus, 'stats' | 'toolCalls'>> {
  const [{ buckets }, { tools }] = await Promise.all([
    readHistogram(db, {}, now, team),
    readToolHistogram(db, { from: isoTime(now - hourMs) }, now, team),
  ])
  const sum = (counts: readonly number[]) => counts.reduce((total, count) => total + count, 0)
  const severityOf = (severity: Severity) => [severity, sum(buckets.map((bucket) => bucket[severity]))]
  const callsOf = (name: string) => [name, sum(tools.find(({ tool }) => tool === name)?.calls ?? [])]
  return {
    stats: Object.fromEntries(severities.map(severityOf)),
    toolCalls: Object.fromEntries(knownTools.map(callsOf)),
  }
}

/** Counts events by severity, type, source and instance. Throws AppError `invalid`. */
export async function readFacets(db: Db, query: FacetQuery, team: Team): Promise<EventFacets> {
  const bounds = { from: 0, to: Number.MAX_SAFE_INTEGER, ...timeBounds(query) }
  const { rows, total, scannedTo } = await countFacets(db, query, bounds, limits.facetValues, team)
  const facets = Object.fromEntries(
    facetFields.map((name) => [
      name,
      rows.filter(({ field }) => field === name).map(({ value, count }) => ({ value, count })),
    ]),
  ) as Pick<EventFacets, (typeof facetFields)[number]>
  return { total, ...facets, complete: scannedTo === undefined, scanned_to: isoTimeOrNull(scannedTo ?? null) }
}
