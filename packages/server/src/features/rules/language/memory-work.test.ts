import { describe, expect, test } from 'vitest'
import { compiled, logged } from '../../../testing/rules.ts'
import { limitTogether } from './rule-memory.ts'
import { RuleSet } from './rule-set.ts'
import { ruleStates } from './rule-state.ts'
import { ValueMemory } from './value-memory.ts'

const detection = { x: { event_type: 'x' }, condition: 'x' }
const hourMs = 3_600_000
const counting = (field: string) =>
  compiled({
    detection,
    correlation: { type: 'event_count', 'group-by': [field], timespan: '1h', condition: { gte: 2 } },
  })
const running = (rule: ReturnType<typeof compiled>) => ({
  compiled: rule,
  state: ruleStates.start(rule),
  history: new ValueMemory(),
})
const of = (seq: number, more: Parameters<typeof logged>[0] = {}) =>
  logged({ seq, at: seq, event_type: 'x', instance_id: 'a', ...more })

// Attack: an agent fills the windows of rules with groups that end at the same time. The next event dropped all of them,
// which held the event loop for 60 ms per rule.
describe('groups that are all over', () => {
  const fill = (instanceOf: (seq: number) => string) => {
    const on = running(counting('session_id'))
    const set = new RuleSet([on])
    for (let seq = 1; seq <= 2_000; seq += 1) {
      set.take(of(seq, { instance_id: instanceOf(seq), session_id: `s${seq}` }))
    }
    return { set, memory: on.state.memory }
  }

  test.each([
    ['groups of one agent', () => 'a'],
    ['groups of many agents', (seq: number) => `agent-${seq}`],
  ])('are dropped with the next events, a few at each: %s', (_name, instanceOf) => {
    const { set, memory } = fill(instanceOf)
    const full = memory.bytes
    let largest = 0
    for (let seq = 2_001; seq < 2_400; seq += 1) {
      const before = memory.bytes
      set.take(of(seq, { at: 2 * hourMs, session_id: 'last' }))
      largest = Math.max(largest, before - memory.bytes)
    }
    expect(largest).toBeLessThan(full / 40)
    expect(memory.bytes).toBeLessThan(2_000)
    expect(memory.evicted).toBe(0)
  })
})

const threadMs = (): number => {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1_000
}

// Attack: an agent whose key is for a prefix names another instance in each event, until many rules are at their limit.
// Each event after that looked for the largest of all shares hundreds of times: 190 ms with 500 rules.
test('many rules at their limit make room without comparing all of them for each group', () => {
  const rule = counting('instance_id')
  const all = Array.from({ length: 500 }, () => running(rule))
  limitTogether(all, 64 * 1024 ** 2)
  const set = new RuleSet(all)
  const times: number[] = []
  for (let seq = 1; seq <= 400; seq += 1) {
    const event = of(seq, { instance_id: `agent-${seq}` })
    const startedAt = threadMs()
    set.take(event)
    times.push(threadMs() - startedAt)
  }
  const evicted = all.map(({ state }) => state.memory.evicted)
  expect(Math.min(...evicted)).toBeGreaterThan(100)
  // No rule loses much more than another.
  expect(Math.max(...evicted)).toBeLessThan(1.3 * Math.min(...evicted))
  const full = times.slice(-100)
  const sum = full.reduce((total, each) => total + each, 0)
  expect(sum / full.length).toBeLessThan(15)
})
