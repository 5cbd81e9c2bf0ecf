import { expect, test } from 'vitest'
import { pastClock } from './past-clock.ts'

test('passes time at once, forward only, and never beyond the clock of this machine', () => {
  const clock = pastClock(Date.now() - 1_000_000)
  const begin = clock.now()
  expect(Date.now() - begin).toBeGreaterThanOrEqual(999_000)
  clock.moveTo(begin + 400_000.7)
  expect(clock.now()).toBeGreaterThanOrEqual(begin + 400_000)
  expect(Number.isInteger(clock.now()), 'ids are made of it').toBe(true)
  clock.moveTo(begin)
  expect(clock.now()).toBeGreaterThanOrEqual(begin + 400_000)
  clock.moveTo(Date.now() + 1_000_000)
  expect(clock.now()).toBeLessThanOrEqual(Date.now())
})

// Leases, silence and jumps of the clock are judged by comparing both.
test('its monotonic time passes with its wall time', () => {
  const clock = pastClock(Date.now() - 1_000_000)
  const apart = clock.now() - clock.monotonic()
  clock.moveTo(clock.now() + 500_000)
  expect(Math.abs(clock.now() - clock.monotonic() - apart)).toBeLessThan(5)
  clock.moveToPresent()
  expect(Math.abs(clock.now() - clock.monotonic() - apart)).toBeLessThan(5)
  expect(Date.now() - clock.now()).toBeLessThan(5)
})
