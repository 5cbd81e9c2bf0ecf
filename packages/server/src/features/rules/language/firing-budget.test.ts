import { ruleLimits } from '@wardline/contract'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { effort } from '../../../../../../test-servers/effort.ts'
import { minuteMs, startOf } from '../../../clock.ts'
import { compiled, logged, storedFirings } from '../../../testing/rules.ts'
import type { RuleEvent } from './fields.ts'
import type { SpentFirings } from './firing-budget.ts'
import type { CompiledRule } from './rule.ts'
import { type Firing, lookbackOf, type RuleState, ruleBounds, ruleStates, step } from './rule-state.ts'
import { ValueMemory } from './value-memory.ts'

const max = ruleLimits.minuteFirings
const detection = { any: { event_type: 'x' }, condition: 'any' }
const every = compiled({ detection })
const perSession = compiled({
  detection,
  correlation: { type: 'event_count', 'group-by': ['session_id'], timespan: '30s', condition: { gte: 1 } },
  cooldown: '20s',
})

type Row = Partial<Parameters<typeof logged>[0]>
const of = (seq: number, more: Row = {}) => logged({ seq, at: seq, event_type: 'x', instance_id: 'a', ...more })
const suppressedOf = ({ budget }: RuleState) => budget.takeSuppressed().reduce((sum, [, count]) => sum + count, 0)

/** Takes events through a rule that is over the budget of agent `a`. */
function flooded(rule: CompiledRule, row: (seq: number) => Row = () => ({})) {
  const state = ruleStates.start(rule)
  const history = new ValueMemory()
  const fire = (event: RuleEvent) => step(rule, state, event, history).length
  let fired = 0
  for (let seq = 1; seq <= max + 40; seq += 1) fired += fire(of(seq, row(seq)))
  return { state, fire, fired }
}

test('a rule without cooldown fires so often for an instance in a minute of the events, and counts what is beyond', () => {
  const { state, fire, fired } = flooded(every)
  expect([fired, suppressedOf(state), suppressedOf(state)]).toEqual([max, 40, 0])
  expect(fire(of(1_000, { at: minuteMs - 1 }))).toBe(0)
  // An event whose time went back is of the new minute.
  expect([fire(of(1_001, { at: minuteMs })), fire(of(1_002, { at: minuteMs - 1 }))]).toEqual([1, 1])
})

// Attack: an agent changes the field by which a rule groups with every event, so that no group is silent.
test('groups that an agent makes up give it no more firings', () => {
  expect(flooded(perSession, (seq) => ({ session_id: `s${seq}` })).fired).toBe(max)
})

// Attack: one agent floods a rule, so that it does not fire for another one.
test('a flood of one agent takes nothing from another one, nor from what the service reports about it', () => {
  const { fire } = flooded(every)
  expect(fire(of(1_000, { instance_id: 'b' }))).toBe(1)
  expect(fire(of(1_001, { instance_id: null }))).toBe(1)
  expect(fire(of(1_002, { by_service: true }))).toBe(1)
  expect(fire(of(1_003))).toBe(0)
})

test('a suppressed firing silences no group: it fires for the next agent', () => {
  const { fire } = flooded(perSession, (seq) => ({ session_id: `s${seq}` }))
  expect(fire(of(1_000, { session_id: 'shared' }))).toBe(0)
  expect(fire(of(1_001, { session_id: 'shared', instance_id: 'b' }))).toBe(1)
})

// Attack: a key for a prefix names another instance with every event, to fill the memory of the service.
test('budgets are bounded, those that were used least recently are dropped and counted', () => {
  const state = ruleStates.start(every)
  const bounds = { ...ruleBounds, instances: 10, firings: 1 }
  const fire = (seq: number, instance_id: string) =>
    step(every, state, of(seq, { instance_id }), new ValueMemory(), bounds).length
  for (let seq = 1; seq <= 12; seq += 1) fire(seq, `i${seq}`)
  expect(state.memory.evicted).toBe(2)
  expect([fire(13, 'i12'), fire(14, 'i3'), fire(15, 'i1')]).toEqual([0, 0, 1])
  expect(state.memory.evicted).toBe(3)
  fire(minuteMs, 'next')
  expect(state.memory.evicted).toBe(3)
})

