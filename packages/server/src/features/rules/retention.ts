import { dayMs, hourMs } from '../../clock.ts'
import type { Deps } from '../../deps.ts'
import { eventsGoneBefore } from '../events/retention.ts'
import { deleteFiringHoursBefore, deleteFiringsBefore } from './response-queries.ts'

/** Rows deleted per statement: a few milliseconds. */
const chunkRows = 500
/** Retention of hours: charts of firings show 31 days. */
const hoursKeptMs = 400 * dayMs

/** Deletes firings once retention deleted the events of their time. */
export async function forgetFirings(deps: Deps, stopping?: AbortSignal): Promise<void> {
  const { database, clock } = deps
  const cutoff = await eventsGoneBefore(deps)
  while (!stopping?.aborted && (await deleteFiringsBefore(database.db, cutoff, chunkRows)) === chunkRows);
  await deleteFiringHoursBefore(database.db, clock.now() - hoursKeptMs - hourMs)
}
