import type { Db } from '../../db/database.ts'
import type { EventClass, StoredEvent } from '../../db/schema.ts'
import { ceilingOf, hourMs, minuteMs } from './buckets.ts'
import { seqRange } from './queries.ts'

type Severity = StoredEvent['severity']

export interface CountedBucket {
  severity: Severity
  class: EventClass
  count: number
}

type Counted = Record<'severity' | 'class', string> & { count: number | string | bigint }

function bucketSums(db: Db, unit: 'minute' | 'hour', from: number, to: number): Promise<Counted[]> {
  return db
    .selectFrom('event_counts')
    .select((e) => ['severity', 'class', e.fn.sum<number>('count').as('count')])
    .where('unit', '=', unit)
    .where('severity', 'in', ['info', 'warning', 'critical', 'breach'])
    .where('class', 'in', ['none', 'injection', 'blocked'])
    .where('bucket', '>=', from)
    .where('bucket', '<', to)
    .groupBy(['severity', 'class'])
    .execute()
}

/** The rows created from `from` until the end of its minute, which the rollup cannot split; undefined when none can be. */
async function rowsOfPartialMinute(db: Db, from: number) {
  if (from % minuteMs === 0) return undefined
  const end = ceilingOf(from, minuteMs)
  const range = await seqRange(db, from, end)
  if (!range) return undefined
  return db
    .selectFrom('events')
    .where('seq', '>=', range.first)
    .where('seq', '<=', range.last)
    .where('created_at', '>=', from)
    .where('created_at', '<', end)
}

async function partialMinute(db: Db, from: number): Promise<Counted[]> {
  const rows = await rowsOfPartialMinute(db, from)
  const counts = rows?.select((e) => ['severity', 'class', e.fn.countAll<number>().as('count')])
  return (await counts?.groupBy(['severity', 'class']).execute()) ?? []
}

/** Exact counts of the events created since `from`: rows of its first minute, minutes of its first hour, then hours. */
export async function countSince(db: Db, from: number): Promise<CountedBucket[]> {
  const minute = ceilingOf(from, minuteMs)
  const hour = ceilingOf(minute, hourMs)
  const parts = await Promise.all([
    partialMinute(db, from),
    minute < hour ? bucketSums(db, 'minute', minute, hour) : [],
    bucketSums(db, 'hour', hour, Number.MAX_SAFE_INTEGER),
  ])
  return parts.flat().map((row) => ({ ...row, count: Number(row.count) }) as CountedBucket)
}

/** Calls by counted tool since `from`, exact. */
export async function countToolsSince(db: Db, from: number): Promise<Map<string, number>> {
  const minutes = await db
    .selectFrom('tool_counts')
    .select((e) => ['tool', e.fn.sum<number>('count').as('count')])
    .where('minute', '>=', ceilingOf(from, minuteMs))
    .groupBy('tool')
    .execute()
  const first = await (await rowsOfPartialMinute(db, from))
    ?.select((e) => ['tool', e.fn.countAll<number>().as('count')])
    .where('tool', 'is not', null)
    .groupBy('tool')
    .execute()
  const counts = new Map<string, number>()
  for (const { tool, count } of [...minutes, ...(first ?? [])]) {
    counts.set(String(tool), (counts.get(String(tool)) ?? 0) + Number(count))
  }
  return counts
}

/** Minute buckets of one severity with their counts, for figures that weigh events by age. */
export function readBuckets(db: Db, severity: Severity, from: number) {
  return db
    .selectFrom('event_counts')
    .select((e) => ['bucket', e.fn.sum<number>('count').as('count')])
    .where('unit', '=', 'minute')
    .where('severity', '=', severity)
    .where('bucket', '>=', from)
    .groupBy('bucket')
    .execute()
}
