import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Activity, breachAfter, decide, graceMs, stateOf, undecidedUntil } from './states.ts'

const settings = { silenceMs: 30_000, acknowledgeMs: 35_000 }
const time = fc.integer({ min: 1, max: 200_000 })
const orNull = fc.option(time, { nil: null })

const facts = fc.record({
  requested_at: fc.constant(0),
  delivered_at: orNull,
  acknowledged_at: orNull,
  can_acknowledge: fc.constantFrom(0 as const, 1 as const),
  silent_at: fc.constant(null),
  quiet_at: fc.constant(null),
  first_breach_at: orNull,
  last_breach_at: fc.constant(null),
  last_activity_at: orNull,
  breaches: fc.constant(0),
  breaches_reported: fc.constant(0),
  breach_reported_at: fc.constant(null),
  resumed_at: orNull,
  result_reported: fc.constant(null),
})

/** What a reading of these events shows. */
function activityOf(row: Parameters<typeof breachAfter>[0], events: readonly number[]): Activity {
  const after = breachAfter(row, settings)
  const breaches = events.filter((at) => after !== null && at > after)
  const [first, last] = [Math.min(...breaches), Math.max(...breaches)]
  const found = breaches.length > 0
  return {
    breaches: breaches.length,
    firstBreachAt: found ? first : null,
    lastBreachAt: found ? last : null,
    lastAt: events.length > 0 ? Math.max(...events) : null,
  }
}

const steadiness = fc.record({ mayJudge: fc.boolean(), steadyMs: fc.nat(60_000) })

describe('a decision', () => {
  it('proves a stop only after an acknowledgement and silence, and never while it may not judge', () => {
    fc.assert(
      fc.property(facts, fc.array(time, { maxLength: 5 }), time, steadiness, (row, all, now, steady) => {
        const events = all.filter((at) => at <= now)
        const decision = decide(row, activityOf(row, events), now, { settings, ...steady })
        if (stateOf({ ...row, ...decision }) !== 'proven') return
        expect(steady.mayJudge).toBe(true)
        expect(steady.steadyMs).toBeGreaterThanOrEqual(settings.silenceMs)
        expect(row.acknowledged_at).not.toBeNull()
        expect(now - row.acknowledged_at!).toBeGreaterThanOrEqual(settings.silenceMs)
        for (const at of events) expect(now - at).toBeGreaterThanOrEqual(settings.silenceMs)
      }),
    )
  })

  const known = { mayJudge: true, steadyMs: Infinity }
  const isViolated = (row: Parameters<typeof decide>[0], at: number, now: number) =>
    stateOf({ ...row, ...decide(row, activityOf(row, [at]), now, { settings, ...known }) }) === 'violated'
  const unbroken = facts.map((row) => ({ ...row, first_breach_at: null }))

  it('calls each event after the grace a violation where the agent cannot acknowledge, or did before it', () => {
    fc.assert(
      fc.property(facts, time, time, (row, at, now) => {
        fc.pre(row.delivered_at !== null && at > row.delivered_at + graceMs && at <= now)
        fc.pre(
          row.acknowledged_at === null ? row.can_acknowledge === 0 : row.acknowledged_at <= row.delivered_at! + graceMs,
        )
        const decision = decide(row, activityOf(row, [at]), now, { settings, ...known })
        expect(stateOf({ ...row, ...decision })).toBe('violated')
        expect(decision.reports).toBe(1)
      }),
    )
  })

  it('calls the same events a violation of an agent that acknowledges too late, or never', () => {
    fc.assert(
      fc.property(unbroken, time, time, (row, at, now) => {
        const late = { ...row, can_acknowledge: 1 as const, resumed_at: null }
        fc.pre(late.delivered_at !== null && at > late.delivered_at + graceMs && at <= now)
        const until = late.delivered_at! + settings.acknowledgeMs + graceMs
        fc.pre(late.acknowledged_at === null ? now >= until : late.acknowledged_at > until)
        expect(isViolated(late, at, now)).toBe(true)
      }),
    )
  })

  it('excuses what lay before an acknowledgement in time, and no event later than the grace after it', () => {
    fc.assert(
      fc.property(unbroken, fc.integer({ min: 1, max: 45_000 }), time, time, (row, after, at, now) => {
        fc.pre(row.delivered_at !== null && at <= now)
        const acknowledged_at = row.delivered_at! + after
        const known = { ...row, acknowledged_at, can_acknowledge: 1 as const }
        if (at <= acknowledged_at && at <= now && after > graceMs) expect(isViolated(known, at, now)).toBe(false)
        if (at > acknowledged_at + graceMs) expect(isViolated(known, at, now)).toBe(true)
      }),
    )
  })

  it('is open while an agent that can acknowledge may still do so', () => {
    const row = {
      delivered_at: 1_000,
      acknowledged_at: null,
      can_acknowledge: 1 as const,
      silent_at: null,
      resumed_at: null,
    }
    expect(undecidedUntil(row, settings)).toBe(46_000)
    expect(undecidedUntil({ ...row, can_acknowledge: 0 }, settings)).toBeNull()
    expect(undecidedUntil({ ...row, acknowledged_at: 2_000 }, settings)).toBeNull()
    expect(breachAfter({ ...row, resumed_at: 30_000 }, settings)).toBeNull()
    expect(breachAfter({ ...row, resumed_at: 50_000 }, settings)).toBe(11_000)
  })

  it('is made again later, or waits for another fact: never at once', () => {
    fc.assert(
      fc.property(facts, time, fc.boolean(), (row, now, mayJudge) => {
        const { look_at } = decide(row, activityOf(row, []), now, { settings, mayJudge, steadyMs: Infinity })
        if (look_at !== null) expect(look_at).toBeGreaterThan(now)
      }),
    )
  })
})
