import { isoTime } from '../../clock.ts'
import type { Db } from '../../db/database.ts'
import { readOldest } from './queries.ts'

/** Derives the number of events from the oldest and newest seq, because counting the rows of a large log takes seconds. */
export async function keptEvents(db: Db): Promise<{ count: number; oldestAt: string | null }> {
  const { oldest, newestSeq } = await readOldest(db)
  if (!oldest) return { count: 0, oldestAt: null }
  return { count: Math.max(1, newestSeq - oldest.seq + 1), oldestAt: isoTime(oldest.created_at) }
}
