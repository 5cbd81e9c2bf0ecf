import type { Database } from '../../db/database.ts'
import { countUnindexed, indexNext } from './index-queries.ts'

/** Events indexed per transaction: some ten milliseconds, which a kill may have to wait. */
const batchRows = 1_000
/** Indexing pauses while events wait to be stored, but only up to this backlog, because lists scan unindexed events. */
const patientUpTo = 500_000

/** Indexes the events since the last call by instance, session and type. */
export async function indexEvents(
  database: Database,
  isBusy: () => boolean = () => false,
  stopping?: AbortSignal,
): Promise<void> {
  for (let left = await countUnindexed(database.db); left > 0 && !stopping?.aborted; left -= batchRows) {
    if (isBusy() && left <= patientUpTo) return
    await indexNext(database, batchRows)
  }
}
