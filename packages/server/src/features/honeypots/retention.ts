import type { Deps } from '../../deps.ts'
import { uuidV7Floor } from '../../ids.ts'
import { eventsGoneBefore } from '../events/retention.ts'
import { deleteHitsBefore } from './queries.ts'

/** Rows deleted per statement: a few milliseconds, so that a kill does not wait. */
const chunkRows = 500
/** Rows deleted per run; the next run continues. */
const runRows = 200_000

/** Deletes hits once retention by age deleted their events. Hits outlive their decoy, and events deleted for space. */
export async function forgetOldHits(deps: Deps, stopping?: AbortSignal): Promise<void> {
  const floor = uuidV7Floor(await eventsGoneBefore(deps))
  for (let done = 0; done < runRows && !stopping?.aborted; done += chunkRows) {
    if ((await deleteHitsBefore(deps.database.db, floor, chunkRows)) < chunkRows) break
  }
}
