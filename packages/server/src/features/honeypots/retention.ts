import type { Deps } from '../../deps.ts'
import { uuidV7Floor } from '../../ids.ts'
import { eventsGoneBefore } from '../events/retention.ts'
import { deleteHitsBefore } from './queries.ts'

/** Deletes hits once retention by age deleted their events. Hits outlive their decoy, and events deleted for space. */
export async function forgetOldHits(deps: Deps, stopping?: AbortSignal): Promise<void> {
  await deleteHitsBefore(deps.database.db, uuidV7Floor(await eventsGoneBefore(deps)), stopping)
}
