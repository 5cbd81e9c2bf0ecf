import { type RuleCorrelation, ruleLimits } from '@wardline/contract'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { effort } from '../../../../../../test-servers/effort.ts'
import { compiled, epoch, faultsOf, logged, storedFirings } from '../../../testing/rules.ts'
import type { ValueHistory } from './correlation.ts'
import type { RuleEvent } from './fields.ts'
import type { CompiledRule } from './rule.ts'
import { type Firing, lookbackOf, ruleStates, step } from './rule-state.ts'
import { ValueMemory } from './value-memory.ts'

const detection = { x: { event_type: 'x' }, y: { event_type: 'y' }, z: { event_type: 'z' } }
const any = { ...detection, condition: '1 of them' }

function run(rule: CompiledRule, events: readonly RuleEvent[], history = new ValueMemory()): Firing[] {
  const state = ruleStates.start(rule)
  return events.flatMap((event) => step(rule, state, event, history))
}

/** A log: types, groups and values out of few, seconds between them, and sometimes a clock that goes back. */
const logs = (maxLength = 40) =>
  fc
    .array(
      fc.record({
        type: fc.constantFrom('x', 'y', 'z', 'other'),
        instance: fc.constantFrom('a', 'b', null),
        value: fc.constantFrom('1', '2', '3', undefined),
        wait: fc.oneof(
          { weight: 9, arbitrary: fc.integer({ min: 0, max: 4 }) },
          { weight: 1, arbitrary: fc.integer({ min: -5, max: 15 }) },
        ),
      }),
      { maxLength },
    )
    .map((entries) => {
      let at = 0
      return entries.map(({ type, instance, value, wait }, index) => {
        at += wait * 1_000
        return logged({
          seq: index + 1,
          at,
          event_type: type,
          instance_id: instance,
          metadata: value === undefined ? {} : { v: value },
        })
      })
    })

// The brute force: for each event it looks at all events before, and knows no state but when a group last fired.

interface Seen {
  type: string
  group: string
  value: unknown
  seq: number
  /** The highest time so far. */
  time: number
}

function seenOf(events: readonly RuleEvent[], relevant: readonly string[]): Seen[] {
  let time = Number.NEGATIVE_INFINITY
  return events.flatMap(({ row }) => {
    if (!relevant.includes(row.event_type)) return []
    time = Math.max(time, Date.parse(row.created_at) - epoch)
    return [{ type: row.event_type, group: row.instance_id ?? '', value: row.metadata?.v, seq: row.seq, time }]
  })
}

type Judge = (window: Seen[], event: Seen) => boolean

function bruteForce(
  events: readonly RuleEvent[],
  relevant: readonly string[],
  timespan: number,
  cooldown: number,
  judge: Judge,
): number[] {
  const all = seenOf(events, relevant)
  const firedAt = new Map<string, number>()
  return all.flatMap((event) => {
    if (event.group === '') return []
    const window = all.filter(
      (other) => other.group === event.group && other.seq <= event.seq && event.time - other.time <= timespan * 1_000,
    )
    const last = firedAt.get(event.group)
    if ((last !== undefined && event.time - last < cooldown * 1_000) || !judge(window, event)) return []
    firedAt.set(event.group, event.time)
    return [event.seq]
  })
}

const ordered = (types: readonly string[], window: Seen[], event: Seen): boolean => {
  if (event.type !== types.at(-1)) return false
  const reach = (left: readonly string[], before: number): boolean =>
    left.length === 0 ||
    window.some((other) => other.type === left.at(-1) && other.seq < before && reach(left.slice(0, -1), other.seq))
  return reach(types.slice(0, -1), event.seq)
}

const timespan = fc.integer({ min: 1, max: 15 })
const cooldown = fc.integer({ min: 1, max: 20 })
const correlated = (correlation: Partial<RuleCorrelation>, cooldownSeconds: number, rules = any as object) =>
  compiled({
    detection: rules,
    correlation: { 'group-by': ['instance_id'], ...correlation },
    cooldown: `${cooldownSeconds}s`,
  })
const seqs = (firings: Firing[]) => firings.map(({ seq }) => seq)
const runs = { numRuns: effort(150, 100_000) }

