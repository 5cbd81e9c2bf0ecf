import { dayMs, hourMs } from '../../clock.ts'
import { inPortions } from '../../db/portions.ts'
import type { Deps } from '../../deps.ts'
import { eventsGoneBefore } from '../events/retention.ts'
import { deleteFiringHoursBefore, deleteFiringsBefore } from './response-queries.ts'

/** Retention of hours: charts of firings show 31 days. */
const hoursKeptMs = 400 * dayMs

/** Deletes firings once retention deleted the events of their time. */
export async function forgetFirings(deps: Deps, stopping?: AbortSignal): Promise<void> {
  const { database, clock } = deps
  const cutoff = await eventsGoneBefore(deps)
  await inPortions((limit) => deleteFiringsBefore(database.db, cutoff, limit), stopping)
  await deleteFiringHoursBefore(database.db, clock.now() - hoursKeptMs - hourMs)
}
