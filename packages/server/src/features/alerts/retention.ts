import type { Deps } from '../../deps.ts'
import { uuidV7Floor } from '../../ids.ts'
import { deleteAlertsBefore, deleteMessagesBefore } from './alert-queries.ts'

const dayMs = 86_400_000
/** Rows removed at once: a few milliseconds, so that no kill waits for it. */
const chunkRows = 500
/** Rows removed in one run; what is left goes in the next. */
const runRows = 200_000

/** Forgets alerts and the log of their delivery as long after as events are forgotten. */
export async function forgetOldAlerts({ database: { db }, clock, config }: Deps): Promise<void> {
  const cutoff = clock.now() - config.retentionDays * dayMs
  for (let done = 0; done < runRows; done += chunkRows) {
    if ((await deleteAlertsBefore(db, cutoff, chunkRows)) < chunkRows) break
  }
  for (let done = 0; done < runRows; done += chunkRows) {
    if ((await deleteMessagesBefore(db, uuidV7Floor(cutoff), chunkRows)) < chunkRows) break
  }
}