describe('a correlation fires where counting all events again says so:', () => {
  test('event_count holds with lower and upper bounds', () => {
    const bounds = fc.record({
      gte: fc.integer({ min: 1, max: 4 }),
      lte: fc.option(fc.integer({ min: 4, max: 6 }), { nil: undefined }),
    })
    fc.assert(
      fc.property(logs(), timespan, cooldown, bounds, (events, span, pause, { gte, lte }) => {
        const condition = { gte, ...(lte === undefined ? {} : { lte }) }
        const rule = correlated({ type: 'event_count', timespan: `${span}s`, condition }, pause)
        const judge: Judge = (window) => window.length >= gte && window.length <= (lte ?? Number.POSITIVE_INFINITY)
        expect(seqs(run(rule, events))).toEqual(bruteForce(events, ['x', 'y', 'z'], span, pause, judge))
      }),
      runs,
    )
  })

  test('value_count counts different values', () => {
    fc.assert(
      fc.property(logs(), timespan, cooldown, fc.integer({ min: 1, max: 3 }), (events, span, pause, gte) => {
        const rule = correlated(
          { type: 'value_count', timespan: `${span}s`, condition: { gte }, field: 'metadata.v' },
          pause,
        )
        // An event without the field is not counted, and so completes nothing.
        const judge: Judge = (window, { value }) => {
          const values = window.map((each) => each.value).filter((each) => each !== undefined)
          return value !== undefined && new Set(values).size >= gte
        }
        expect(seqs(run(rule, events))).toEqual(bruteForce(events, ['x', 'y', 'z'], span, pause, judge))
      }),
      runs,
    )
  })

  test.each([
    ['value_sum', (values: number[]) => values.reduce((sum, value) => sum + value, 0)],
    ['value_avg', (values: number[]) => values.reduce((sum, value) => sum + value, 0) / values.length],
    // The nearest rank.
    ['value_percentile', (values: number[]) => values.toSorted((a, b) => a - b)[Math.ceil(0.6 * values.length) - 1]!],
  ] as const)('%s compares the figure of all numbers of the window', (type, figureOf) => {
    const conditions = fc.record(
      { gte: fc.integer({ min: 1, max: 6 }), lt: fc.double({ min: 1, max: 9, noNaN: true }) },
      { requiredKeys: [] },
    )
    fc.assert(
      fc.property(logs(), timespan, cooldown, conditions, (logged, span, pause, { gte, lt }) => {
        // Numbers, and texts that look like numbers, which are none.
        const events = logged.map((event) => {
          const { v } = event.row.metadata ?? {}
          const metadata = v === undefined ? {} : { v: v === '3' ? v : 1.5 * Number(v) }
          return { ...event, row: { ...event.row, metadata } }
        })
        const condition = { ...(gte === undefined ? { lte: 5 } : { gte }), ...(lt === undefined ? {} : { lt }) }
        const more = type === 'value_percentile' ? { percentile: 60 } : {}
        const rule = correlated(
          { type, timespan: `${span}s`, field: 'metadata.v', condition: { ...condition, ...more } },
          pause,
        )
        const judge: Judge = (window, { value }) => {
          if (typeof value !== 'number') return false
          const figure = figureOf(window.map((each) => each.value).filter((each) => typeof each === 'number'))
          return (
            figure >= (gte ?? Number.NEGATIVE_INFINITY) &&
            figure <= (gte === undefined ? 5 : Number.POSITIVE_INFINITY) &&
            figure < (lt ?? Number.POSITIVE_INFINITY)
          )
        }
        expect(seqs(run(rule, events))).toEqual(bruteForce(events, ['x', 'y', 'z'], span, pause, judge))
      }),
      runs,
    )
  })

  test('temporal finds all rules in any order', () => {
    fc.assert(
      fc.property(logs(), timespan, cooldown, fc.option(fc.integer({ min: 1, max: 3 })), (events, span, pause, gte) => {
        const condition = gte === null ? {} : { condition: { gte } }
        const rule = correlated(
          { type: 'temporal', rules: ['x', 'y', 'z'], timespan: `${span}s`, ...condition },
          pause,
          detection,
        )
        const judge: Judge = (window) => new Set(window.map(({ type }) => type)).size >= (gte ?? 3)
        expect(seqs(run(rule, events))).toEqual(bruteForce(events, ['x', 'y', 'z'], span, pause, judge))
      }),
      runs,
    )
  })

  test('temporal_ordered finds the order, also where a rule stands twice', () => {
    const orders = fc.array(fc.constantFrom('x', 'y', 'z'), { minLength: 2, maxLength: 4 })
    fc.assert(
      fc.property(logs(), timespan, cooldown, orders, (events, span, pause, types) => {
        const used = Object.fromEntries(
          Object.entries(detection).filter(([name]) => (types as string[]).includes(name)),
        )
        const rule = correlated({ type: 'temporal_ordered', rules: types, timespan: `${span}s` }, pause, used)
        const judge: Judge = (window, event) => ordered(types, window, event)
        expect(seqs(run(rule, events))).toEqual(bruteForce(events, types, span, pause, judge))
      }),
      runs,
    )
  })

  test('new_value compares with all that the group showed', () => {
    fc.assert(
      fc.property(logs(), timespan, cooldown, fc.integer({ min: 1, max: 20 }), (events, span, pause, learning) => {
        const rule = correlated(
          { type: 'new_value', timespan: `${span}s`, field: 'metadata.v', learning: `${learning}s` },
          pause,
        )
        const all = seenOf(events, ['x', 'y', 'z']).filter(({ value }) => value !== undefined)
        const judge: Judge = (_window, event) => {
          const before = all.filter(({ group, seq }) => group === event.group && seq < event.seq)
          const isKnown = before.length > 0 && event.time - before[0]!.time >= learning * 1_000
          const isRecent = before.some(({ value, time }) => value === event.value && event.time - time <= span * 1_000)
          return event.value !== undefined && isKnown && !isRecent
        }
        expect(seqs(run(rule, events))).toEqual(bruteForce(events, ['x', 'y', 'z'], span, pause, judge))
      }),
      runs,
    )
  })
})

