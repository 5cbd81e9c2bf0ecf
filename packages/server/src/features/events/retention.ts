import type { Deps } from '../../deps.ts'
import { hourMs, minuteMs, startOf } from './buckets.ts'
import { deleteEventsBefore, deleteIdempotencyBefore, deleteMinutesBefore, deleteRollupsBefore } from './queries.ts'

const dayMs = 24 * hourMs
/** A delete of this size holds the writer for a few milliseconds: a kill that comes meanwhile does not feel it. */
const batchRows = 500
/** Keeps one run short; the next one goes on where this one stopped. */
const maxBatches = 400
/** The trust summary looks back 30 days by minute. */
const minutesKeptDays = 40
const hoursKeptDays = 400

/** Removes what is older than its time: events, idempotency keys, rollups. */
export async function forgetOldEvents({ config, database: { db }, clock }: Deps): Promise<void> {
  const now = clock.now()
  const cutoff = now - config.retentionDays * dayMs
  let gone: number | undefined = 1
  for (let batch = 0; batch < maxBatches && gone; batch++) gone = await deleteEventsBefore(db, cutoff, batchRows)
  await deleteIdempotencyBefore(db, now - dayMs)
  await deleteRollupsBefore(db, startOf(now - minutesKeptDays * dayMs, minuteMs), now - hoursKeptDays * dayMs)
  // The minutes find the events: they go last.
  if (gone === undefined) await deleteMinutesBefore(db, startOf(cutoff, minuteMs))
}
