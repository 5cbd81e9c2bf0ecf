import fc from 'fast-check'
import { expect, test } from 'vitest'
import { retryDelayMs } from './tail-follow.ts'

test('the delay grows with each attempt, with jitter, up to 30 seconds', () => {
  expect(retryDelayMs(0, undefined, 0)).toBe(250)
  expect(retryDelayMs(0, undefined, 1)).toBe(500)
  expect(retryDelayMs(3, undefined, 1)).toBe(4_000)
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 2_000 }), fc.double({ min: 0, max: 1, noNaN: true }), (attempt, random) => {
      const delay = retryDelayMs(attempt, undefined, random)
      expect(delay).toBeGreaterThanOrEqual(250)
      expect(delay).toBeLessThanOrEqual(30_000)
    }),
  )
})

test('the first delay is the one sent by the service, up to 30 seconds', () => {
  expect(retryDelayMs(0, 7_000, 0)).toBe(7_000)
  expect(retryDelayMs(0, 999_999_999, 0)).toBe(30_000)
  expect(retryDelayMs(1, 7_000, 1)).toBe(1_000)
})