/** Firings by counting all events again, for rules whose events are judged when their timespan has passed. */
function lateFirings(
  events: readonly RuleEvent[],
  spanSeconds: number,
  cooldownSeconds: number,
  isMet: (count: number) => boolean,
): number[] {
  const all = seenOf(events, ['x', 'y', 'z', 'other'])
  const counted = all.filter(({ type, group }) => type !== 'other' && group !== '')
  const span = spanSeconds * 1_000
  const firedAt = new Map<string, number>()
  return counted.flatMap(({ seq, time, group }) => {
    const hasEnded = all.some((other) => other.time - time > span)
    const since = counted.filter((other) => other.group === group && other.seq >= seq && other.time - time <= span)
    const last = firedAt.get(group)
    const isQuiet = last !== undefined && time + span - last < cooldownSeconds * 1_000
    if (!hasEnded || isQuiet || !isMet(since.length)) return []
    firedAt.set(group, time + span)
    return [seq]
  })
}

describe('a correlation about what is missing fires where looking at all events again says so:', () => {
  test('event_count with an upper bound alone, once the timespan has passed', () => {
    const bounds = fc.record({
      lt: fc.integer({ min: 2, max: 5 }),
      neq: fc.option(fc.integer({ min: 1, max: 3 }), { nil: undefined }),
    })
    fc.assert(
      fc.property(logs(), timespan, cooldown, bounds, (events, span, pause, { lt, neq }) => {
        const condition = { lt, ...(neq === undefined ? {} : { neq }) }
        const rule = correlated({ type: 'event_count', timespan: `${span}s`, condition }, pause)
        const expected = lateFirings(events, span, pause, (count) => count < lt && count !== neq)
        expect(seqs(run(rule, events))).toEqual(expected)
      }),
      runs,
    )
  })

  test('not_preceded, from the time on that the rule has seen the whole timespan before', () => {
    fc.assert(
      fc.property(logs(), timespan, cooldown, (events, span, pause) => {
        const rule = correlated(
          { type: 'not_preceded', rules: ['x or z', 'y or z'], timespan: `${span}s` },
          pause,
          detection,
        )
        const since = Date.parse(events[0]?.row.created_at ?? '') - epoch
        const timed = seenOf(events, ['x', 'y', 'z', 'other'])
        const timeOf = new Map(timed.map(({ seq, time }) => [seq, time]))
        const judge: Judge = (window, { type, seq, time }) =>
          type !== 'y' && time - span * 1_000 >= since && !window.some((other) => other.type !== 'x' && other.seq < seq)
        // Time is that of all events.
        const shifted = events.map((event) => ({
          ...event,
          row: { ...event.row, created_at: new Date(epoch + timeOf.get(event.row.seq)!).toISOString() },
        }))
        expect(seqs(run(rule, events))).toEqual(bruteForce(shifted, ['x', 'y', 'z'], span, pause, judge))
      }),
      runs,
    )
  })

  test('neq leaves out a count', () => {
    fc.assert(
      fc.property(logs(), timespan, cooldown, fc.integer({ min: 1, max: 5 }), (events, span, pause, neq) => {
        const rule = correlated({ type: 'event_count', timespan: `${span}s`, condition: { gte: 2, neq } }, pause)
        const judge: Judge = ({ length }) => length >= 2 && length !== neq
        expect(seqs(run(rule, events))).toEqual(bruteForce(events, ['x', 'y', 'z'], span, pause, judge))
      }),
      runs,
    )
  })
})

