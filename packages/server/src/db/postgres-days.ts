import { sql } from 'kysely'
import { dayMs } from '../clock.ts'
import { DatabaseError } from '../errors.ts'
import type { Day, Db, ExpiredRows } from './database.ts'

/** Enough partitions for a service that was down for days, or a clock that is ahead. */
const daysAhead = 7
/** A partition change waits for dumps and long reads, and writers queue behind it: fail early and retry later. */
const lockTimeoutMs = 250

export const startOfDay = (time: number): number => time - (time % dayMs)
export const partitionName = (day: number): string =>
  `events_${new Date(day).toISOString().slice(0, 10).replaceAll('-', '')}`
const dayOf = (partition: string): number => {
  const [, year = '', month = '', date = ''] = /^events_(\d{4})(\d\d)(\d\d)$/.exec(partition) ?? []
  return Date.UTC(Number(year), Number(month) - 1, Number(date))
}

export async function readPartitions(db: Db): Promise<string[]> {
  const { rows } = await sql<{ name: string }>`select relname as name from pg_inherits
    join pg_class on pg_class.oid = inhrelid where inhparent = 'events'::regclass order by relname`.execute(db)
  return rows.map(({ name }) => name)
}

async function changePartitions(db: Db, statement: string): Promise<void> {
  await db.transaction().execute(async (trx) => {
    await sql.raw(`set local lock_timeout = ${lockTimeoutMs}`).execute(trx)
    await sql.raw(statement).execute(trx)
  })
}

/** Succeeds as well if another process creates the partition concurrently. */
async function createPartition(db: Db, name: string, bounds: string): Promise<void> {
  try {
    await changePartitions(db, `create table if not exists ${name} partition of events ${bounds}`)
  } catch (fault) {
    if ((await readPartitions(db)).includes(name)) return
    throw fault
  }
}

/**
 * Whether a failure to create the day's partition can be ignored. After a wrong clock, the default partition may
 * already contain events of the day: the day then gets no partition and its events are deleted one by one. Days further
 * ahead than tomorrow are retried in the next run.
 */
function mayBeMissing(day: number, today: number, fault: unknown): boolean {
  return day > today + dayMs || (fault instanceof DatabaseError && fault.constraint)
}

/**
 * Creates the partitions of yesterday, today and the next days. Events outside of them, caused by a wrong clock, go
 * into the default partition.
 */
export async function prepareDays(db: Db, now: number): Promise<void> {
  const known = new Set(await readPartitions(db))
  if (!known.has('events_otherwise')) await createPartition(db, 'events_otherwise', 'default')
  const today = startOfDay(now)
  for (let day = today - dayMs; day <= today + daysAhead * dayMs; day += dayMs) {
    const name = partitionName(day)
    if (known.has(name)) continue
    try {
      await createPartition(db, name, `for values from (${day}) to (${day + dayMs})`)
    } catch (fault) {
      if (!mayBeMissing(day, today, fault)) throw fault
    }
  }
}

async function describeDay(db: Db, partition: string): Promise<Day> {
  const { rows } = await sql<{ first: number | null; last: number | null; bytes: number }>`
    select min(seq) as first, max(seq) as last, pg_total_relation_size(${partition}::regclass) as bytes
    from ${sql.ref(partition)}`.execute(db)
  const { first, last, bytes } = rows[0]!
  return {
    bytes,
    firstSeq: first ?? 1,
    lastSeq: last ?? 0,
    drop: () => changePartitions(db, `drop table if exists ${partition}`),
  }
}

/** Returns the days that ended before the cutoff. The cutoff's own day is kept until it ends. */
export async function expiredDays(db: Db, cutoff: number): Promise<ExpiredRows> {
  const partitions = await readPartitions(db)
  const expired = partitions.filter((name) => /\d{8}$/.test(name) && dayOf(name) + dayMs <= cutoff)
  const days: Day[] = []
  for (const partition of expired) days.push(await describeDay(db, partition))
  return { days, rowsBefore: startOfDay(cutoff) }
}
