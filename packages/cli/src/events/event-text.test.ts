import { counted } from '@wardline/text'
import { expect, test } from 'vitest'
import { sampleEntries, sampleEvents } from '../testing/events.ts'
import { auditLine, controlLine, eventLine } from './event-text.ts'

const metrics = (description: string) =>
  eventLine({ ...sampleEvents.plain, event_type: 'session_metrics', description })

test('an event is formatted as one line', () => {
  expect(eventLine(sampleEvents.plain)).toBe(
    '2026-11-21T12:22:27Z  info      support-bot-1 reports a tool call  Searched the web',
  )
})

test('session metrics are formatted as names and numbers', () => {
  expect(metrics('{"tool_calls_per_5min":41,"avg_response_length":812.333333}')).toMatch(
    / reports metrics {2}tool calls per 5min 41, avg response length 812\.33$/,
  )
})

// The CLI may be connected to any server, so values of unexpected types must not cause an error.
test.each(['{"a":"x"}', '{"a":{"b":1}}', 'null', '{}', '7', '[]', 'not JSON', '"text"'])(
  'a description that is not an object of numbers is shown unchanged: %s',
  (description) => {
    expect(metrics(description)).toContain(`reports metrics  ${description}`)
  },
)

test('control characters in the names of session metrics are replaced', () => {
  expect(metrics(JSON.stringify({ 'a\u001b[2J\u202eb': 1 }))).toMatch(/ {2}a \[2J b 1$/)
})

test('a number agrees with its noun', () => {
  expect([counted(0, 'event'), counted(1, 'event'), counted(2, 'event')]).toEqual(['0 events', '1 event', '2 events'])
})

const [suspend, resume, audit] = sampleEntries

test('a kill is formatted as one line with actor and reason', () => {
  expect(controlLine({ ...suspend.row, reason: 'Mails twice' })).toBe(
    '2026-11-21T12:23:00Z  control   support-bot-1  suspended by laptop of Ann (k3y1d000): Mails twice',
  )
  expect(controlLine(resume.row)).toBe('2026-11-21T12:24:00Z  control   support-bot-1  resumed by system')
})

test('an audit entry is formatted as one line without empty fields', () => {
  expect(auditLine(audit.row)).toBe(
    '#59  2026-11-21T12:25:00Z  laptop of Ann (k3y1d000)  key.create  n3wkey00  from 192.0.2.7',
  )
  expect(auditLine({ ...audit.row, actor_name: null, actor: 'cli', target: null, ip: null, reason: 'why' })).toBe(
    '#59  2026-11-21T12:25:00Z  cli  key.create  why',
  )
})

// The name of a key or a reason must not control the reader's terminal.
test('texts of an entry contain no control characters or line breaks', () => {
  const hostile = '\u001b[2J\r\n2026-11-21T12:22:27Z  info\u202e'
  const lines = [
    controlLine({ ...suspend.row, reason: hostile, actor: hostile, actor_name: hostile, instance_id: hostile }),
    auditLine({ ...audit.row, actor: hostile, actor_name: hostile, action: hostile, target: hostile, reason: hostile }),
  ]
  for (const line of lines) expect(line).not.toMatch(/\p{Cc}|\u202e/u)
})
