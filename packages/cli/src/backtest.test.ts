import { expect, test } from 'vitest'
import { backtestSentence } from './backtest.ts'

const found = {
  from: '2026-11-19T12:00:00.000Z',
  to: '2026-11-26T12:00:00.000Z',
  data_from: '2026-11-19T12:00:00.000Z',
  firings: 0,
  suppressed: 0,
  instances: 0,
  suspensions: 0,
  events_read: 900,
  evicted: 0,
  duration_ms: 10,
}

test('a backtest says over how much data it looked', () => {
  const firings = { firings: 2, instances: 1, suspensions: 1 }
  expect(backtestSentence(found)).toBe('The rule would not have fired in 7 days.')
  const young = { ...found, data_from: '2026-11-26T11:43:00.000Z' }
  expect(backtestSentence(young)).toBe('The rule would not have fired in the 17 minutes of events that there are.')
  expect(backtestSentence({ ...young, ...firings })).toBe(
    'The rule would have fired 2 times on 1 agent in the 17 minutes of events that there are and suspended 1.',
  )
  expect(backtestSentence({ ...found, data_from: null })).toBe('There are no stored events to run the rule on.')
})
