import fc from 'fast-check'
import { expect, test } from 'vitest'
import { retryDelayMs } from './tail-follow.ts'

test('waits longer with each try, spread at random, and never longer than half a minute', () => {
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

test('follows the delay that the service asks for at first, within bounds', () => {
  expect(retryDelayMs(0, 7_000, 0)).toBe(7_000)
  expect(retryDelayMs(0, 999_999_999, 0)).toBe(30_000)
  expect(retryDelayMs(1, 7_000, 1)).toBe(1_000)
})
