import { expect, test } from 'vitest'
import { ageText, durationOption, endOption, readInstant } from './instant.ts'

const now = Date.parse('2026-11-21T12:00:00.000Z')

test('instants, days and ages are parsed', () => {
  expect(readInstant('90s', now)).toBe('2026-11-21T11:58:30.000Z')
  expect(readInstant('15m', now)).toBe('2026-11-21T11:45:00.000Z')
  expect(readInstant('2h', now)).toBe('2026-11-21T10:00:00.000Z')
  expect(readInstant('7d', now)).toBe('2026-11-14T12:00:00.000Z')
  expect(readInstant('2026-11-20', now)).toBe('2026-11-20T00:00:00.000Z')
  expect(readInstant('2026-11-20T08:30Z', now)).toBe('2026-11-20T08:30:00.000Z')
  expect(readInstant('2026-11-20T08:30:00.5+02:00', now)).toBe('2026-11-20T06:30:00.500Z')
})

test('ambiguous and invalid instants are rejected', () => {
  for (const text of [
    '',
    'yesterday',
    '15',
    '15 m',
    '-1h',
    '11/20/2026',
    '2026-13-01',
    '2026-11-20T08:30',
    '9999999d',
  ]) {
    expect(() => readInstant(text, now), text).toThrow('ISO 8601')
  }
})

test('durations and end times are parsed', () => {
  expect(['90s', '15m', '2h', '1d'].map(durationOption)).toEqual([90_000, 900_000, 7_200_000, 86_400_000])
  for (const text of ['', '2', 'h', '1w', '-1h', '1.5h']) expect(() => durationOption(text), text).toThrow('a duration')
  expect(endOption('2027-01-01T08:00+01:00')).toBe('2027-01-01T07:00:00.000Z')
  // An age such as 2h is in the past, so it is no end time.
  for (const text of ['2h', '2027-01-01', '2027-01-01T08:00', '2027-13-01T08:00Z'])
    expect(() => endOption(text), text).toThrow('ISO 8601')
})

test('an age is formatted in one unit', () => {
  expect([0, 119, 120, 7_199, 7_200, 172_799, 172_800].map(ageText)).toEqual([
    '0 s',
    '119 s',
    '2 min',
    '119 min',
    '2 h',
    '47 h',
    '2 d',
  ])
})
