import { dayMs } from '../../clock.ts'
import type { Db } from '../../db/database.ts'
import { type CountedBucket, countSince, readBuckets } from './count-queries.ts'

/** Figures for the posture score, of the last 24 hours, today (UTC) and 30 days. */
export interface EventFigures {
  injectionBlocks24h: number
  blocked24h: number
  threats24h: number
  eventsToday: number
  incidents30d: number
  /** Breaches of the last 30 days, by age. */
  breaches: { ageMs: number; count: number }[]
  critical24h: number
  critical30d: number
  /** Injection blocks and warnings of the last 24 hours; each event is counted once, in its most severe bucket. */
  mildInjections24h: number
  plainWarnings24h: number
}

const sum = (buckets: readonly CountedBucket[], counts: (bucket: CountedBucket) => boolean) =>
  buckets.filter(counts).reduce((total, { count }) => total + count, 0)

const isIncident = ({ severity }: CountedBucket) => severity === 'critical' || severity === 'breach'

export async function readEventFigures(db: Db, now: number): Promise<EventFigures> {
  const [day, today, month, breaches] = await Promise.all([
    countSince(db, now - dayMs),
    countSince(db, now - (now % dayMs)),
    countSince(db, now - 30 * dayMs),
    readBuckets(db, 'breach', now - 30 * dayMs),
  ])
  return {
    injectionBlocks24h: sum(day, (bucket) => bucket.class === 'injection'),
    blocked24h: sum(day, (bucket) => bucket.class !== 'none'),
    threats24h: sum(day, (bucket) => bucket.severity !== 'info'),
    eventsToday: sum(today, () => true),
    incidents30d: sum(month, isIncident),
    breaches: breaches.map(({ bucket, count }) => ({ ageMs: now - bucket, count })),
    critical24h: sum(day, ({ severity }) => severity === 'critical'),
    critical30d: sum(month, ({ severity }) => severity === 'critical'),
    mildInjections24h: sum(day, (bucket) => bucket.class === 'injection' && !isIncident(bucket)),
    plainWarnings24h: sum(day, (bucket) => bucket.class !== 'injection' && bucket.severity === 'warning'),
  }
}
