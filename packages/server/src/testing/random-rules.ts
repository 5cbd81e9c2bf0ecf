import type { seededChoices } from '../../../../test-servers/seeded-draws.ts'

/** Tools of the events for random rules. */
export const ruleTools = ['shell', 'read', 'net']
const spans = ['10s', '1m', '5m']

type Draws = ReturnType<typeof seededChoices>

function correlation(draws: Draws, depth = 0): object {
  const { pick } = draws
  const below = (bound: number) => draws.between(0, bound - 1)
  const type = pick([
    'event_count',
    'value_count',
    'temporal',
    'temporal_ordered',
    'new_value',
    'not_preceded',
    'aliases',
  ])
  const common = { type, 'group-by': [pick(['instance_id', 'session_id'])], timespan: pick(spans) }
  const inner = () =>
    depth === 0 && below(4) === 0 ? { correlation: correlation(draws, 1) } : pick(['a', 'b', 'a or b'])
  switch (type) {
    case 'event_count':
      // Only the outermost one can be judged when its timespan has passed.
      if (depth === 0 && below(3) === 0) return { ...common, rules: ['a or b'], condition: { lt: 2 + below(3) } }
      return { ...common, rules: [inner()], condition: { gte: 1 + below(4), neq: below(6) } }
    case 'value_count':
      return { ...common, rules: [inner()], field: 'metadata.n', condition: { gte: 1 + below(3) } }
    case 'new_value':
      // A value must be new only once within a window of another correlation.
      return {
        ...common,
        timespan: depth === 0 ? pick(spans) : '30d',
        rules: ['a or b'],
        field: 'metadata.n',
        learning: pick(['1s', '1m']),
      }
    case 'aliases':
      return {
        ...common,
        type: 'temporal',
        rules: ['a', 'b'],
        'group-by': ['name'],
        aliases: { name: { a: 'session_id', b: pick(['session_id', 'instance_id']) } },
      }
    default:
      return { ...common, rules: [inner(), 'b'] }
  }
}

/** Returns a rule without tests on the tool and `metadata.n`. */
export const randomRule = (draws: Draws, index: number) => ({
  title: `Rule ${index}`,
  severity: 'info',
  detection: { a: { tool: draws.pick(ruleTools) }, b: { 'metadata.n|gte': draws.between(0, 3) }, condition: 'a or b' },
  ...(draws.chance(0.2) ? {} : { correlation: correlation(draws) }),
  ...(draws.chance(0.3) ? { cooldown: draws.pick(spans) } : {}),
})

/** Only the database knows which values are new, while the window is rebuilt from the log. */
export const newThenHigh = {
  title: 'A new value, then a high one',
  severity: 'info',
  detection: { any: { event_type: 'tool_call' }, high: { 'metadata.n|gte': 3 } },
  correlation: {
    type: 'temporal_ordered',
    rules: [
      {
        correlation: {
          type: 'new_value',
          rules: ['any'],
          'group-by': ['instance_id'],
          field: 'metadata.m',
          timespan: '30d',
          learning: '1s',
        },
      },
      'high',
    ],
    'group-by': ['instance_id'],
    timespan: '1m',
  },
  cooldown: '1s',
}