test('a value may be found in other fields of other events by an alias', () => {
  const rule = correlated(
    {
      type: 'temporal_ordered',
      rules: ['x', 'y'],
      'group-by': ['ip'],
      aliases: { ip: { x: 'metadata.source', y: 'metadata.target' } },
      timespan: '1m',
    },
    1,
    { x: { 'metadata.source|exists': true }, y: { 'metadata.target|exists': true } },
  )
  const events = [
    { source: 'a' },
    { target: 'b' },
    { target: 'a' },
    // An event of two groups: it ends the sequence of one, and begins that of the other.
    { source: 'c', target: 'a' },
    { target: 'c' },
    // As the second rule alone, after itself: an event counts once.
    { source: 'd', target: 'd' },
  ].map((metadata, index) => logged({ seq: index + 1, at: index * 2_000, event_type: 'x', metadata }))
  expect(run(rule, events).map(({ group, seq, events }) => [group, seq, events])).toEqual([
    ['["a"]', 3, [1, 3]],
    ['["a"]', 4, [1, 4]],
    ['["c"]', 5, [4, 5]],
  ])
})

test('one event that ends thousands of windows makes a bounded number of firings, and counts the others', () => {
  const rule = correlated({ type: 'event_count', timespan: '1m', condition: { lt: 2 } }, 60)
  const count = ruleLimits.endedWindows + 100
  const events = Array.from({ length: count }, (_, index) =>
    logged({ seq: index + 1, event_type: 'x', instance_id: `a${index}` }),
  )
  const state = ruleStates.start(rule)
  const take = (event: RuleEvent) => step(rule, state, event, new ValueMemory())
  expect(events.flatMap(take)).toEqual([])
  const last = logged({ seq: count + 1, at: 60_001, event_type: 'other' })
  expect(take(last)).toHaveLength(ruleLimits.endedWindows)
  expect(state.budget.takeSuppressed().reduce((sum, [, each]) => sum + each, 0)).toBe(100)
})

/** Rules of every type, one within another. */
const ruleKinds: Record<string, CompiledRule> = {
  plain: compiled({ detection: any, cooldown: '7s' }),
  event_count: correlated({ type: 'event_count', timespan: '9s', condition: { gte: 3 } }, 4),
  value_count: correlated({ type: 'value_count', timespan: '9s', condition: { gte: 2 }, field: 'metadata.v' }, 4),
  temporal: correlated({ type: 'temporal', timespan: '6s', rules: ['x', 'y', 'z'] }, 4, detection),
  temporal_ordered: correlated({ type: 'temporal_ordered', timespan: '9s', rules: ['x', 'y', 'z'] }, 4, detection),
  value_sum: correlated({ type: 'value_sum', timespan: '9s', condition: { gte: 3 }, field: 'hour' }, 4),
  value_percentile: correlated(
    { type: 'value_percentile', timespan: '9s', condition: { percentile: 50, lt: 20 }, field: 'hour' },
    4,
  ),
  late: correlated({ type: 'event_count', timespan: '9s', condition: { lt: 3 } }, 4),
  not_preceded: correlated({ type: 'not_preceded', timespan: '6s', rules: ['x', 'y or z'] }, 4, detection),
  aliases: correlated(
    {
      type: 'temporal',
      timespan: '9s',
      rules: ['x', 'y', 'z'],
      'group-by': ['name'],
      aliases: { name: { x: 'metadata.v', y: 'metadata.v', z: 'instance_id' } },
      condition: { gte: 2 },
    },
    4,
    detection,
  ),
  new_value: correlated({ type: 'new_value', timespan: '5s', field: 'metadata.v', learning: '3s' }, 4),
  chain: correlated(
    {
      type: 'temporal_ordered',
      timespan: '12s',
      rules: [
        {
          correlation: {
            type: 'event_count',
            rules: ['x or z'],
            'group-by': ['instance_id'],
            timespan: '6s',
            condition: { gte: 2 },
          },
        },
        'y',
      ],
    },
    4,
    detection,
  ),
}

