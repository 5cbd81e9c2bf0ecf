import type { Db } from '../../db/database.ts'
import type { StoredEvent } from '../../db/schema/events.ts'

/** Events after a seq in order, at most `limit`. */
export function readEventsAfter(db: Db, seq: number, limit: number): Promise<StoredEvent[]> {
  return db.selectFrom('events').selectAll().where('seq', '>', seq).orderBy('seq').limit(limit).execute()
}

/** Address and metadata of events, by their seq. Times bound the search where events are kept by day. */
export async function readEventDetails(
  db: Db,
  events: readonly { event_seq: number | null; created_at: number }[],
): Promise<Map<number, Pick<StoredEvent, 'ip_address' | 'metadata'>>> {
  const stored = events.filter(({ event_seq }) => event_seq !== null)
  if (stored.length === 0) return new Map()
  const times = stored.map(({ created_at }) => created_at)
  const seqs = stored.map(({ event_seq }) => event_seq!)
  const rows = await db
    .selectFrom('events')
    .select(['seq', 'ip_address', 'metadata'])
    .where('seq', 'in', seqs)
    .where('created_at', '>=', Math.min(...times))
    .where('created_at', '<=', Math.max(...times))
    .execute()
  return new Map(rows.map(({ seq, ip_address, metadata }) => [seq, { ip_address, metadata }]))
}
