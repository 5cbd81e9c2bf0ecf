import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import fc from 'fast-check'
import { beforeAll, describe, expect, test } from 'vitest'
import { effort } from '../../../../../../test-servers/effort.ts'
import { compiled, epoch, logged, storedFirings } from '../../../testing/rules.ts'
import type { RuleEvent } from './fields.ts'
import type { CompiledRule } from './rule.ts'
import { limitTogether } from './rule-memory.ts'
import { lookbackOf, type RuleState, ruleStates, step } from './rule-state.ts'
import { ValueMemory } from './value-memory.ts'

const any = { x: { event_type: 'x' }, y: { event_type: 'y' }, condition: '1 of them' }
const correlated = (correlation: object, more: object = {}) =>
  compiled({ detection: any, correlation: { timespan: '1h', ...correlation }, ...more })
const of = (seq: number, more: Parameters<typeof logged>[0] = {}) =>
  logged({ seq, at: seq, event_type: 'x', instance_id: 'a', ...more })

interface Running {
  rule: CompiledRule
  state: RuleState
  history: ValueMemory
}
const running = (rule: CompiledRule, bytes?: number): Running => ({
  rule,
  state: ruleStates.start(rule, bytes),
  history: new ValueMemory(),
})
const take = ({ rule, state, history }: Running, event: RuleEvent) => step(rule, state, event, history)

const twoInSession = correlated({ type: 'event_count', 'group-by': ['session_id'], condition: { gte: 2 } })
const twoOwn = correlated({ type: 'event_count', 'group-by': ['instance_id', 'session_id'], condition: { gte: 2 } })

// Attack: an agent makes up groups until the oldest of all, which is that of another agent, is forgotten.
describe('a flood of groups by one agent', () => {
  const flood = (on: Running, from: number, count: number) => {
    for (let seq = from; seq < from + count; seq += 1) take(on, of(seq, { session_id: `made-up-${seq}` }))
  }

  test('takes no group from another agent', () => {
    const on = running(twoOwn, 100_000)
    take(on, of(1, { instance_id: 'b', session_id: 's' }))
    flood(on, 2, 2_000)
    expect(on.state.memory.bytes).toBeLessThanOrEqual(100_000)
    expect(take(on, of(3_000, { instance_id: 'b', session_id: 's' }))).toHaveLength(1)
    expect([...on.state.memory.evictedBy.keys()]).toEqual(['a'])
  })

  test('takes no group that several agents use, of any order of use', () => {
    const on = running(twoInSession, 100_000)
    take(on, of(1, { session_id: 'first' }))
    take(on, of(2, { instance_id: 'b', session_id: 'first' }))
    take(on, of(3, { instance_id: 'b', session_id: 'last' }))
    take(on, of(4, { session_id: 'last' }))
    flood(on, 5, 2_000)
    const { state } = on
    expect(state.memory.evicted).toBeGreaterThan(0)
    for (const [index, session_id] of ['first', 'last'].entries()) {
      expect(take(on, of(3_000 + index, { instance_id: 'c', session_id }))[0]).toMatchObject({ count: 2 })
    }
  })

  const three = correlated({ type: 'event_count', 'group-by': ['session_id'], condition: { gte: 3 } })

  test('of several agents drops what they share only while that is more than half, and names them', () => {
    const on = running(three, 100_000)
    for (let seq = 1; seq <= 80; seq += 1) take(on, of(seq, { instance_id: 'c', session_id: `own-${seq % 40}` }))
    for (let seq = 100; seq < 3_000; seq += 1) {
      for (const instance_id of ['a', 'b']) take(on, of(seq, { instance_id, session_id: `made-up-${seq}` }))
    }
    expect(on.state.memory.bytes).toBeLessThanOrEqual(100_000)
    expect(['a', 'b']).toEqual(expect.arrayContaining([...on.state.memory.evictedBy.keys()]))
    for (let seq = 0; seq < 40; seq += 1) {
      expect(take(on, of(3_000 + seq, { instance_id: 'c', session_id: `own-${seq}` }))).toHaveLength(1)
    }
  })
})

