import type { Deps } from '../../deps.ts'
import { eventsGoneBefore } from '../events/retention.ts'
import { deleteSuspensionsBefore } from './suspension-queries.ts'

/** Rows removed at once: a few milliseconds, so that no kill waits for it. */
const chunkRows = 500
/** Rows removed in one run; what is left goes in the next. */
const runRows = 200_000

/** Forgets suspensions that ended, when the events of their time are gone for their age. */
export async function forgetSuspensions(deps: Deps, stopping?: AbortSignal): Promise<void> {
  const cutoff = await eventsGoneBefore(deps)
  for (let done = 0; done < runRows && !stopping?.aborted; done += chunkRows) {
    if ((await deleteSuspensionsBefore(deps.database.db, cutoff, chunkRows)) < chunkRows) break
  }
}
