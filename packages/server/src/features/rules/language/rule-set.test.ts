import fc from 'fast-check'
import { expect, test } from 'vitest'
import { effort } from '../../../../../../test-servers/effort.ts'
import { compiled, logged } from '../../../testing/rules.ts'
import { RuleSet } from './rule-set.ts'
import { ruleStates, step } from './rule-state.ts'
import { ValueMemory } from './value-memory.ts'

const types = ['tool_call', 'policy_violation', 'Note', 'unnamed']
const tools = ['shell-exec', 'Web-Search', 'unnamed', undefined]

const selection = fc.record(
  {
    event_type: fc.constantFrom('tool_call', 'Tool_Call', 'policy_*', ['tool_call', 'note'], ['note', 'policy_*']),
    tool: fc.constantFrom('shell-exec', 'SHELL-EXEC', 'web-*', ['shell-exec', 'web-search'], null),
    'metadata.v': fc.constantFrom('1', '2'),
  },
  { requiredKeys: [] },
)
const grouped = { 'group-by': ['instance_id'], timespan: '10s' }
const correlations = {
  counted: { type: 'event_count', ...grouped, condition: { gte: 2 } },
  // Of two predicates the kind of an event may decide one and leave the other.
  temporal: { type: 'temporal', ...grouped, rules: ['one', 'two'] },
}
const rule = fc
  .record({
    one: selection.filter((fields) => Object.keys(fields).length > 0),
    two: selection.filter((fields) => Object.keys(fields).length > 0),
    condition: fc.constantFrom('one and two', 'one or two', 'one and not two', 'not one or two', '1 of them'),
    kind: fc.constantFrom('single' as const, 'counted' as const, 'temporal' as const),
  })
  .map(({ one, two, condition, kind }) =>
    compiled({
      // Separate lists: one that stands twice would be written as an alias.
      detection: {
        one: structuredClone(one),
        two: structuredClone(two),
        ...(kind === 'temporal' ? {} : { condition }),
      },
      ...(kind === 'single' ? {} : { correlation: correlations[kind] }),
    }),
  )
const events = fc
  .array(
    fc.record({
      event_type: fc.constantFrom(...types),
      tool: fc.constantFrom(...tools),
      v: fc.constantFrom('1', '2', undefined),
      instance_id: fc.constantFrom('a', 'b', null),
    }),
    { maxLength: 40 },
  )
  .map((rows) =>
    rows.map(({ event_type, tool, v, instance_id }, index) =>
      logged({
        seq: index + 1,
        at: index * 1_000,
        event_type,
        instance_id,
        metadata: { ...(tool && { tool }), ...(v && { v }) },
      }),
    ),
  )

test('a set of rules finds what each of them finds alone', () => {
  const fired = new Set<string>()
  fc.assert(
    fc.property(fc.array(rule, { minLength: 1, maxLength: 6 }), events, (rules, log) => {
      const running = () =>
        rules.map((each) => ({ compiled: each, state: ruleStates.start(each), history: new ValueMemory() }))
      const members = running()
      const set = new RuleSet(members)
      const alone = running()
      for (const event of log) {
        const found = set.take(event).map(({ running, firing }) => ({ index: members.indexOf(running), firing }))
        const expected = alone.flatMap(({ compiled: each, state, history }, index) =>
          // A copy: what rules share about an event is remembered for that event alone.
          step(each, state, { ...event }, history).map((firing) => ({ index, firing })),
        )
        expect(found).toEqual(expected)
        for (const { firing } of found) fired.add(String(firing.count))
      }
    }),
    { numRuns: effort(150, 50_000) },
  )
  // Both kinds of rules fired.
  expect(fired.size).toBeGreaterThan(1)
})