// Attack: a key for a prefix names another instance with every event.
test('of instances that all have little, the one that was silent longest loses first', () => {
  const on = running(twoOwn, 100_000)
  for (let seq = 1; seq <= 1_000; seq += 1) {
    take(on, of(2 * seq, { instance_id: `i${seq}`, session_id: 's' }))
    if (seq % 20 === 0) take(on, of(2 * seq + 1, { instance_id: 'busy', session_id: `s${seq % 3}` }))
  }
  expect(on.state.memory.evicted).toBeGreaterThan(500)
  expect(on.state.memory.evictedBy.has('busy')).toBe(false)
})

// Attack: one agent fills the memory of many rules, each within its own limit.
test('rules together have a limit, and lose what the flooding agent has in any of them', () => {
  const rules = Array.from({ length: 20 }, () => running(twoOwn))
  const values = running(correlated({ type: 'new_value', field: 'metadata.v', learning: '1s' }, { cooldown: '1s' }))
  const all = [...rules, values]
  limitTogether(all, 1_000_000)
  const bytes = () => all.reduce((sum, { state, history }) => sum + state.memory.bytes + history.memory.bytes, 0)
  for (const each of all) take(each, of(1, { instance_id: 'b', session_id: 's', metadata: { v: 'usual' } }))
  for (let seq = 2; seq < 2_000; seq += 1) {
    for (const each of all) take(each, of(seq, { session_id: `s${seq}`, metadata: { v: `v${seq}` } }))
    expect(bytes()).toBeLessThanOrEqual(1_000_000)
  }
  expect(all.reduce((sum, { state }) => sum + state.memory.evicted, 0)).toBeGreaterThan(10_000)
  for (const each of rules) expect(take(each, of(9_000, { instance_id: 'b', session_id: 's' }))).toHaveLength(1)
  expect(values.history.look('0:[]', '["usual"]').valueSeen).toBe(epoch + 1)
  // Another set of rules begins with what its rules have, and the one that left counts no more.
  limitTogether(rules.slice(1), 500_000)
  for (let seq = 10_000; seq < 12_000; seq += 1) take(rules[1]!, of(seq, { session_id: `s${seq}` }))
  expect(rules.slice(1).reduce((sum, { state }) => sum + state.memory.bytes, 0)).toBeLessThanOrEqual(500_000)
})

test('the bytes are the sum of what is kept, and none are left after all of it', () => {
  const events = fc.array(
    fc.record({
      instance_id: fc.constantFrom('a', 'b', 'c', null),
      session_id: fc.integer({ min: 0, max: 30 }).map(String),
      event_type: fc.constantFrom('x', 'y'),
      wait: fc.integer({ min: 0, max: 500 }),
    }),
    { maxLength: 200, size: 'max' },
  )
  const kinds = [
    correlated({ type: 'event_count', 'group-by': ['session_id'], condition: { gte: 3 }, timespan: '20s' }),
    correlated({ type: 'temporal_ordered', 'group-by': ['session_id'], rules: ['x', 'y'], timespan: '20s' }),
    correlated({ type: 'value_count', field: 'session_id', condition: { gte: 9 }, timespan: '20s' }),
  ]
  fc.assert(
    fc.property(events, fc.constantFrom(...kinds), fc.integer({ min: 1_000, max: 20_000 }), (list, rule, max) => {
      const on = running(rule, max)
      let at = 0
      for (const [index, { wait, ...row }] of list.entries()) {
        at += wait
        take(on, of(index + 1, { ...row, at }))
        expect(on.state.memory.bytes).toBeLessThanOrEqual(max)
      }
      take(on, of(500, { at: at + 100_000, instance_id: 'last', session_id: 'last' }))
      take(on, of(501, { at: at + 200_000, instance_id: 'last', session_id: 'last' }))
      on.state.cooldowns.clear()
      expect(on.state.memory.bytes).toBeLessThan(1_200)
    }),
    { numRuns: effort(300, 20_000) },
  )
})