describe.each(Object.entries(ruleKinds))('the state of a rule of type %s', (_name, rule) => {
  test('rebuilt from a window of the log and the stored firings gives the firings of one that ran through', () => {
    fc.assert(
      fc.property(logs(), fc.nat(40), (events, cut) => {
        const through = run(rule, events)
        // What groups showed before is stored as well, not read from the log.
        const history = new ValueMemory()
        const live = ruleStates.start(rule)
        const stored = events.slice(0, cut).flatMap((event) => step(rule, live, event, history))
        const ignored: ValueHistory = { look: () => ({}), note: () => undefined }
        const rebuilt = { ...ruleStates.start(rule), since: live.since }
        const from = live.time - lookbackOf(rule)
        // From the first event of the window on: a later one whose clock went back counts as of the time before it.
        const first = events.findIndex(({ row }) => Date.parse(row.created_at) >= from)
        for (const event of events.slice(Math.max(0, first), cut)) step(rule, rebuilt, event, ignored)
        ruleStates.setFirings(rebuilt, storedFirings(stored, events))
        const after = events.slice(cut).flatMap((event) => step(rule, rebuilt, event, history))
        expect(after).toEqual(through.slice(stored.length))
      }),
      runs,
    )
  })
})

test('a firing names its group, its events and their number', () => {
  const rule = correlated({ type: 'event_count', timespan: '10s', condition: { gt: 2 } }, 10)
  const events = [1, 2, 3, 4].map((seq) => logged({ seq, at: seq * 1_000, event_type: 'x', instance_id: 'a' }))
  expect(run(rule, events)).toEqual([
    {
      group: '["a"]',
      time: epoch + 3_000,
      seq: 3,
      event: events[2]!.row,
      events: [1, 2, 3],
      count: 3,
      ofOneInstance: true,
    },
  ])
})

test('an event by a group without the field is not counted; without group-by all events are one group', () => {
  const count = { type: 'event_count', timespan: '10s', condition: { gte: 2 } } as const
  const events = ['a', null, 'b', null].map((instance, index) =>
    logged({ seq: index + 1, event_type: 'x', instance_id: instance }),
  )
  expect(run(compiled({ detection: any, correlation: { ...count, 'group-by': ['instance_id'] } }), events)).toEqual([])
  expect(seqs(run(compiled({ detection: any, correlation: count }), events))).toEqual([2, 3])
})

test('a long value is kept as its digest, and still tells groups apart', () => {
  const rule = compiled({
    detection: any,
    correlation: { type: 'event_count', 'group-by': ['metadata.v'], timespan: '10s', condition: { gte: 2 } },
  })
  const log = ['a', 'b', 'a'].map((last, index) =>
    logged({ seq: index + 1, event_type: 'x', metadata: { v: 'v'.repeat(10_000) + last } }),
  )
  const firings = run(rule, log)
  expect(seqs(firings)).toEqual([3])
  expect(firings[0]!.group.length).toBeLessThan(100)
})

