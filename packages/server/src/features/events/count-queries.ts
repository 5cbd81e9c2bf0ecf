import { ceilingOf, hourMs, minuteMs } from '../../clock.ts'
import type { Db } from '../../db/database.ts'
import type { EventClass, StoredEvent } from '../../db/schema/events.ts'
import { countedTools } from './classify.ts'
import { countPartialMinute } from './minute-queries.ts'

type Severity = StoredEvent['severity']

export interface CountedBucket {
  severity: Severity
  class: EventClass
  count: number
}

function bucketSums(db: Db, unit: 'minute' | 'hour', from: number, to: number): Promise<CountedBucket[]> {
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

/** Counts the events since `from` exactly: rows of the first minute, then minutes of the first hour, then hours. */
export async function countSince(db: Db, from: number): Promise<CountedBucket[]> {
  const minute = ceilingOf(from, minuteMs)
  const hour = ceilingOf(minute, hourMs)
  const parts = await Promise.all([
    countPartialMinute(db, from),
    minute < hour ? bucketSums(db, 'minute', minute, hour) : [],
    bucketSums(db, 'hour', hour, Number.MAX_SAFE_INTEGER),
  ])
  return parts.flat()
}

/** Counts calls by tool since `from` exactly. */
export async function countToolsSince(db: Db, from: number): Promise<Map<string, number>> {
  const [minutes, first] = await Promise.all([
    db
      .selectFrom('tool_counts')
      .select((e) => ['tool', e.fn.sum<number>('count').as('count')])
      // Naming the tools makes each a short range of the key; with the time alone all rollups would be read.
      .where('tool', 'in', countedTools)
      .where('minute', '>=', ceilingOf(from, minuteMs))
      .groupBy('tool')
      .execute(),
    countPartialMinute(db, from),
  ])
  const counts = new Map<string, number>()
  for (const { tool, count } of [...minutes, ...first]) {
    if (tool !== null) counts.set(tool, (counts.get(tool) ?? 0) + count)
  }
  return counts
}

/** Reads the minute counts of one severity, for figures that weigh events by age. */
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
