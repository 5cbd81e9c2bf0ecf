import { limits, ruleLimits } from '@wardline/contract'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { effort } from '../../../../../../test-servers/effort.ts'
import { compiled, logged } from '../../../testing/rules.ts'
import { sliceUnits, WorkBudget } from '../../../work-turns.ts'
import { costFault, noCost, unitsOf } from './cost.ts'
import type { RuleEvent } from './fields.ts'
import type { CompiledRule } from './rule.ts'
import { RuleSet, stepInSlices } from './rule-set.ts'
import { ruleStates, step } from './rule-state.ts'
import { ValueMemory } from './value-memory.ts'

const running = (rules: readonly CompiledRule[]) =>
  rules.map((rule) => ({ compiled: rule, state: ruleStates.start(rule), history: new ValueMemory() }))

const many = <Item>(count: number, item: (index: number) => Item): Item[] =>
  Array.from({ length: count }, (_, index) => item(index))

/** A rule within all limits that costs some 10 ms for a text of `a`. */
const heavy = (index: number, more: object = {}) =>
  compiled({
    detection: {
      text: { 'metadata.a|contains': many(480, (value) => `aaaaa${index}-${value}`) },
      pattern: { 'metadata.a|re': many(18, (value) => `[ab]+${index}x${value}`) },
      condition: 'text or pattern',
    },
    ...more,
  })

