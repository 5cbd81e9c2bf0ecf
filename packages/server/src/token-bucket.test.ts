import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { fullBucket, spend, waitFor } from './token-bucket.ts'

const steps = fc.array(fc.record({ amount: fc.integer({ min: 1, max: 300 }), afterMs: fc.nat(2_000) }), {
  minLength: 1,
  maxLength: 100,
})

describe('a token bucket', () => {
  it('supplies at most its burst, plus its rate over time, plus the debt of one amount', () => {
    fc.assert(
      fc.property(steps, fc.integer({ min: 1, max: 200 }), (asked, burst) => {
        const bucket = fullBucket(20, burst, 0)
        let now = 0
        let given = 0
        for (const { amount, afterMs } of asked) {
          now += afterMs
          if (waitFor(bucket, amount, now) > 0) continue
          spend(bucket, amount)
          given += amount
        }
        const largest = Math.max(...asked.map(({ amount }) => amount))
        expect(given).toBeLessThanOrEqual(burst + now / 20 + Math.max(0, largest - burst) + 1e-6)
      }),
    )
  })

  it('supplies an amount after exactly the wait that it returned', () => {
    fc.assert(
      fc.property(steps, (asked) => {
        const bucket = fullBucket(20, 100, 0)
        let now = 0
        for (const { amount, afterMs } of asked) {
          now += afterMs
          const wait = waitFor(bucket, amount, now)
          if (wait > 0) {
            expect(waitFor(bucket, amount, now + wait * 0.99)).toBeGreaterThan(0)
            now += wait + 1e-6
            expect(waitFor(bucket, amount, now)).toBe(0)
          }
          spend(bucket, amount)
        }
      }),
    )
  })

  it('supplies an amount larger than its burst if it is full, and goes into debt', () => {
    const bucket = fullBucket(1, 10, 0)
    expect(waitFor(bucket, 1_000, 0)).toBe(0)
    spend(bucket, 1_000)
    expect(waitFor(bucket, 1, 0)).toBe(991)
  })

  it('keeps its level when the clock goes backwards', () => {
    const bucket = fullBucket(1, 10, 1_000)
    spend(bucket, 10)
    expect(waitFor(bucket, 5, 0)).toBe(5)
    expect(waitFor(bucket, 5, 1_005)).toBe(0)
  })
})