// Attack: as above; a restart must not give the agent what the limit took from it, nor forget what was kept.
test('after a flood a state rebuilt from the log knows of other agents what the one that ran through knows', () => {
  const log = fc.array(
    fc.record({ instance_id: fc.constantFrom('b', 'c'), session_id: fc.constantFrom('s1', 's2', 's3') }),
    { minLength: 1, maxLength: 20 },
  )
  const own = { 'group-by': ['instance_id', 'session_id'], timespan: '10s', condition: { gte: 3 } }
  const three = correlated({ type: 'event_count', ...own })
  fc.assert(
    fc.property(log, log, fc.integer({ min: 0, max: 400 }), (before, after, flooded) => {
      const rows = [
        ...before,
        ...Array.from({ length: flooded }, (_, index) => ({ instance_id: 'a', session_id: `${index}` })),
        ...after,
      ]
      const events = rows.map((row, index) => of(index + 1, { ...row, at: index * 100 }))
      const cut = before.length + flooded
      const live = running(three, 40_000)
      const firings = events.slice(0, cut).flatMap((event) => take(live, event))
      const rebuilt = running(three, 40_000)
      const from = live.state.time - lookbackOf(three)
      for (const event of events.slice(0, cut)) if (Date.parse(event.row.created_at) >= from) take(rebuilt, event)
      ruleStates.setFirings(rebuilt.state, storedFirings(firings, events))
      expect(rebuilt.state.memory.bytes).toBeLessThanOrEqual(40_000)
      const rest = events.slice(cut)
      expect(rest.flatMap((event) => take(rebuilt, event))).toEqual(rest.flatMap((event) => take(live, event)))
    }),
    { numRuns: effort(100, 10_000) },
  )
})

