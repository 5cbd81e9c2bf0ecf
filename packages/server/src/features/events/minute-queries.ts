import { secondWitness, telemetrySource } from '@wardline/contract'
import { sql } from 'kysely'
import { ceilingOf, minuteMs } from '../../clock.ts'
import type { Db } from '../../db/database.ts'
import type { StoredEvent } from '../../db/schema/events.ts'
import { seqRange } from './queries.ts'

/** Number of events of one kind. */
type MinuteCount = Pick<StoredEvent, 'severity' | 'class' | 'tool'> & { count: number }
type MinuteRow = Pick<StoredEvent, 'created_at' | 'severity' | 'class' | 'tool'>
type SeqRange = { first: number; last: number }

/** Cached minutes. The windows of all figures start in a few different minutes. */
const keptMinutes = 16
/** A minute with more rows is counted by the database instead. */
const maxKeptRows = 20_000

/** Rows of past minutes, which each computation of the figures needs again for a whole minute. */
const kept = new WeakMap<Db, Map<string, Promise<MinuteRow[]>>>()

/** Telemetry of a call that a client reported before is not counted again. */
const isCounted = sql<boolean>`not (source = ${telemetrySource} and coalesce(metadata, '') like ${`%"${secondWitness}":true%`})`

const rowsBetween = (db: Db, { first, last }: SeqRange, from: number, to: number) =>
  db
    .selectFrom('events')
    .where('seq', '>=', first)
    .where('seq', '<=', last)
    .where('created_at', '>=', from)
    .where('created_at', '<', to)
    .where(isCounted)

function keptRows(db: Db, range: SeqRange, minute: number): Promise<MinuteRow[]> {
  const minutes = kept.get(db) ?? new Map<string, Promise<MinuteRow[]>>()
  kept.set(db, minutes)
  // Includes the last seq, which changes if a clock steps back and the minute gets more events.
  const name = `${minute} ${range.last}`
  const known = minutes.get(name)
  if (known) return known
  if (minutes.size >= keptMinutes) minutes.delete(minutes.keys().next().value!)
  const read = rowsBetween(db, range, minute, minute + minuteMs)
    .select(['created_at', 'severity', 'class', 'tool'])
    .execute()
  minutes.set(name, read)
  read.catch(() => minutes.delete(name))
  return read
}

/** Counts the events from `from` to the end of its minute, which the rollup cannot split. */
export async function countPartialMinute(db: Db, from: number): Promise<MinuteCount[]> {
  if (from % minuteMs === 0) return []
  const end = ceilingOf(from, minuteMs)
  const range = await seqRange(db, from, end)
  if (!range) return []
  if (range.last - range.first < maxKeptRows) {
    const rows = await keptRows(db, range, end - minuteMs)
    return rows.filter((row) => row.created_at >= from).map((row) => ({ ...row, count: 1 }))
  }
  return rowsBetween(db, range, from, end)
    .select((e) => ['severity', 'class', 'tool', e.fn.countAll<number>().as('count')])
    .groupBy(['severity', 'class', 'tool'])
    .execute()
}
