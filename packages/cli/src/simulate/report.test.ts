import type { EventRow } from '@wardline/contract'
import { expect, test } from 'vitest'
import { unsetColumns } from '../testing/events.ts'
import { keepStatusLine, printLines } from './progress.ts'
import { clockText, figuresLine, type Summary, summaryJson, summaryText } from './report.ts'

const row = (overrides: Partial<EventRow>): EventRow => ({
  ...unsetColumns,
  id: '00000000-0000-7000-8000-000000000000',
  seq: 1,
  severity: 'critical',
  source: 'wardline',
  by_service: true,
  event_type: 'anomaly_detected',
  description: 'shell_exec_count is 100',
  instance_id: 'demo-support-bot-1',
  created_at: '2026-01-01T00:00:00.000Z',
  ...overrides,
})

const summary: Summary = {
  seed: 5,
  seconds: 20.04,
  agents: 5,
  suspended: 1,
  heartbeats: 7,
  events: { info: 40, warning: 2, critical: 0, breach: 0 },
  answered: 90,
  failed: 1,
  throttled: 0,
  lastFailure: 'Something\nwent wrong.',
  latencyMs: { p50: 2, p99: 30.25 },
  stepsLeftOut: 0,
  decoys: [
    { id: 'one', type: 'api_key', matched: true },
    { id: 'two', type: 'file_path', matched: undefined },
  ],
  findings: {
    anomalies: [row({})],
    breaches: [row({ event_type: 'honeypot_triggered', metadata: { honeypot_id: 'one' } })],
  },
}

test('the summary is formatted as text', () => {
  expect(summaryText(summary).split('\n')).toEqual([
    'Fleet       5 agents, 20 s, seed 5',
    'Heartbeats  7',
    'Events      42: 40 info, 2 warning, 0 critical, 0 breach',
    'Decoy       decoy key touched, 1 breach',
    'Decoy       decoy file planted, not touched',
    'Anomalies   1',
    '            demo-support-bot-1 critical: shell_exec_count is 100',
    'Requests    91, 4.5 a second, p50 2 ms, p99 30.25 ms',
    'Failures    1, the last one: Something went wrong.',
  ])
})

test('the summary is converted to JSON, with null for unknown values', () => {
  expect(summaryJson(summary)).toMatchObject({
    requests: 91,
    requestsPerSecond: 4.5,
    anomalies: [{ severity: 'critical' }],
  })
  expect(summaryJson(summary).decoys.map(({ touched, breaches }) => [touched, breaches])).toEqual([
    [true, 1],
    [false, 0],
  ])
  const unknown = summaryJson({ ...summary, findings: undefined })
  expect(unknown.anomalies).toBeNull()
  expect(unknown.decoys[0]?.breaches).toBeNull()
})

// Otherwise any agent could rewrite the operator's terminal with an event.
test('the summary contains no control characters of events', () => {
  const hostile = row({ description: 'x\u001b[1A\u001b[2KAnomalies   0\r\nFailures    0' })
  const text = summaryText({ ...summary, findings: { anomalies: [hostile], breaches: [] } })
  expect(text.replaceAll('\n', '')).not.toMatch(/\p{Cc}/u)
  expect(text.split('\n').filter((line) => line.startsWith('Failures'))).toHaveLength(1)
})

test('a time is formatted as minutes and seconds, with hours if there are any', () => {
  expect([0, 61.9, 3_600, 36_061].map(clockText)).toEqual(['00:00', '01:01', '1:00:00', '10:01:01'])
})

function screenOf(columns: number) {
  const written: string[] = []
  return { columns, write: (text: string) => written.push(text), text: () => written.join('') }
}

// The reason of a kill is free text of another person, and is printed on the terminal that runs the fleet.
test('a line of the story is printed without control characters', () => {
  const screen = screenOf(80)
  const progress = printLines(screen, () => summary)
  progress.say('Support bot 1 is stopped: \u001b[2J\u0007now')
  progress.stop()
  expect(screen.text()).toBe('00:20  Support bot 1 is stopped:  [2J now\n')
})

test('the line of figures is rewritten in place and truncated to the width of the terminal', () => {
  const screen = screenOf(30)
  const progress = keepStatusLine(screen, () => summary)
  progress.say('One')
  progress.stop()
  const [story, status, end] = screen.text().split('\r\u001b[2K').slice(1)
  expect(story).toBe('00:20  One\n')
  expect(`00:20  ${figuresLine(summary)}`.startsWith(status!.slice(0, -1))).toBe(true)
  expect([...status!]).toHaveLength(29)
  expect(end).toBe('')
})
