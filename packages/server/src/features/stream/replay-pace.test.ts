import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ReplayPace } from './replay-pace.ts'

describe('the pace of replays', () => {
  it('allows a caller two full replays at once, then 10,000 rows per second', () => {
    const pace = new ReplayPace()
    for (let rows = 0; rows < 20_000; rows += 100) {
      expect(pace.waitMs('a', 0)).toBe(0)
      pace.take('a', 100, 0)
    }
    pace.take('a', 100, 0)
    expect(pace.waitMs('a', 0)).toBeCloseTo(10)
    expect(pace.waitMs('a', 10)).toBeCloseTo(0)
    expect(pace.waitMs('b', 0)).toBe(0)
  })

  it('limits each caller, and all callers together, to their burst and rate', () => {
    const caller = fc.constantFrom('a', 'b', 'c', 'd', 'e')
    const step = fc.record({ caller, rows: fc.integer({ min: 1, max: 250 }), ms: fc.nat(3) })
    fc.assert(
      fc.property(fc.array(step, { minLength: 500, maxLength: 3_000 }), (steps) => {
        const pace = new ReplayPace()
        const taken = new Map<string, number>()
        let now = 0
        let all = 0
        for (const { caller, rows, ms } of steps) {
          now += ms / 10
          if (pace.waitMs(caller, now) > 0) continue
          pace.take(caller, rows, now)
          taken.set(caller, (taken.get(caller) ?? 0) + rows)
          all += rows
          expect(taken.get(caller)).toBeLessThanOrEqual(20_000 + 250 + now * 10)
          expect(all).toBeLessThanOrEqual(25_000 + 250 + now * 25)
        }
      }),
      { numRuns: 30 },
    )
  })
})
