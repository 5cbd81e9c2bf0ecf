import { dayMs, minuteMs, startOf } from '../../clock.ts'
import { readCounter } from '../../db/counters.ts'
import type { Day, Db } from '../../db/database.ts'
import type { Deps } from '../../deps.ts'
import { deleteRefs } from './index-queries.ts'
import {
  deleteEventsBefore,
  deleteIdempotencyBefore,
  deleteMinutesBefore,
  deleteRollupsBefore,
  readOldestTime,
} from './queries.ts'

/** A delete of this size holds the writer for a few milliseconds: a kill that comes meanwhile does not feel it. */
const batchRows = 500
/** A day that goes as a whole takes only its index entries row by row. */
const dayBatchRows = 5_000
/** Keeps one run short; the next one goes on where this one stopped. */
const maxBatches = 400
/** The trust summary looks back 30 days by minute. */
export const minutesKeptDays = 40
const hoursKeptDays = 400

/** Removes all events of a day, which were created before `cutoff`, with what finds them; resolves with whether it did. */
export async function dropDay(db: Db, day: Day, cutoff: number, stopping?: AbortSignal): Promise<boolean> {
  for (let seq = day.firstSeq; seq <= day.lastSeq; seq += dayBatchRows) {
    if (stopping?.aborted) return false
    await deleteRefs(db, seq, Math.min(seq + dayBatchRows, day.lastSeq + 1), cutoff)
  }
  await day.drop()
  return true
}

/** An instant that is older than retention keeps anything, and before which no event is left. */
export async function eventsGoneBefore({ config, database, clock }: Deps): Promise<number> {
  const cutoff = clock.now() - config.retentionDays * dayMs
  return Math.min(cutoff, (await readOldestTime(database.db)) ?? cutoff)
}

/** Removes what is older than its time: events, idempotency keys, rollups. */
export async function forgetOldEvents({ config, database, clock }: Deps, stopping?: AbortSignal): Promise<void> {
  const { db } = database
  const now = clock.now()
  await database.prepareDays(now)
  const { days, rowsBefore: cutoff } = await database.expired(now - config.retentionDays * dayMs)
  const indexed = await readCounter(db, 'indexed_seq')
  for (const day of days) {
    // Entries that are still to be made would outlive their events.
    if (day.lastSeq > indexed) continue
    await dropDay(db, day, cutoff, stopping)
  }
  let gone: number | undefined = 1
  for (let batch = 0; batch < maxBatches && gone && !stopping?.aborted; batch++)
    gone = await deleteEventsBefore(db, cutoff, batchRows)
  await deleteIdempotencyBefore(db, now - dayMs)
  await deleteRollupsBefore(db, startOf(now - minutesKeptDays * dayMs, minuteMs), now - hoursKeptDays * dayMs)
  // The minutes find the events: they go last.
  if (gone === undefined) await deleteMinutesBefore(db, startOf(cutoff, minuteMs))
}