// Attack: an agent that changes the field by which a rule groups with every event, to fill the service's memory.
describe('what a rule keeps is bounded:', () => {
  const rule = compiled({
    detection: any,
    correlation: { type: 'event_count', 'group-by': ['metadata.v'], timespan: '90d', condition: { gte: 3 } },
  })
  const of = (seq: number, v: string) => logged({ seq, at: seq, event_type: 'x', metadata: { v } })

  test('bytes, the groups used longest ago are dropped and counted', () => {
    const state = ruleStates.start(rule, 200_000)
    const history = new ValueMemory()
    let seq = 0
    const next = (name: string) => {
      seq += 1
      return step(rule, state, of(seq, name), history).length
    }
    for (let group = 0; group < 1_000; group += 1) next(`g${group}`)
    const { size } = state.root.groups
    expect(size).toBeGreaterThan(400)
    expect(state.memory.bytes).toBeLessThanOrEqual(200_000)
    expect(state.memory.evicted).toBe(1_000 - size)
    // The newest groups are as they were, the oldest begin again.
    expect([next('g999'), next('g999')]).toEqual([0, 1])
    expect([next('g0'), next('g0')]).toEqual([0, 0])
  })

  test('marks of all groups together', () => {
    const many = compiled({
      detection: any,
      correlation: { type: 'event_count', 'group-by': ['metadata.v'], timespan: '90d', condition: { gte: 10_000 } },
    })
    const state = ruleStates.start(many, 50_000)
    for (let seq = 1; seq <= 30_000; seq += 1) step(many, state, of(seq, `g${seq % 30}`), new ValueMemory())
    expect(state.memory.bytes).toBeLessThanOrEqual(50_000)
    expect(state.memory.evicted).toBeGreaterThan(0)
  })

  test('groups whose window has passed go without being counted', () => {
    const short = compiled({
      detection: any,
      correlation: { type: 'event_count', 'group-by': ['metadata.v'], timespan: '1s', condition: { gte: 3 } },
    })
    const state = ruleStates.start(short)
    for (let seq = 1; seq <= 10_000; seq += 1) step(short, state, of(seq, `g${seq}`), new ValueMemory())
    expect(state.root.groups.size).toBeLessThanOrEqual(1_001)
    expect(state.memory.evicted).toBe(0)
  })

  test('correlations within a rule share its bounds', () => {
    const inner = {
      correlation: {
        type: 'event_count',
        rules: ['x'],
        'group-by': ['metadata.v'],
        timespan: '1d',
        condition: { gte: 2 },
      },
    }
    const nested = compiled({
      detection,
      correlation: { type: 'temporal', rules: [inner, 'y or z'], 'group-by': ['metadata.v'], timespan: '1d' },
    })
    const state = ruleStates.start(nested, 100_000)
    for (let seq = 1; seq <= 500; seq += 1) {
      step(nested, state, logged({ seq, at: seq, event_type: 'x', metadata: { v: `g${seq}` } }), new ValueMemory())
      step(nested, state, logged({ seq, at: seq, event_type: 'y', metadata: { v: `g${seq}` } }), new ValueMemory())
    }
    expect(state.memory.bytes).toBeLessThanOrEqual(100_000)
    for (const { size } of [state.root.groups, state.root.inner[0]!.groups]) expect(size).toBeGreaterThan(50)
  })

  test('values per agent: those that a flooding agent showed longest ago go, and its group stays known', () => {
    const history = new ValueMemory({ bytes: 280_000, instanceBytes: 50 * 220 + 600 })
    history.note('others', 'v', { reporter: 'b', time: 0 })
    for (let time = 0; time < 100; time += 1) history.note('own', `v${time}`, { reporter: 'a', time })
    const known = Array.from({ length: 100 }, (_, time) => history.look('own', `v${time}`).valueSeen)
    const kept = known.filter((seen) => seen !== undefined).length
    expect(kept).toBeGreaterThanOrEqual(49)
    expect(kept).toBeLessThanOrEqual(51)
    expect(known.slice(-kept).every((seen) => seen !== undefined)).toBe(true)
    expect(history.memory.evicted).toBe(100 - kept)
    expect(history.look('own', 'v5')).toEqual({ groupSince: 0, valueSeen: undefined })
    expect(history.look('others', 'v')).toEqual({ groupSince: 0, valueSeen: 0 })
    expect([...history.memory.evictedBy]).toEqual([['a', 100 - kept]])
  })

  test('values of all agents: those of the agent with the most go first, also from a group that agents share', () => {
    const history = new ValueMemory({ bytes: 56_000, instanceBytes: 53_000 })
    for (let time = 0; time < 10; time += 1) history.note('shared', `b${time}`, { reporter: 'b', time })
    for (let time = 0; time < 500; time += 1) {
      const group = time % 2 === 0 ? 'shared' : `made-up-${time}`
      history.note(group, `a${time}`, { reporter: 'a', time })
      // An agent that repeats a value of another does not take it over.
      history.note('shared', 'b3', { reporter: 'a', time })
    }
    for (let time = 0; time < 10; time += 1) expect(history.look('shared', `b${time}`).valueSeen).toBeDefined()
    expect(history.memory.evicted).toBeGreaterThan(0)
    expect([...history.memory.evictedBy.keys()]).toEqual(['a'])
  })

  // Attack: an agent shows a value before others do, and makes the service forget it with a flood of made-up values.
  test('a value that another agent showed as well is not forgotten by a flood of the agent that showed it first', () => {
    const history = new ValueMemory({ bytes: 280_000, instanceBytes: 14_000 })
    history.note('g', 'usual', { reporter: 'a', time: 0 })
    history.note('g', 'usual', { reporter: 'b', time: 1 })
    for (let time = 2; time < 500; time += 1) history.note('g', `made-up-${time}`, { reporter: 'a', time })
    expect(history.look('g', 'usual').valueSeen).toBe(1)
  })

  test('values of an event that are stored; repeated events store all of a longer list', () => {
    const rule = compiled({
      detection: any,
      correlation: { type: 'new_value', field: 'metadata.v', timespan: '30d', learning: '1s' },
      cooldown: '1s',
    })
    const list = Array.from({ length: 250 }, (_, index) => `v${index}`)
    const history = new ValueMemory()
    const of = (seq: number, v: string[]) => logged({ seq, at: seq * 2_000, event_type: 'x', metadata: { v } })
    const events = [of(1, list), of(2, list), of(3, list), of(4, list), of(5, [...list, 'new']), of(6, list)]
    // The second and third event store what the first left out, which is new until then.
    expect(seqs(run(rule, events, history))).toEqual([2, 3, 5])
    expect([...list, 'new'].every((v) => history.look('0:[]', JSON.stringify([v])).valueSeen !== undefined)).toBe(true)
  })
})

