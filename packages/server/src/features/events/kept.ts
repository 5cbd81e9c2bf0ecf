import { isoTime } from '../../clock.ts'
import type { Db } from '../../db/database.ts'
import { readOldest } from './queries.ts'

/** From the oldest event to the newest: counting the rows between would take seconds of a large log. */
export async function keptEvents(db: Db): Promise<{ count: number; oldestAt: string | null }> {
  const { oldest, newestSeq } = await readOldest(db)
  if (!oldest) return { count: 0, oldestAt: null }
  return { count: Math.max(1, newestSeq - oldest.seq + 1), oldestAt: isoTime(oldest.created_at) }
}
