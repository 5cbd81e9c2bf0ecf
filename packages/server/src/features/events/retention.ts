import { dayMs, hourMs, minuteMs, startOf } from '../../clock.ts'
import { readCounter } from '../../db/counters.ts'
import type { Day, Db } from '../../db/database.ts'
import { inPortions } from '../../db/portions.ts'
import type { Deps } from '../../deps.ts'
import { deleteRefs } from './index-queries.ts'
import { deleteProblemsBefore } from './problem-queries.ts'
import {
  deleteEventsBefore,
  deleteIdempotencyBefore,
  deleteMinutesBefore,
  deleteRollupsBefore,
  readOldestTime,
} from './queries.ts'

/** Seqs per step for a whole day, of which only the index entries are deleted row by row. */
const dayBatchRows = 5_000
/** The trust summary reads the minutes of 30 days. */
export const minutesKeptDays = 40
const hoursKeptDays = 400

/** Deletes a day whose events are all older than `cutoff`, with its index entries; false if it was stopped. */
export async function dropDay(db: Db, day: Day, cutoff: number, stopping?: AbortSignal): Promise<boolean> {
  for (let seq = day.firstSeq; seq <= day.lastSeq; seq += dayBatchRows) {
    if (stopping?.aborted) return false
    await deleteRefs(db, seq, Math.min(seq + dayBatchRows, day.lastSeq + 1), cutoff)
  }
  await day.drop()
  return true
}

/** Returns a time before the retention period, before which no event is left. */
export async function eventsGoneBefore({ config, database, clock }: Deps): Promise<number> {
  const cutoff = clock.now() - config.retentionDays * dayMs
  return Math.min(cutoff, (await readOldestTime(database.db)) ?? cutoff)
}

/** Deletes events, idempotency keys and rollups that are older than their retention. */
export async function forgetOldEvents({ config, database, clock }: Deps, stopping?: AbortSignal): Promise<void> {
  const { db } = database
  const now = clock.now()
  await database.prepareDays(now)
  const { days, rowsBefore: cutoff } = await database.expired(now - config.retentionDays * dayMs)
  const indexed = await readCounter(db, 'indexed_seq')
  for (const day of days) {
    // Index entries created after the deletion would outlive their events.
    if (day.lastSeq > indexed) continue
    await dropDay(db, day, cutoff, stopping)
  }
  let gone: number | undefined = 1
  await inPortions(async (limit) => {
    gone = await deleteEventsBefore(db, cutoff, limit)
    // Missing seqs make a portion smaller than the limit.
    return gone ? limit : 0
  }, stopping)
  await deleteIdempotencyBefore(db, now - dayMs)
  await deleteProblemsBefore(db, startOf(now - dayMs, hourMs), stopping)
  await deleteRollupsBefore(db, startOf(now - minutesKeptDays * dayMs, minuteMs), now - hoursKeptDays * dayMs)
  // Delete minutes last, because they are used to find the events.
  if (gone === undefined) await deleteMinutesBefore(db, startOf(cutoff, minuteMs))
}
