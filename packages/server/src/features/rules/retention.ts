import { dayMs, hourMs } from '../../clock.ts'
import type { Deps } from '../../deps.ts'
import { eventsGoneBefore } from '../events/retention.ts'
import { deleteEndedBefore, deleteFiringsBefore, deleteHoursBefore } from './response-queries.ts'

/** Rows removed at once: a few milliseconds. */
const chunkRows = 500
/** A chart of firings looks back 31 days; hours are few. */
const hoursKeptMs = 400 * dayMs

/** Forgets firings when the events of their time are gone, and suspensions that ended long ago. */
export async function forgetFirings(deps: Deps, stopping?: AbortSignal): Promise<void> {
  const { database, clock } = deps
  const cutoff = await eventsGoneBefore(deps)
  while (!stopping?.aborted && (await deleteFiringsBefore(database.db, cutoff, chunkRows)) === chunkRows);
  await deleteHoursBefore(database.db, clock.now() - hoursKeptMs - hourMs)
  await deleteEndedBefore(database.db, cutoff)
}
