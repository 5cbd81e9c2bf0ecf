import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  decayedBreaches,
  type RiskFactor,
  type RiskInputs,
  type RiskTier,
  riskScore,
  riskTier,
  riskTierLabel,
} from './risk-score.ts'

const dayMs = 86_400_000
const quiet: RiskInputs = { breach: 0, critical: 0, incident: 0, suspended: 0, agents: 0, injection: 0, warning: 0 }
const endless: RiskInputs = {
  breach: Infinity,
  critical: Infinity,
  incident: Infinity,
  suspended: Infinity,
  agents: Infinity,
  injection: Infinity,
  warning: Infinity,
}

const breachesAged = (ageDays: number, count = 1) => decayedBreaches([{ ageMs: ageDays * dayMs, count }])
const sumOf = (points: Record<RiskFactor, number>) => Object.values(points).reduce((sum, part) => sum + part, 0)

const quantity = fc.oneof(fc.nat(300), fc.double({ min: 0, max: 1e9, noNaN: true }), fc.constant(Infinity))
const inputs: fc.Arbitrary<RiskInputs> = fc.record({
  breach: quantity,
  critical: quantity,
  incident: quantity,
  suspended: quantity,
  agents: quantity,
  injection: quantity,
  warning: quantity,
})
const breachList = fc.array(fc.record({ ageMs: fc.integer({ min: 0, max: 40 * dayMs }), count: fc.nat(5) }), {
  maxLength: 8,
})

describe('riskScore', () => {
  const examples: [string, Partial<RiskInputs>, number, RiskTier][] = [
    ['nothing', {}, 0, 'low'],
    ['5 warnings', { warning: 5 }, 3, 'low'],
    ['100 warnings', { warning: 100 }, 19, 'low'],
    ['3 injection blocks', { injection: 3 }, 3, 'low'],
    ['20 injection blocks', { injection: 20 }, 15, 'low'],
    ['200 injection blocks', { injection: 200 }, 30, 'moderate'],
    ['1 incident', { incident: 1 }, 10, 'low'],
    ['4 incidents', { incident: 4 }, 30, 'moderate'],
    ['10 incidents', { incident: 10 }, 49, 'elevated'],
    ['1 critical', { critical: 1 }, 22, 'moderate'],
    ['3 criticals', { critical: 3 }, 48, 'elevated'],
    ['1 of 20 suspended', { suspended: 1, agents: 20 }, 3, 'low'],
    ['1 of 2 suspended', { suspended: 1, agents: 2 }, 25, 'moderate'],
    ['all suspended', { suspended: 7, agents: 7 }, 50, 'elevated'],
    ['a breach now', { breach: breachesAged(0) }, 65, 'high'],
    ['a breach 24 hours ago', { breach: breachesAged(1) }, 62, 'high'],
    ['a breach 7 days ago', { breach: breachesAged(7) }, 42, 'elevated'],
    ['a breach 14 days ago', { breach: breachesAged(14) }, 24, 'moderate'],
    ['a breach 30 days ago', { breach: breachesAged(30) }, 5, 'low'],
    ['2 fresh breaches', { breach: breachesAged(0, 2) }, 86, 'critical'],
    ['a busy day', { incident: 2, injection: 12, warning: 10 }, 30, 'moderate'],
    ['an attack', { critical: 1, incident: 1, injection: 40, warning: 25 }, 51, 'elevated'],
    [
      'a compromise',
      { breach: 1, critical: 2, incident: 3, injection: 30, warning: 10, suspended: 1, agents: 2 },
      90,
      'critical',
    ],
    ['everything without end', endless, 100, 'critical'],
  ]

  it.each(examples)('scores %s', (_name, given, score, tier) => {
    expect(riskScore({ ...quiet, ...given })).toMatchObject({ score, tier })
  })

  it('splits the score into points by factor', () => {
    const nothing = { breach: 0, critical: 0, incident: 0, suspended: 0, injection: 0, warning: 0 }
    expect(riskScore(quiet).points).toEqual(nothing)
    const busy = riskScore({ ...quiet, incident: 2, injection: 12, warning: 10 })
    expect(busy.points).toEqual({ ...nothing, incident: 17, injection: 9, warning: 4 })
    const attack = riskScore({ ...quiet, critical: 1, incident: 1, injection: 40, warning: 25 })
    expect(attack.points).toEqual({ ...nothing, critical: 18, injection: 18, warning: 8, incident: 7 })
    const compromise = riskScore({
      breach: 1,
      critical: 2,
      incident: 3,
      injection: 30,
      warning: 10,
      suspended: 1,
      agents: 2,
    })
    expect(compromise.points.breach).toBe(40)
    expect(Object.values(compromise.points).toSorted((a, b) => b - a)).toEqual([40, 18, 11, 11, 8, 2])
  })

  it('never decreases when a count increases', () => {
    const factor = fc.constantFrom<keyof RiskInputs>(
      'breach',
      'critical',
      'incident',
      'suspended',
      'injection',
      'warning',
    )
    fc.assert(
      fc.property(inputs, factor, quantity, (given, name, more) => {
        const raised = { ...given, [name]: given[name] + more }
        expect(riskScore(raised).score).toBeGreaterThanOrEqual(riskScore(given).score)
      }),
      { numRuns: 2_000 },
    )
  })

  it('is an integer from 0 to 100 and equals the sum of its points', () => {
    fc.assert(
      fc.property(inputs, (given) => {
        const { score, tier, points } = riskScore(given)
        expect(Number.isInteger(score) && score >= 0 && score <= 100).toBe(true)
        expect(tier).toBe(riskTier(score))
        expect(sumOf(points)).toBe(score)
        for (const part of Object.values(points)) expect(Number.isInteger(part) && part >= 0).toBe(true)
      }),
      { numRuns: 2_000 },
    )
  })

  it('gives no points to a factor that is zero', () => {
    fc.assert(
      fc.property(inputs, fc.constantFrom<RiskFactor>('breach', 'critical', 'incident', 'warning'), (given, name) => {
        expect(riskScore({ ...given, [name]: 0 }).points[name]).toBe(0)
      }),
    )
  })

  it('is a valid score for any input', () => {
    const names = ['breach', 'critical', 'incident', 'suspended', 'agents', 'injection', 'warning']
    const anyFields = fc.record(Object.fromEntries(names.map((name) => [name, fc.anything()])))
    fc.assert(
      fc.property(fc.oneof(fc.anything(), anyFields), (given) => {
        const { score, points } = riskScore(given as RiskInputs)
        expect(Number.isInteger(score) && score >= 0 && score <= 100).toBe(true)
        expect(sumOf(points)).toBe(score)
      }),
      { numRuns: 2_000 },
    )
  })

  it('treats anything but a positive number as zero', () => {
    for (const value of [Number.NaN, -1, -Infinity]) {
      expect(riskScore({ ...quiet, breach: value, critical: value, suspended: value, agents: value }).score).toBe(0)
    }
  })

  it('keeps warnings alone low, injection blocks alone at 30, suspensions alone at 50', () => {
    fc.assert(
      fc.property(quantity, quantity, (count, agents) => {
        expect(riskScore({ ...quiet, warning: count }).tier).toBe('low')
        expect(riskScore({ ...quiet, injection: count }).score).toBeLessThanOrEqual(30)
        expect(riskScore({ ...quiet, suspended: count, agents }).score).toBeLessThanOrEqual(50)
      }),
    )
  })

  // An intruder must not be able to hide a recent breach behind an otherwise quiet fleet.
  it('is at least high after any breach of the last 24 hours, even if all else is quiet', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: dayMs }), (ageMs) => {
        expect(riskScore({ ...quiet, breach: decayedBreaches([{ ageMs, count: 1 }]) }).score).toBeGreaterThanOrEqual(61)
      }),
    )
  })
})

