import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Baseline, learn, scoreSample } from './anomaly.ts'

const baselineOf = (values: readonly number[]): Baseline =>
  values.reduce<Baseline | null>((baseline, value) => learn(baseline, value), null)!
const constant = (value: number, samples = 10) => baselineOf(new Array<number>(samples).fill(value))
const severityOf = (baseline: Baseline | null, value: number) => scoreSample(baseline, value)?.severity ?? null

describe('scoreSample', () => {
  const usual = baselineOf([90, 110, 90, 110, 90, 110, 90, 110, 90, 110])

  it('says nothing before 10 samples', () => {
    expect(scoreSample(null, 1e6)).toBeNull()
    expect(scoreSample(constant(5, 9), 1e6)).toBeNull()
    expect(severityOf(constant(5, 10), 1e6)).toBe('critical')
  })

  it('warns from z = 3 and is critical from z = 5', () => {
    // Mean 100, m2 900 over 10 samples: the deviation is 10.
    const even: Baseline = { samples: 10, mean: 100, m2: 900 }
    expect(scoreSample(even, 129.9)).toBeNull()
    expect(scoreSample(even, 130)).toEqual({ z: 3, mean: 100, deviation: 10, samples: 10, severity: 'warning' })
    expect(severityOf(even, 149.9)).toBe('warning')
    expect(scoreSample(even, 150)).toEqual({ z: 5, mean: 100, deviation: 10, samples: 10, severity: 'critical' })
  })

  it('divides by the deviation of the samples', () => {
    const anomaly = scoreSample(usual, 145)
    expect(anomaly?.deviation).toBeCloseTo(Math.sqrt(1000 / 9), 9)
    expect(anomaly?.z).toBeCloseTo(45 / Math.sqrt(1000 / 9), 9)
  })

  it('knows a step from a runaway after a constant baseline', () => {
    expect(severityOf(constant(5), 6)).toBeNull()
    expect(severityOf(constant(5), 8)).toBe('warning')
    expect(severityOf(constant(5), 10)).toBe('critical')
    expect(severityOf(constant(5), 500)).toBe('critical')
    expect(severityOf(constant(0), 2)).toBeNull()
    expect(severityOf(constant(0), 3)).toBe('warning')
    expect(severityOf(constant(0), 5)).toBe('critical')
    expect(severityOf(constant(1_000), 1_100)).toBeNull()
    expect(severityOf(constant(1_000), 1_250)).toBe('critical')
  })

  it('uses a deviation that is real as it is, however small', () => {
    // Mean 1,000, m2 0.09 over 10 samples: the deviation is 0.1.
    const tight: Baseline = { samples: 10, mean: 1_000, m2: 0.09 }
    expect(scoreSample(tight, 1_000.2)).toBeNull()
    expect(scoreSample(tight, 1_000.4)?.deviation).toBeCloseTo(0.1, 9)
    expect(severityOf(tight, 1_000.4)).toBe('warning')
    expect(severityOf(tight, 1_000.6)).toBe('critical')
    const alternating = baselineOf([0, 1, 0, 1, 0, 1, 0, 1, 0, 1])
    expect(scoreSample(alternating, 5)?.deviation).toBeCloseTo(Math.sqrt(2.5 / 9), 9)
  })

  // What rounding leaves of a constant baseline would make every sample after it infinitely strange.
  it('takes a baseline for constant whose deviation is nothing but rounding', () => {
    const rounded = baselineOf(new Array<number>(50).fill(0.1 + 0.2))
    expect(severityOf({ ...rounded, m2: 1e-30 }, 1)).toBeNull()
    expect(severityOf({ samples: 10, mean: 1e9, m2: 9 * 0.9 ** 2 }, 1e9 + 100)).toBeNull()
    expect(severityOf({ samples: 10, mean: 1e9, m2: 9 * 1.1 ** 2 }, 1e9 + 100)).toBe('critical')
  })

  it('is never stricter for a varying baseline that varied more', () => {
    const metric = fc.record({
      samples: fc.integer({ min: 10, max: 500 }),
      mean: fc.nat(1_000),
      m2: fc.integer({ min: 1, max: 10_000 }),
    })
    fc.assert(
      fc.property(metric, fc.nat(10_000), fc.nat(5_000), (baseline, more, value) => {
        const z = scoreSample(baseline, value)?.z ?? 0
        expect(scoreSample({ ...baseline, m2: baseline.m2 + more }, value)?.z ?? 0).toBeLessThanOrEqual(z)
      }),
    )
  })

  it('never takes less than usual as abuse', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(1_000), { minLength: 10, maxLength: 50 }), fc.nat(10_000), (values, less) => {
        const baseline = baselineOf(values)
        expect(scoreSample(baseline, baseline.mean - less)).toBeNull()
      }),
    )
  })

  it('grows with the sample', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(1_000), { minLength: 10 }), fc.nat(9_999), fc.nat(9_999), (values, value, more) => {
        const baseline = baselineOf(values)
        expect(scoreSample(baseline, value + more)?.z ?? 0).toBeGreaterThanOrEqual(scoreSample(baseline, value)?.z ?? 0)
      }),
    )
  })
})

describe('learn', () => {
  it('keeps the mean and the squared distances of all samples', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: -1_000, max: 1_000 }), { minLength: 1, maxLength: 100 }), (values) => {
        const mean = values.reduce((sum, value) => sum + value, 0) / values.length
        const m2 = values.reduce((sum, value) => sum + (value - mean) ** 2, 0)
        const learnt = baselineOf(values)
        expect(learnt.samples).toBe(values.length)
        expect(learnt.mean).toBeCloseTo(mean, 6)
        expect(learnt.m2).toBeCloseTo(m2, 3)
      }),
    )
  })

  it('stays exact for small differences of large numbers', () => {
    const learnt = baselineOf([1e9 + 4, 1e9 + 7, 1e9 + 13, 1e9 + 16])
    expect(learnt.mean).toBe(1e9 + 10)
    expect(learnt.m2).toBeCloseTo(90, 6)
  })

  it('leaves the baseline that it was given alone', () => {
    const before = Object.freeze(constant(5))
    expect(learn(before, 6)).not.toBe(before)
  })

  // One absurd report while the baseline is young would make the deviation infinite: no runaway would ever show.
  it('stays finite, so that no value blinds the detector for good', () => {
    fc.assert(
      fc.property(fc.array(fc.double({ noNaN: true, noDefaultInfinity: true }), { minLength: 10 }), (values) => {
        const { mean, m2 } = baselineOf([...values, Number.MAX_VALUE, -Number.MAX_VALUE])
        expect(Number.isFinite(mean) && Number.isFinite(m2) && m2 >= 0).toBe(true)
      }),
    )
    const anomaly = scoreSample(constant(5), Number.MAX_VALUE)
    expect(anomaly?.severity).toBe('critical')
    expect(Number.isFinite(anomaly?.z)).toBe(true)
  })
})