class CountingBudget extends WorkBudget {
  largest = 0
  #since = 0
  constructor() {
    super(Number.POSITIVE_INFINITY)
  }
  override count(units: number): void {
    super.count(units)
    this.#since += units
    this.largest = Math.max(this.largest, this.#since)
  }
  override isSliceOver(): boolean {
    const isOver = super.isSliceOver()
    if (isOver) this.#since = 0
    return isOver
  }
}

// Attack: rules within all limits, and an agent that reports the text for which they cost most.
test('an event goes through many costly rules in slices', () => {
  const set = new RuleSet(running(many(41, (index) => heavy(index))))
  const event = logged({ metadata: { a: 'a'.repeat(limits.metadataBytes - 20) } })
  const work = new CountingBudget()
  let slices = 1
  for (const steps = set.takeInSlices(event, work); steps.next().done !== true; ) slices += 1
  const largestTest = unitsOf({ ...noCost, passes: 200 }, limits.metadataBytes)
  expect(work.largest).toBeLessThan(sliceUnits + largestTest)
  expect(slices).toBeGreaterThan(41)
})

test('an event goes in slices through many selections of a rule, each of which costs little', () => {
  const part = (index: number) => ({ 'metadata.a|contains': many(9, (value) => `aaaaaa${index}-${value}`) })
  const detection = { one: many(25, part), two: many(25, (index) => part(25 + index)) }
  for (const condition of ['one or two', 'not one and not two', 'not (one or two)']) {
    const set = new RuleSet(running([compiled({ detection: { ...detection, condition } })]))
    const work = new CountingBudget()
    const event = logged({ metadata: { a: 'a'.repeat(limits.metadataBytes - 20) } })
    for (const steps = set.takeInSlices(event, work); steps.next().done !== true; );
    expect(work.spent).toBeGreaterThan(6 * sliceUnits)
    expect(work.largest).toBeLessThan(1.2 * sliceUnits)
  }
})

/** A rule that looks for many fields in the elements of a list. */
const deep = (rule: number, fields: number) =>
  compiled({
    detection: {
      ...Object.fromEntries(
        many(Math.ceil(fields / 40), (part) => [
          `s${part}`,
          many(Math.min(40, fields - 40 * part), (index) => ({ [`metadata.a.r${rule}x${part}_${index}`]: 1 })),
        ]),
      ),
      condition: '1 of s*',
    },
  })

// Attack: rules that name thousands of fields, and an agent that reports a list of thousands of maps. Each field is found
// by a walk through the list, which counted as nothing: such a rule held the event loop for 600 ms.
test('an event goes in slices through rules that look for many fields in lists', () => {
  const event = () => logged({ metadata: { a: many(5_400, () => ({})) } })
  for (const rules of [[deep(0, 1_000)], many(100, (index) => deep(index + 1, 8))]) {
    const set = new RuleSet(running(rules))
    const work = new CountingBudget()
    let slices = 1
    for (const steps = set.takeInSlices(event(), work); steps.next().done !== true; ) slices += 1
    expect(slices).toBeGreaterThan(100)
    expect(work.largest).toBeLessThan(4 * sliceUnits)
  }
})

// Attack: both counted as nothing, and an agent reports lists that are long and alike.
test.each<[string, (index: number) => object]>([
  ['comparisons of fields', (index: number) => ({ 'metadata.a|fieldref': `metadata.b${index}` })],
  [
    'parts of dates',
    (index: number) => ({ [`metadata.b${index % 8}|${['hour', 'day', 'week', 'month', 'year'][index % 5]}`]: 99 }),
  ],
])('an event goes in slices through %s', (_, selection) => {
  const detection = { one: many(40, selection), condition: 'one' }
  const zones = ['UTC', 'Europe/Berlin', 'Asia/Kolkata']
  const set = new RuleSet(running(zones.map((timezone) => compiled({ detection, timezone }))))
  const lists = Object.fromEntries(many(40, (index) => [`b${index}`, many(50, () => '2026-01-05T02:30:00Z')]))
  const work = new CountingBudget()
  const event = logged({ metadata: { a: many(3_000, String), ...lists } })
  let slices = 1
  for (const steps = set.takeInSlices(event, work); steps.next().done !== true; ) slices += 1
  expect(slices).toBeGreaterThan(4)
  expect(work.largest).toBeLessThan(2 * sliceUnits)
})

test('an earlier event goes in slices through many rules that each look for a few fields in lists', () => {
  const event = logged({ metadata: { a: many(5_400, () => ({})) } })
  const work = new CountingBudget()
  const slices = running(many(100, (index) => deep(200 + index, 3))).flatMap((rule) => [
    ...stepInSlices(rule, event, work),
  ])
  expect(slices.length).toBeGreaterThan(40)
  expect(work.largest).toBeLessThan(3 * sliceUnits)
})

test('a few fields in lists cost a rule nothing, and many more than all rules may cost', () => {
  expect(deep(0, 20).cost).toBe(0)
  expect(costFault(deep(0, 21).cost, 0)).toBeUndefined()
  expect(costFault(deep(0, 200).cost, 0)).toMatch(/fewer fields/)
})

test('rules with thousands of tests, each of a few KiB of memory, cost more than all rules may', () => {
  const tests = (count: number) =>
    compiled({
      detection: {
        ...Object.fromEntries(
          many(count / 50, (part) => [`s${part}`, many(50, (index) => ({ [`metadata.a${index}`]: part }))]),
        ),
        condition: '1 of s*',
      },
    }).cost
  expect(tests(100)).toBe(0)
  expect(costFault(tests(1_000), tests(1_000))).toBeUndefined()
  expect(costFault(tests(1_000), 2 * tests(1_000))).toBeDefined()
})

test('an earlier event goes through a costly rule in slices when its state is rebuilt', () => {
  const [rule] = running([heavy(1)])
  const event = logged({ metadata: { a: 'a'.repeat(limits.metadataBytes - 20) } })
  expect([...stepInSlices(rule!, event, new WorkBudget(Number.POSITIVE_INFINITY))].length).toBeGreaterThan(4)
})

const word = fc.constantFrom('aab', 'b', 'xyz', '10.1.2.3', 'Needle', '7')
const value = fc.oneof(
  fc.array(word, { maxLength: 40 }).map((words) => words.join('-').repeat(60)),
  fc.array(fc.oneof(word, fc.integer({ min: 0, max: 9 }), fc.constant(null), fc.array(word)), { maxLength: 30 }),
  fc.constantFrom<unknown>(undefined, null, 7, 'needle', { b: 'aab' }),
)
const needles = (end: string) => [...many(30, (index) => `q${index}z`), end]
const selection = fc.record(
  {
    'metadata.a|contains': word.map(needles),
    'metadata.b|contains|all': fc.array(word, { minLength: 2, maxLength: 3 }),
    'metadata.a|re': fc.constantFrom(['[ab]{3}', 'q+z'], 'n.*e'),
    'metadata.b': fc.constantFrom(['needle', '7'], '*a?b*', ['x*', '*3']),
    'metadata.b|all': fc.constant(['7', 'needle']),
    'metadata.a|gte': fc.constant(5),
    'metadata.b|lt': fc.constant(3),
    'metadata.b|cidr': fc.constantFrom(['10.0.0.0/8', '192.0.2.0/24'], '10.1.2.0/24'),
  },
  { requiredKeys: [] },
)
const selections = selection.filter((fields) => Object.keys(fields).length > 0)
const rules = fc.array(
  fc
    .record({
      one: selections,
      two: selections,
      condition: fc.constantFrom('one and not two', 'one or two', 'not one or two', '1 of them'),
      correlation: fc.constantFrom(
        {},
        { correlation: { type: 'event_count', 'group-by': ['instance_id'], timespan: '10s', condition: { gte: 2 } } },
        { correlation: { type: 'new_value', field: 'metadata.b', timespan: '10s', learning: '1s' } },
      ),
    })
    .map(({ one, two, condition, correlation }) =>
      compiled({ detection: { one: structuredClone(one), two: structuredClone(two), condition }, ...correlation }),
    ),
  { minLength: 1, maxLength: 5 },
)
const logs = fc
  .array(fc.record({ a: value, b: value, instance_id: fc.constantFrom('a', 'b') }), { maxLength: 12 })
  .map((rows) =>
    rows.map(({ a, b, instance_id }, index) =>
      logged({ seq: index + 1, at: index * 3_000, instance_id, metadata: { a, b } }),
    ),
  )

/** Yields at every place where it may. */
class ImpatientBudget extends WorkBudget {
  constructor() {
    super(Number.POSITIVE_INFINITY)
  }
  override get isDue(): boolean {
    return true
  }
}

test('rules find in slices what each finds at once, while other rules read other events in between', () => {
  let fired = 0
  fc.assert(
    fc.property(rules, logs, (each, log) => {
      // Twice: rules share the answers to equal selections.
      const list = [...each, ...each]
      const members = running(list)
      const set = new RuleSet(members)
      const between = new RuleSet(running(list))
      const replayed = running(list)
      const alone = running(list)
      const work = new ImpatientBudget()
      const other = { ...logged({ metadata: { a: ['aab', 7], b: 'xyz' } }) }
      for (const event of log) {
        const steps = set.takeInSlices(event, work)
        let found = steps.next()
        for (; found.done !== true; found = steps.next()) between.take(other)
        const copy = (): RuleEvent => ({ ...event })
        const expected = alone.flatMap(({ compiled: rule, state, history }, index) =>
          step(rule, state, copy(), history).map((firing) => ({ index, firing })),
        )
        expect(found.value.map(({ running, firing }) => ({ index: members.indexOf(running), firing }))).toEqual(
          expected,
        )
        const again = replayed.flatMap((each, index) => {
          const parts = stepInSlices(each, copy(), work)
          let part = parts.next()
          while (part.done !== true) part = parts.next()
          return part.value.map((firing) => ({ index, firing }))
        })
        expect(again).toEqual(expected)
        fired += expected.length
      }
    }),
    { numRuns: effort(100, 30_000) },
  )
  expect(fired).toBeGreaterThan(30)
})

test('no event costs a rule more than its stated cost', () => {
  const ended = (text: string) => text.slice(0, limits.metadataBytes - 20)
  const texts = [
    'a'.repeat(limits.metadataBytes - 20),
    many(1_000, (index) => ended('abcdefghijklmnop'.slice(index % 16)))
      .join('')
      .slice(0, limits.metadataBytes - 20),
  ]
  const lists = [
    many(3_200, (index) => index + 1_000),
    many(3_000, (index) => String(index % 10)),
    many(1_600, () => '10.2.3.4'),
  ]
  const values = ['new_value', 'value_count'].map((type) => ({
    correlation: {
      type,
      field: 'metadata.a',
      timespan: '1d',
      ...(type === 'new_value' ? {} : { condition: { gte: 9 } }),
    },
  }))
  const described = [
    heavy(1),
    ...values.map((each) => compiled({ detection: { one: { 'metadata.a|exists': true }, condition: 'one' }, ...each })),
    compiled({
      detection: {
        one: { 'metadata.a|cidr': many(900, (index) => `10.${index % 250}.${index >> 8}.0/24`) },
        condition: 'one',
      },
    }),
    compiled({ detection: { one: { 'description|re': many(18, (index) => `[a-z]+${index}`) }, condition: 'one' } }),
  ]
  for (const a of [...texts, ...lists]) {
    for (const rule of described) {
      const work = new CountingBudget()
      const [member] = running([rule])
      const description = 'a'.repeat(limits.description)
      const parts = stepInSlices(member!, logged({ description, metadata: { a } }), work)
      while (parts.next().done !== true);
      expect(work.spent).toBeLessThanOrEqual(rule.cost)
    }
  }
  expect(heavy(1).cost).toBeGreaterThan((ruleLimits.eventMs / 7) * sliceUnits)
})
