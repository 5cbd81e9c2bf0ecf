import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Activity, breachAfter, decide, deliveryMs, graceMs, suspensionState } from './states.ts'

const settings = { silenceMs: 30_000, acknowledgeMs: 35_000 }
const time = fc.integer({ min: 1, max: 200_000 })
const orNull = fc.option(time, { nil: null })

const facts = fc.record({
  requested_at: fc.constant(0),
  delivered_at: orNull,
  delivered_by: fc.constantFrom('stream' as const, 'poll' as const, 'answer' as const),
  acknowledged_at: orNull,
  enforced_at: orNull,
  enforced_by: fc.constantFrom('supervisor' as const, 'gateway' as const),
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
  ends_at: orNull,
  result_reported: fc.constant(null),
})

/** Returns the activity that the watch finds when the log has these events. */
function activityOf(row: Parameters<typeof breachAfter>[0], events: readonly number[]): Activity {
  const after = breachAfter(row)
  const breaches = events.filter((at) => at > after)
  const [first, last] = [Math.min(...breaches), Math.max(...breaches)]
  const found = breaches.length > 0
  return {
    breaches: breaches.length,
    firstBreachAt: found ? first : null,
    lastBreachAt: found ? last : null,
    lastAt: events.length > 0 ? Math.max(...events) : null,
  }
}

const undelivered = { delivered_at: null, delivered_by: null }

/** Measured time has fractions. */
const steadyMs = fc.double({ min: 0, max: 60_000, noNaN: true })
const steadiness = fc.record({ mayJudge: fc.boolean(), steadyMs })

describe('a decision', () => {
  it('proves a stop only after an acknowledgement and silence, and never without mayJudge', () => {
    fc.assert(
      fc.property(facts, fc.array(time, { maxLength: 5 }), time, steadiness, (row, all, now, steady) => {
        const events = all.filter((at) => at <= now)
        const decision = decide(row, activityOf(row, events), now, { settings, ...steady })
        if (suspensionState({ ...row, ...decision }) !== 'proven') return
        expect(steady.mayJudge).toBe(true)
        expect(steady.steadyMs).toBeGreaterThanOrEqual(settings.silenceMs)
        expect(row.acknowledged_at).not.toBeNull()
        expect(now - row.acknowledged_at!).toBeGreaterThanOrEqual(settings.silenceMs)
        for (const at of events) expect(now - at).toBeGreaterThanOrEqual(settings.silenceMs)
      }),
    )
  })

  it('reports an event after the grace as a violation, whatever the other facts are', () => {
    fc.assert(
      fc.property(facts, time, time, (row, at, now) => {
        fc.pre(row.delivered_at !== null && row.delivered_by !== 'answer')
        fc.pre(at > row.delivered_at + graceMs && at <= now)
        const decision = decide(row, activityOf(row, [at]), now, { settings, mayJudge: true, steadyMs: Infinity })
        expect(suspensionState({ ...row, ...decision })).toBe('violated')
        expect(decision.reports).toBe(1)
      }),
    )
  })

  it('reports an event later than 45 seconds after the request as a violation, also before a delivery', () => {
    fc.assert(
      fc.property(facts, time, time, (row, at, now) => {
        fc.pre(at > deliveryMs + graceMs && at <= now)
        const decision = decide(row, activityOf(row, [at]), now, { settings, mayJudge: true, steadyMs: Infinity })
        expect(suspensionState({ ...row, ...decision })).toBe('violated')
      }),
    )
  })

  it('reports an event later than 35 seconds after the request as a violation without a stream, a poll or an acknowledgement', () => {
    const none = fc.constantFrom(undelivered, { delivered_by: 'answer' as const })
    fc.assert(
      fc.property(facts, none, time, time, (some, none, at, now) => {
        const row = { ...some, ...none, acknowledged_at: null }
        fc.pre(at > deliveryMs && at <= now)
        const decision = decide(row, activityOf(row, [at]), now, { settings, mayJudge: true, steadyMs: Infinity })
        expect(suspensionState({ ...row, ...decision })).toBe('violated')
      }),
    )
  })

  it('never reports an agent that polls every 30 seconds and finishes within the grace', () => {
    const polled = fc.integer({ min: 1, max: 30_000 })
    const event = fc.record({ at: fc.nat(40_000), later: fc.nat(50_000) })
    const answered = fc.boolean()
    fc.assert(
      fc.property(polled, fc.array(event), fc.boolean(), answered, (polled_at, events, acknowledges, isAnswered) => {
        const acknowledged_at = acknowledges ? polled_at : null
        const before = isAnswered ? ({ delivered_at: 1, delivered_by: 'answer' } as const) : undelivered
        for (const { at, later } of events) {
          if (at > polled_at + graceMs) continue
          // The event may be read before or after the delivery was noted.
          const known =
            at + later < polled_at
              ? { ...before, acknowledged_at: null }
              : { delivered_at: polled_at, delivered_by: 'poll' as const, acknowledged_at }
          const none = { requested_at: 0, silent_at: null }
          expect(at).toBeLessThanOrEqual(breachAfter({ ...none, ...known }))
        }
      }),
    )
  })

  it('is enforced once a supervisor holds the agent, whatever the other facts are, unless it was active', () => {
    fc.assert(
      fc.property(facts, fc.array(time, { maxLength: 3 }), time, steadiness, (row, events, now, steady) => {
        const decision = decide(row, activityOf(row, events), now, { settings, ...steady })
        const state = suspensionState({ ...row, ...decision })
        const isHeld = row.enforced_at !== null && row.enforced_by === 'supervisor'
        expect(state === 'enforced').toBe(isHeld && decision.first_breach_at === null)
        expect(suspensionState({ ...row, ...decision }, true) === 'partial').toBe(
          ['quiet', 'confirmed', 'proven', 'enforced'].includes(state),
        )
      }),
    )
  })

  it('is due again later or not at all, never at once, in whole milliseconds', () => {
    fc.assert(
      fc.property(facts, time, steadiness, (row, now, steady) => {
        const decision = decide(row, activityOf(row, []), now, { settings, ...steady })
        if (decision.look_at !== null) expect(decision.look_at).toBeGreaterThan(now)
        const numbers = Object.values(decision).filter((value) => typeof value === 'number')
        expect(numbers.filter((value) => !Number.isInteger(value))).toEqual([])
      }),
    )
    // Soon after a start, when the silence has to be measured first.
    const none = { resumed_at: null, first_breach_at: null, last_activity_at: null, acknowledged_at: 1 }
    const row = { ...fc.sample(facts, 1)[0]!, ...none }
    const { look_at } = decide(row, activityOf(row, []), 100, { settings, mayJudge: true, steadyMs: 12.5 })
    expect(look_at).toBe(30_088)
  })

  it('reports an agent that worked until its timer ended, if it received nothing by then', () => {
    const row = {
      ...fc.sample(facts, 1)[0]!,
      ...undelivered,
      acknowledged_at: null,
      first_breach_at: null,
      last_activity_at: null,
      ends_at: 20_000,
    }
    const at = (resumed_at: number, events: number[]) => {
      const over = { ...row, resumed_at }
      return decide(over, activityOf(over, events), 25_000, { settings, mayJudge: true, steadyMs: 90_000 })
    }
    expect(at(20_000, [19_000]).result_reported).toBe('unconfirmed')
    expect(at(20_000, []).result_reported).toBeNull()
    // Resumed by a person, or taken over.
    expect(at(15_000, [14_000]).result_reported).toBeNull()
  })
})
