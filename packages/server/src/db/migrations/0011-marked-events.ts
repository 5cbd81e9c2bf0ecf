import type { Database } from '../database.ts'

const ownTypes = [
  'honeypot_triggered',
  'anomaly_detected',
  'instance_offline',
  'instance_recovered',
  'activity_while_suspended',
]

/** Takes a fraction of a second, even if every row is on a different page read from disk. */
const pageRows = 500

/**
 * Marks events reported by the service itself before version 5. At that time callers could report under the service's
 * name too, but never without an address. Rows with that name are therefore the service's if they have no address or
 * belong to a decoy hit.
 *
 * Works page by page, each in a separate transaction, while processes of the older version keep writing. After a crash
 * it starts again and finds the first pages already marked.
 */
export async function markServiceEvents(database: Database): Promise<void> {
  const { db } = database
  const mark = async (seqs: number[]) => {
    if (seqs.length === 0) return
    const update = db
      .updateTable('events')
      .set({ by_service: 1 })
      // Pass the numbers instead of a subquery, for which PostgreSQL may read every event.
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

  // Start with the rows not yet in the index of types, because they may be indexed in the meantime.
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
