import type { Deps } from '../../deps.ts'
import { eventsGoneBefore } from '../events/retention.ts'
import { deleteSuspensionsBefore } from './suspension-queries.ts'

/** Rows deleted per statement: a few milliseconds, so that a kill does not wait. */
const chunkRows = 500
/** Rows deleted per run; the next run continues. */
const runRows = 200_000

/** Deletes ended suspensions once the events of their time were deleted by retention. */
export async function forgetSuspensions(deps: Deps, stopping?: AbortSignal): Promise<void> {
  const cutoff = await eventsGoneBefore(deps)
  for (let done = 0; done < runRows && !stopping?.aborted; done += chunkRows) {
    if ((await deleteSuspensionsBefore(deps.database.db, cutoff, chunkRows)) < chunkRows) break
  }
}
