import { expect, test } from 'vitest'
import { matchText } from './matchers.ts'
import { silenceOf } from './silences.ts'

const now = Date.parse('2026-11-21T12:00:00.000Z')
const reason = 'The bots move'

test('lasts from now on, or until an instant', () => {
  expect(silenceOf({ reason, for: 7_200_000, instance: ['bot-*'] }, now)).toEqual({
    reason,
    match: { instances: ['bot-*'] },
    ends_at: '2026-11-21T14:00:00.000Z',
  })
  const until = '2026-11-22T00:00:00.000Z'
  expect(silenceOf({ reason, until, severity: ['warning'], type: ['instance_*'] }, now)).toEqual({
    reason,
    match: { severities: ['warning'], types: ['instance_*'] },
    ends_at: until,
  })
  expect(() => silenceOf({ reason, all: true }, now)).toThrow('Option --for <duration>')
})

// A silence without a condition would also suppress the alert of a decoy.
test('is about every alert only when that was said', () => {
  expect(() => silenceOf({ reason, for: 1 }, now)).toThrow('Option --severity, --type')
  expect(silenceOf({ reason, for: 1, all: true }, now).match).toEqual({})
})

test('says on one line what a rule is about', () => {
  expect(matchText({})).toBe('every alert')
  expect(matchText({ severities: ['critical', 'breach'], types: ['a'], instances: ['b-*'] })).toBe(
    'severity critical, breach; type a; instance b-*',
  )
})