describe('decayedBreaches', () => {
  it('halves a breach every 7 days and ignores it after 30', () => {
    expect(breachesAged(0, 3)).toBe(3)
    expect(breachesAged(7, 3)).toBeCloseTo(1.5, 12)
    expect(breachesAged(14, 3)).toBeCloseTo(0.75, 12)
    expect(breachesAged(30)).toBeGreaterThan(0)
    expect(decayedBreaches([{ ageMs: 30 * dayMs + 1, count: 9 }])).toBe(0)
    expect(decayedBreaches([])).toBe(0)
  })

  it('sums all breaches', () => {
    const list = [
      { ageMs: 0, count: 1 },
      { ageMs: 7 * dayMs, count: 2 },
    ]
    expect(decayedBreaches(list)).toBeCloseTo(2, 12)
  })

  it('never increases with age', () => {
    fc.assert(
      fc.property(breachList, fc.nat(40 * dayMs), inputs, (list, laterMs, given) => {
        const older = list.map(({ ageMs, count }) => ({ ageMs: ageMs + laterMs, count }))
        const before = riskScore({ ...given, breach: decayedBreaches(list) }).score
        expect(riskScore({ ...given, breach: decayedBreaches(older) }).score).toBeLessThanOrEqual(before)
      }),
      { numRuns: 1_000 },
    )
  })

  it('treats a negative or invalid age as fresh', () => {
    expect(decayedBreaches([{ ageMs: -dayMs, count: 1 }])).toBe(1)
    expect(decayedBreaches([{ ageMs: Number.NaN, count: 1 }])).toBe(1)
    expect(decayedBreaches([{ ageMs: 0, count: -4 }])).toBe(0)
  })
})

describe('riskTier', () => {
  it('splits 0 to 100 at 20, 40, 60 and 80', () => {
    const bounds: [number, RiskTier][] = [
      [0, 'low'],
      [20, 'low'],
      [21, 'moderate'],
      [40, 'moderate'],
      [41, 'elevated'],
      [60, 'elevated'],
      [61, 'high'],
      [80, 'high'],
      [81, 'critical'],
      [100, 'critical'],
    ]
    for (const [score, tier] of bounds) expect(riskTier(score)).toBe(tier)
  })

  it('never returns low for an invalid score', () => {
    expect(riskTier(Number.NaN)).toBe('critical')
  })

  it('has a label for every tier', () => {
    const tiers: RiskTier[] = ['low', 'moderate', 'elevated', 'high', 'critical']
    expect(tiers.map(riskTierLabel)).toEqual([
      'Low risk',
      'Moderate risk',
      'Elevated risk',
      'High risk',
      'Critical risk',
    ])
  })
})