/** `back`: seconds by which the clock may be set back. */
const logsOf = (back: number) =>
  fc
    .array(
      fc.record({
        instance_id: fc.constantFrom('a', 'a', 'b', null),
        by_service: fc.boolean(),
        session_id: fc.constantFrom('s1', 's2', 's3', 's4'),
        wait: fc.oneof(
          { weight: 9, arbitrary: fc.integer({ min: 0, max: 8 }) },
          { weight: 1, arbitrary: fc.integer({ min: -back, max: 70 }) },
        ),
      }),
      { maxLength: 60 },
    )
    .map((entries) => {
      let at = 0
      return entries.map(({ wait, ...row }, index) => {
        at += wait * 1_000
        return of(index + 1, { ...row, at })
      })
    })
const bounds = { ...ruleBounds, firings: 2 }
const logs = logsOf(70)
const rules = {
  every: { rule: every, logs },
  perSession: { rule: perSession, logs },
  // Without a window nothing is read again: a restart forgets that the clock was set back.
  cooled: { rule: compiled({ detection, cooldown: '5s' }), logs: logsOf(0) },
}

const reporterOf = ({ row }: RuleEvent) => JSON.stringify([row.by_service, row.instance_id])

/** What a process would read of the stored firings. */
function spentOf(firings: readonly Firing[], events: readonly RuleEvent[]) {
  const lastFiredAt = Math.max(...firings.map(({ time }) => time))
  if (firings.length === 0) return undefined
  const spent = new Map<string, SpentFirings>()
  for (const { seq, time } of firings) {
    if (time < startOf(lastFiredAt, minuteMs)) continue
    const { row } = events[seq - 1]!
    const key = reporterOf(events[seq - 1]!)
    const known = spent.get(key) ?? { instance_id: row.instance_id, by_service: row.by_service, firings: 0 }
    spent.set(key, { ...known, firings: known.firings + 1 })
  }
  return { lastFiredAt, firings: [...spent.values()] }
}

describe.each(Object.entries(rules))('of the rule %s', (name, { rule, logs }) => {
  test('budgets rebuilt from the stored firings give the firings of a state that ran through', () => {
    let suppressed = 0
    fc.assert(
      fc.property(logs, fc.nat(60), (events, cut) => {
        const through = ruleStates.start(rule)
        const all = events.map((event) => step(rule, through, event, new ValueMemory(), bounds))
        const stored = all.slice(0, cut).flat()
        const live = ruleStates.start(rule)
        for (const event of events.slice(0, cut)) step(rule, live, event, new ValueMemory(), bounds)
        suppressedOf(live)
        const rebuilt = ruleStates.start(rule)
        const first = events.findIndex(({ row }) => Date.parse(row.created_at) >= live.time - lookbackOf(rule))
        const reread = lookbackOf(rule) === 0 ? [] : events.slice(Math.max(0, first), cut)
        for (const event of reread) step(rule, rebuilt, event, new ValueMemory(), bounds)
        ruleStates.setSpent(rebuilt, spentOf(stored, events))
        if (rule.cooldown > 0) ruleStates.setFirings(rebuilt, storedFirings(stored, events))
        const take = (state: RuleState) =>
          events.slice(cut).flatMap((event) => step(rule, state, event, new ValueMemory(), bounds))
        expect(take(rebuilt).map(({ seq }) => seq)).toEqual(take(live).map(({ seq }) => seq))
        const count = suppressedOf(live)
        expect(suppressedOf(rebuilt)).toBe(count)
        suppressed += count
      }),
      { numRuns: effort(150, 50_000) },
    )
    expect(suppressed, name).toBeGreaterThan(0)
  })
})

test('the budget is that of the minute of the highest time so far, for each reporter', () => {
  fc.assert(
    fc.property(logs, (events) => {
      const state = ruleStates.start(every)
      const spent = new Map<string, number>()
      let time = 0
      for (const event of events) {
        time = Math.max(time, Date.parse(event.row.created_at))
        const key = `${startOf(time, minuteMs)} ${reporterOf(event)}`
        spent.set(key, (spent.get(key) ?? 0) + 1)
        expect(step(every, state, event, new ValueMemory(), bounds).length).toBe(
          spent.get(key)! > bounds.firings ? 0 : 1,
        )
      }
    }),
    { numRuns: effort(150, 50_000) },
  )
})
