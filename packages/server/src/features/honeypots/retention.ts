import type { Deps } from '../../deps.ts'
import { uuidV7Floor } from '../../ids.ts'
import { eventsGoneBefore } from '../events/retention.ts'
import { deleteHitsBefore } from './queries.ts'

/** Rows removed at once: a few milliseconds, so that no kill waits for it. */
const chunkRows = 500
/** Rows removed in one run; what is left goes in the next. */
const runRows = 200_000

/** Forgets hits when their events are gone for their age: they outlive the decoy, and events that made room. */
export async function forgetOldHits(deps: Deps, stopping?: AbortSignal): Promise<void> {
  const floor = uuidV7Floor(await eventsGoneBefore(deps))
  for (let done = 0; done < runRows && !stopping?.aborted; done += chunkRows) {
    if ((await deleteHitsBefore(deps.database.db, floor, chunkRows)) < chunkRows) break
  }
}