describe('counted bytes are no less than those of the heap:', () => {
  const collectGarbage: () => void = (() => {
    setFlagsFromString('--expose-gc')
    return runInNewContext('gc')
  })()
  const heapBytes = () => {
    collectGarbage()
    return process.memoryUsage().heapUsed
  }
  const hostile = (seq: number) => `${seq}-`.padEnd(190, '\u0001')
  const wide = (seq: number) => `${seq}`.padEnd(28, '漢')
  const group = { 'group-by': ['session_id'] }
  const counted = { condition: { gte: 10_000 } }
  /** Share of the full amount of entries, of the limit and of the noise: garbage collection costs most of the time. */
  const share = effort(1 / 4, 1)
  const maxBytes = share * 16 * 1024 ** 2
  /** The noise of the process itself. */
  const noiseBytes = share * 1024 ** 2
  /** At most, see group-keys.ts: groups that are forgotten at once leave their keys there. */
  const sharedKeysBytes = 1024 ** 2
  // What the first events load and compile is no memory of a rule.
  beforeAll(() => {
    const on = running(correlated({ type: 'new_value', field: 'source', ...group }), 10_000)
    for (let seq = 1; seq < 5_000; seq += 1) take(on, of(seq, { session_id: wide(seq), source: wide(seq) }))
  })
  test.each([
    ['groups of one agent', { type: 'event_count', ...counted, ...group }, (seq: number) => hostile(seq)],
    ['groups with a few events', { type: 'event_count', ...counted, ...group }, (seq: number) => wide(seq >> 2)],
    ['groups of many agents', { type: 'event_count', ...counted, 'group-by': ['instance_id'] }, wide],
    ['groups with a value', { type: 'value_count', ...counted, ...group, field: 'source' }, hostile],
    ['values', { type: 'value_count', ...counted, ...group, field: 'source' }, (seq: number) => wide(seq % 50)],
    ['steps', { type: 'temporal', ...group, rules: ['x', 'y'] }, wide],
    ['sequences', { type: 'temporal_ordered', ...group, rules: ['x', 'x', 'y'] }, (seq: number) => wide(seq >> 1)],
    ['cooldowns', { type: 'event_count', ...group, condition: { gte: 1 }, timespan: '1s' }, wide],
  ])('%s', (_name, correlation, session) => {
    const rule = correlated({ timespan: '30d', ...correlation }, { cooldown: '30d' })
    const before = heapBytes()
    const on = running(rule, maxBytes)
    for (let seq = 1; seq < share * 100_000; seq += 1) {
      const row = { instance_id: `agent-${seq}`, session_id: session(seq), source: wide(seq) }
      take(on, of(seq, { ...row, at: 100 * seq }))
    }
    const grown = heapBytes() - before
    expect(on.state.memory.bytes).toBeLessThanOrEqual(maxBytes)
    expect(grown).toBeLessThan(on.state.memory.bytes + noiseBytes)
  })

  test('values of new_value', () => {
    const rule = correlated({ type: 'new_value', field: 'source', ...group, timespan: '30d' }, { cooldown: '1s' })
    const before = heapBytes()
    const history = new ValueMemory({ bytes: maxBytes, instanceBytes: maxBytes * 0.8 })
    const on = { ...running(rule), history }
    for (let seq = 1; seq < share * 200_000; seq += 1) {
      const row = { instance_id: `agent-${seq % 10}`, session_id: wide(seq % 500), source: wide(seq) }
      take(on, of(seq, row))
    }
    const grown = heapBytes() - before
    expect(history.memory.evicted).toBeGreaterThan(0)
    expect(grown).toBeLessThan(history.memory.bytes + on.state.memory.bytes + noiseBytes)
  })

  test.each([
    ['short texts', (seq: number) => `agent-${seq}`],
    ['wide texts', wide],
  ])('one value of each of many agents, with %s', (_name, text) => {
    const rule = correlated({ type: 'new_value', field: 'source', 'group-by': ['instance_id'], timespan: '30d' })
    const before = heapBytes()
    const history = new ValueMemory({ bytes: maxBytes, instanceBytes: maxBytes })
    const on = { ...running(rule), history }
    for (let seq = 1; seq < share * 50_000; seq += 1) take(on, of(seq, { instance_id: text(seq), source: text(-seq) }))
    const grown = heapBytes() - before
    expect(grown).toBeLessThan(history.memory.bytes + on.state.memory.bytes + noiseBytes)
  })

  // Attack: the first value of a group counts for the group as well, and an agent has it forgotten before a second one.
  test('groups of new_value whose first value is forgotten', () => {
    const rule = correlated({ type: 'new_value', field: 'source', ...group, timespan: '30d' }, { cooldown: '1s' })
    const before = heapBytes()
    const history = new ValueMemory({ bytes: maxBytes, instanceBytes: maxBytes })
    const on = { ...running(rule), history }
    let seq = 0
    const show = (groups: readonly number[], source: string) => {
      for (const each of groups) {
        seq += 1
        take(on, of(seq, { session_id: wide(each), source }))
      }
    }
    const known: number[] = []
    for (let round = 0; round < 10; round += 1) {
      // As many as fit if a group whose first value is forgotten counts for its second one alone.
      const length = Math.floor((0.99 * maxBytes - 240 * known.length) / 1_000)
      const begun = Array.from({ length }, (_, index) => known.length + index)
      show(begun, 'first')
      show(known, 'second')
      show(begun, 'second')
      known.push(...begun)
    }
    known.length = 0
    const grown = heapBytes() - before
    expect(history.memory.evicted).toBeGreaterThan(0)
    expect(grown).toBeLessThan(history.memory.bytes + on.state.memory.bytes + sharedKeysBytes + noiseBytes)
    show([-1], 'last')
  })
})
