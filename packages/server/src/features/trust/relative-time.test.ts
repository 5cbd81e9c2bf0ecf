import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { relativeTime } from './relative-time.ts'

const second = 1_000
const minute = 60 * second
const hour = 60 * minute
const day = 24 * hour
const now = Date.UTC(2026, 10, 20, 12)

describe('relativeTime', () => {
  const examples: [number, string][] = [
    [0, 'just now'],
    [minute - 1, 'just now'],
    [minute, '1 minute ago'],
    [2 * minute - 1, '1 minute ago'],
    [2 * minute, '2 minutes ago'],
    [hour - 1, '59 minutes ago'],
    [hour, '1 hour ago'],
    [2 * hour, '2 hours ago'],
    [day - 1, '23 hours ago'],
    [day, '1 day ago'],
    [3 * day, '3 days ago'],
    [400 * day, '400 days ago'],
  ]

  it.each(examples)('formats %i ms as "%s"', (elapsedMs, words) => {
    expect(relativeTime(now - elapsedMs, now)).toBe(words)
  })

  it('formats null as never', () => {
    expect(relativeTime(null, now)).toBe('never')
  })

  it('formats a time ahead of the clock as just now', () => {
    expect(relativeTime(now + 5 * day, now)).toBe('just now')
  })

  it('shows one whole unit and never zero', () => {
    fc.assert(
      fc.property(fc.nat(4_000 * day), (elapsedMs) => {
        expect(relativeTime(now - elapsedMs, now)).toMatch(
          /^(just now|1 (minute|hour|day) ago|([2-9]|[1-9][\d,]+) (minutes|hours|days) ago)$/,
        )
      }),
    )
  })
})