describe('a correlation that means nothing is refused:', () => {
  const text = (correlation: object) =>
    JSON.stringify({
      title: 'x',
      severity: 'info',
      detection: { a: { event_type: 'x' }, condition: 'a' },
      correlation: { timespan: '5m', ...correlation },
    })
  test.each([
    [{ type: 'event_count' }, 'The condition needs a bound'],
    [{ type: 'value_count', field: 'source', condition: { lt: 5 } }, 'The condition needs a lower bound'],
    [{ type: 'event_count', condition: { lt: 1 } }, 'No count meets this condition'],
    [{ type: 'event_count', condition: { gte: 5, lt: 5 } }, 'No count meets this condition'],
    [{ type: 'event_count', condition: { neq: 5 } }, 'With neq alone the count passes every other number'],
    [{ type: 'not_preceded', rules: ['a'] }, 'needs rules, at least two'],
    [{ type: 'not_preceded', rules: ['a', 'a', 'a'] }, 'has two rules'],
    [{ type: 'not_preceded', rules: ['a', 'a'], condition: { gte: 1 } }, 'has no condition'],
    [
      { type: 'event_count', condition: { gte: 5 }, 'group-by': ['ip'], aliases: { ip: { a: 'source' } } },
      'aliases is for correlations with rules',
    ],
    [
      { type: 'temporal', rules: ['a', 'not a'], 'group-by': ['ip'], aliases: { ip: { a: 'source' } } },
      'The alias ip needs a field for each rule, and has none for the rule not a.',
    ],
    [
      { type: 'temporal', rules: ['a', 'not a'], 'group-by': ['ip'], aliases: { ip: { a: 'source', b: 'tool' } } },
      'b is none of the rules of this correlation.',
    ],
    [
      { type: 'temporal', rules: ['a', 'not a'], aliases: { ip: { a: 'source', 'not a': 'tool' } } },
      'The alias ip is not in group-by.',
    ],
    [
      { type: 'temporal', rules: ['a', 'not a'], 'group-by': ['x'], aliases: { x: { a: 'source', 'not a': 'no' } } },
      'Events have no field no',
    ],
    [{ type: 'event_count', condition: { gte: 10_001 } }, 'whole numbers from 0 to 10000'],
    [{ type: 'event_count', condition: { gte: 5 }, timespan: '91d' }, '91d is too long'],
    [{ type: 'event_count', condition: { gte: 5 }, timespan: '5' }, 'must be a whole number followed by s, m, h or d'],
    [{ type: 'event_count', condition: { gte: 5 }, field: 'source' }, 'has no field'],
    [{ type: 'event_count', condition: { gte: 5 }, 'group-by': ['User'] }, 'Events have no field User'],
    [{ type: 'event_count', condition: { gte: 5 }, 'group-by': ['tags'] }, 'cannot be grouped by tags'],
    [{ type: 'value_count', condition: { gte: 5 } }, 'needs field'],
    [
      { type: 'value_median' as never, condition: { gte: 5 }, field: 'source' },
      'correlation.type must be event_count, value_count',
    ],
    [{ type: 'temporal' }, 'needs rules, at least two'],
    [{ type: 'temporal', rules: ['a', 'b'] }, 'The condition names the selection b, which is missing.'],
    [{ type: 'temporal', rules: ['a', 'a'], condition: { gte: 3 } }, 'counts rules, of which there are 2'],
    [{ type: 'temporal_ordered', rules: ['a', 'a'], condition: { gte: 2 } }, 'has no condition'],
    [
      {
        type: 'temporal',
        rules: ['a', { correlation: { type: 'event_count', timespan: '5m', condition: { lt: 3 } } }],
      },
      'The condition needs a lower bound of at least 1 within another correlation',
    ],
    [{ type: 'temporal', rules: ['a', { other: 1 }] }, 'a map with correlation alone'],
    [{ type: 'event_count', condition: { gte: 5 }, learning: '1d' }, 'learning is only for new_value'],
  ])('%j', (correlation, expected) => {
    expect(faultsOf(text(correlation)).join('\n')).toContain(expected)
  })

  test('correlations within correlations beyond three levels', () => {
    const within = (levels: number): object => ({
      type: 'event_count',
      timespan: '5m',
      condition: { gte: 1 },
      ...(levels > 1 && { rules: [{ correlation: within(levels - 1) }] }),
    })
    expect(faultsOf(text(within(3)))).toEqual([])
    expect(faultsOf(text(within(4))).join()).toContain('at most 3 levels deep')
  })
})

