import { expect, test } from 'vitest'
import { baselineText, type Zone } from './baseline-texts.ts'
import type { BaselineView } from './baselines.ts'

const now = Date.parse('2026-11-26T18:00:00Z')
const hoursAgo = (hours: number) => new Date(now - hours * 3_600_000).toISOString()

test.each<[BaselineView['basis'], number, string | null, string]>([
  ['own', 414, hoursAgo(30), 'judged against its own samples'],
  [
    'none',
    414,
    '2026-11-26T14:00:00.000Z',
    'learning until tomorrow 14:00 UTC; meanwhile only very large deviations are reported',
  ],
  // The whole minute after it.
  ['fleet', 100, '2026-11-26T14:00:00.001Z', 'learning until tomorrow 14:01 UTC; meanwhile judged against the fleet'],
  ['type', 150, hoursAgo(22), 'learning until today 20:00 UTC; meanwhile judged against agents of the same type'],
  ['tag', 99, hoursAgo(48), 'learning: 99 of 100 samples; meanwhile judged against agents with a common tag'],
  [
    'none',
    3,
    hoursAgo(1),
    'learning: 3 of 100 samples, and at least until tomorrow 17:00 UTC; nothing is reported before 10 samples',
  ],
  [
    'none',
    10,
    hoursAgo(1),
    'learning: 10 of 100 samples, and at least until tomorrow 17:00 UTC; meanwhile only very large deviations are reported',
  ],
  ['none', 40, hoursAgo(24), 'learning: 40 of 100 samples; meanwhile only very large deviations are reported'],
  // Reset.
  ['none', 0, null, 'learning: 0 of 100 samples; nothing is reported before 10 samples'],
  ['fleet', 0, null, 'learning: 0 of 100 samples; meanwhile judged against the fleet'],
  // Read just before it was over.
  ['fleet', 120, hoursAgo(24), 'learning until its next sample; meanwhile judged against the fleet'],
  // The clock of the browser is two days behind.
  ['fleet', 120, hoursAgo(-48), 'learning until 29 Nov 18:00 UTC; meanwhile judged against the fleet'],
])('%s with %d samples since %s: %s', (basis, samples, since, text) => {
  expect(baselineText({ basis, samples, since, quiet_time: false }, now, 'utc')).toBe(text)
})

test('says when the time of the week is judged by itself', () => {
  expect(baselineText({ basis: 'own', samples: 9_000, since: hoursAgo(900), quiet_time: true }, now, 'utc')).toBe(
    'judged against its own samples, which are lower at this time of the week',
  )
})

test('names the time of the machine without a zone', () => {
  const view = { basis: 'none', samples: 414, since: hoursAgo(4), quiet_time: false } as const
  const at = new Date(now + 20 * 3_600_000)
  const clock = [at.getHours(), at.getMinutes()].map((part) => String(part).padStart(2, '0')).join(':')
  const zone: Zone = 'local'
  expect(baselineText(view, now, zone)).toMatch(new RegExp(`^learning until (today|tomorrow) ${clock}; meanwhile only`))
})
