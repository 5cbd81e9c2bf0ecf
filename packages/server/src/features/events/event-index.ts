import type { Database } from '../../db/database.ts'
import { countUnindexed, indexNext } from './index-queries.ts'

/** Entering this many events holds the writer for some ten milliseconds: a kill that comes meanwhile does not feel it. */
const batchRows = 1_000
/** While events wait to be stored the index waits too, but not beyond this: a list scans what is not in it. */
const patientUpTo = 500_000

/** Enters what came since the last call into the index by instance, session and type. */
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
