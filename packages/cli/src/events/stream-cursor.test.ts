import { expect, test } from 'vitest'
import { sampleEvents } from '../testing/events.ts'
import { beginning, StreamCursor } from './stream-cursor.ts'

const at = (seconds: number) => new Date(Date.UTC(2026, 0, 1) + seconds * 1_000).toISOString()
const row = (seq: number | null, id = `id-${seq}`, created_at = at(seq ?? 0)) => ({
  ...sampleEvents.plain,
  seq,
  id,
  created_at,
})
const place = (seq: number) => ({ seq, id: `id-${seq}`, created_at: at(seq) })

const taken = (cursor: StreamCursor, ...rows: ReturnType<typeof row>[]) =>
  rows
    .map((one) => cursor.take(one))
    .map(({ isNew, skipped, isRestarted }) => (isRestarted ? 'restarted' : isNew ? skipped : 'seen'))

test('returns each event once, in order', () => {
  const cursor = new StreamCursor(place(3))
  expect(taken(cursor, row(4), row(5), row(5), row(4), row(6))).toEqual([0, 0, 'seen', 'seen', 0])
  expect(cursor.seq).toBe(6)
})

test('starts at any event if the position is unknown, and at the first event from the beginning', () => {
  expect(taken(new StreamCursor(undefined), row(90), row(91))).toEqual([0, 0])
  expect(new StreamCursor(undefined).seq).toBeUndefined()
  expect(taken(new StreamCursor(beginning), row(1), row(2))).toEqual([0, 0])
  expect(new StreamCursor(beginning).seq).toBe(0)
})

test('counts missing events', () => {
  expect(taken(new StreamCursor(place(10)), row(15), row(16), row(20))).toEqual([4, 0, 3])
})

test('counts events that the service skips', () => {
  const cursor = new StreamCursor(place(10))
  expect(cursor.skipTo(25_000)).toBe(24_990)
  expect(cursor.skipTo(5)).toBe(0)
  expect(taken(cursor, row(25_001))).toEqual([0])
})

test('accepts events without a seq and keeps its position', () => {
  const cursor = new StreamCursor(place(1))
  expect(taken(cursor, row(null), row(2), row(null), row(3))).toEqual([0, 0, 0, 0])
  expect(cursor.seq).toBe(3)
})

// After a restore from a backup the seq is lower. Treating new events as repeated would hide them.
test('detects that another database has restarted the numbering, and accepts its events', () => {
  const cursor = new StreamCursor(place(5_000))
  expect(taken(cursor, row(101, 'other-101', at(9_000)), row(102, 'other-102', at(9_001)))).toEqual(['restarted', 0])
  expect(cursor.seq).toBe(102)
})

test('detects events that a lagging process repeats, even those before its first position', () => {
  const cursor = new StreamCursor(place(7))
  expect(taken(cursor, row(8), row(6), row(7), row(8), row(9))).toEqual([0, 'seen', 'seen', 'seen', 0])
})

test('still works after more events than it remembers', () => {
  const cursor = new StreamCursor(beginning)
  for (let seq = 1; seq <= 5_000; seq++) expect(cursor.take(row(seq)).isNew).toBe(true)
  expect(taken(cursor, row(4_999), row(5_001))).toEqual(['seen', 0])
})
