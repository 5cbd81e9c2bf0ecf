import type { Database } from '../database.ts'

const ownTypes = [
  'honeypot_triggered',
  'anomaly_detected',
  'instance_offline',
  'instance_recovered',
  'activity_while_suspended',
]

/** Marked in a fraction of a second, also where each row is a page to be read from the disk. */
const pageRows = 500

/**
 * Marks what the service itself reported before version 5. A caller could report under its name as well then, but never
 * without an address: rows of that name without one are the service's, and of those with one only what a decoy hit names.
 *
 * Page by page, each in a transaction of its own, while processes of the older version go on writing. After a crash it
 * begins again and finds the first pages marked.
 */
export async function markServiceEvents(database: Database): Promise<void> {
  const { db } = database
  const mark = async (seqs: number[]) => {
    if (seqs.length === 0) return
    const update = db
      .updateTable('events')
      .set({ by_service: 1 })
      // Their numbers, not a query for them, for which PostgreSQL may read every event there is.
      .where('seq', 'in', seqs)
      .where('by_service', '=', 0)
      .where('source', '=', 'wardline')
      .where('event_type', 'in', ownTypes)
      .where((event) =>
        event.or([
          event('ip_address', 'is', null),
          event('id', 'in', event.selectFrom('honeypot_hits').select('event_id')),
        ]),
      )
    await database.change([update.compile()])
  }
  const counters = await db.selectFrom('counters').select(['name', 'value']).execute()
  const counterOf = (name: string) => Number(counters.find((counter) => counter.name === name)!.value)

  // First what the index of types does not hold yet: it may take that in meanwhile.
  for (let seq = counterOf('indexed_seq'); seq < counterOf('event_seq'); seq += pageRows) {
    const rows = Math.min(pageRows, counterOf('event_seq') - seq)
    await mark(Array.from({ length: rows }, (_, index) => seq + 1 + index))
  }
  for (const type of ownTypes) {
    for (let after = 0; ; ) {
      const rows = await db
        .selectFrom('event_refs')
        .select('seq')
        .where('kind', '=', 'type')
        .where('value', '=', type)
        .where('seq', '>', after)
        .orderBy('seq')
        .limit(pageRows)
        .execute()
      if (rows.length === 0) break
      await mark(rows.map(({ seq }) => Number(seq)))
      after = Number(rows.at(-1)!.seq)
    }
  }
}
