import type { Database } from '../../db/database.ts'
import { indexNext } from './index-queries.ts'

/** Entering this many events holds the writer for some ten milliseconds: a kill that comes meanwhile does not feel it. */
const batchRows = 1_000

/** Enters what came since the last call into the index by instance, session and type. */
export async function indexEvents(database: Database): Promise<void> {
  while (await indexNext(database, batchRows));
}
