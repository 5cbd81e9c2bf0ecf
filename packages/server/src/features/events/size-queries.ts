import { sql } from 'kysely'
import type { Db } from '../../db/database.ts'
import type { StoredEvent } from '../../db/schema/events.ts'
import { deleteRefsOf } from './index-queries.ts'

type Severity = StoredEvent['severity']

/** A row beside its texts, with its entries in the index. */
const rowBytes = 350

function ofSeverity(db: Db, severity: Severity) {
  const events = db.selectFrom('events').where('severity', '=', sql.lit(severity))
  // SQLite finds the partial index on severity by nothing but its own condition.
  return severity === 'info' ? events : events.where('severity', '<>', sql.lit('info'))
}

/** The seq of the oldest event there is. */
export async function readOldestSeq(db: Db): Promise<number | null> {
  const { seq } = await db
    .selectFrom('events')
    .select((e) => e.fn.min('seq').as('seq'))
    .executeTakeFirstOrThrow()
  return seq
}

/** The seq of the first event of a severity in [first, end). */
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

/** Whether any event in [first, end) is worth more than `severity`. */
export async function hasMore(db: Db, severities: readonly Severity[], first: number, end: number): Promise<boolean> {
  for (const severity of severities) if ((await findSeverity(db, severity, first, end)) !== undefined) return true
  return false
}

interface Measured {
  rows: number
  bytes: number
  /** Times of the oldest and of the newest. */
  from: number
  to: number
}

/** How many events of a severity have a seq in [first, end), and about how much they take. */
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

/** Removes the events of a severity with a seq in [first, end); says how many, and about how much they took. */
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
