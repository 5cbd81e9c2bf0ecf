import { expect, test } from 'vitest'
import { historyTable } from './instances.ts'

test('the history of an instance has a line for each hour with expected heartbeats or activity', () => {
  const hours = (...counts: number[]) => counts.flatMap((count) => [...Array(11).fill(0), count])
  const table = historyTable({
    from: '2026-11-21T12:05:00.000Z',
    bucket_seconds: 300,
    expected: hours(0, 60, 60),
    heartbeats: hours(0, 60, 41),
    events: hours(0, 7, 1_204),
    tool_calls: hours(0, 6, 0),
  })
  expect(table.split('\n')).toEqual([
    'HOUR FROM          HEARTBEATS  EVENTS  TOOL CALLS',
    '2026-11-21T13:05Z  60 of 60    7       6',
    '2026-11-21T14:05Z  41 of 60    1204    0           19 heartbeats missing',
  ])
})