test('figures keep the newest numbers of a group, and need a condition that fits', () => {
  const events = Array.from({ length: ruleLimits.figures + 5 }, (_, at) =>
    logged({ seq: at + 1, at, event_type: 'x', instance_id: 'a', metadata: { v: at < 5 ? 1_000_000 : 1 } }),
  )
  const rule = correlated(
    { type: 'value_sum', timespan: '1d', field: 'metadata.v', condition: { eq: ruleLimits.figures } },
    1,
  )
  const [firing] = run(rule, events)
  expect(firing).toMatchObject({ seq: ruleLimits.figures + 5, count: ruleLimits.figures })
  expect(firing!.events).toHaveLength(100)
  const faults = (correlation: Partial<RuleCorrelation>) =>
    faultsOf(
      JSON.stringify({
        title: 'x',
        severity: 'info',
        detection: any,
        correlation: { type: 'value_sum', timespan: '1m', field: 'metadata.v', ...correlation },
      }),
    )[0]
  expect(faults({})).toMatch(/value_sum needs a condition, such as gt: 1000\.$/)
  expect(faults({ condition: { lt: 5 } })).toBeUndefined()
  expect(faults({ condition: { gt: 5, percentile: 5 } })).toMatch(/percentile is only for value_percentile\.$/)
  expect(faults({ type: 'value_percentile', condition: { gt: 5 } })).toMatch(/needs percentile in its condition/)
  expect(faults({ condition: { gt: 5 }, field: ['metadata.v', 'tool'] })).toMatch(/value_sum has one field\.$/)
  expect(faults({ type: 'event_count', condition: { gt: 1.5 } })).toMatch(/whole numbers from 0 to/)
})
