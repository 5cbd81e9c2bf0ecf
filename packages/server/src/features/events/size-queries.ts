import { sql } from 'kysely'
import type { Db } from '../../db/database.ts'
import type { StoredEvent } from '../../db/schema/events.ts'
import { deleteRefsOf } from './index-queries.ts'

type Severity = StoredEvent['severity']

/** Size of a row besides its texts, including its index entries. */
const rowBytes = 350

function ofSeverity(db: Db, severity: Severity) {
  const events = db.selectFrom('events').where('severity', '=', sql.lit(severity))
  // SQLite only uses the partial index on severity if its condition is repeated.
  return severity === 'info' ? events : events.where('severity', '<>', sql.lit('info'))
}

/** Returns the seq of the oldest event. */
export async function readOldestSeq(db: Db): Promise<number | null> {
  const { seq } = await db
    .selectFrom('events')
    .select((e) => e.fn.min('seq').as('seq'))
    .executeTakeFirstOrThrow()
  return seq
}

/** Returns the seq of the first event of a severity in [first, end). */
export async function findSeverity(
  db: Db,
  severity: Severity,
  first: number,
  end: number,
): Promise<number | undefined> {
  const row = await ofSeverity(db, severity)
    .select('seq')
    .where('seq', '>=', first)
    .where('seq', '<', end)
    .orderBy('seq')
    .limit(1)
    .executeTakeFirst()
  return row?.seq
}

/** Whether any event in [first, end) has one of the severities. */
export async function hasMore(db: Db, severities: readonly Severity[], first: number, end: number): Promise<boolean> {
  for (const severity of severities) if ((await findSeverity(db, severity, first, end)) !== undefined) return true
  return false
}

interface Measured {
  rows: number
  bytes: number
  /** Times of the oldest and the newest event. */
  from: number
  to: number
}

/** Counts the events of a severity with a seq in [first, end), and estimates their size. */
export async function measureSeverity(db: Db, severity: Severity, first: number, end: number): Promise<Measured> {
  const { rows, chars, from, to } = await ofSeverity(db, severity)
    .select((e) => [
      e.fn.countAll<number>().as('rows'),
      sql<number | null>`sum(length(description) + coalesce(length(metadata), 0))`.as('chars'),
      e.fn.min('created_at').as('from'),
      e.fn.max('created_at').as('to'),
    ])
    .where('seq', '>=', first)
    .where('seq', '<', end)
    .executeTakeFirstOrThrow()
  return { rows, bytes: rows * rowBytes + (chars ?? 0), from, to }
}

/** Deletes the events of a severity with a seq in [first, end); resolves with their number and estimated size. */
export async function deleteSeverity(db: Db, severity: Severity, first: number, end: number): Promise<Measured> {
  const measured = await measureSeverity(db, severity, first, end)
  await deleteRefsOf(db, first, end, severity)
  await db
    .deleteFrom('events')
    .where('severity', '=', sql.lit(severity))
    .where('seq', '>=', first)
    .where('seq', '<', end)
    .execute()
  return measured
}
