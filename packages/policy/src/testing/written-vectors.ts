import { decide, noon, type Vector, type VectorStep } from './vector.ts'
import { writtenConditions, writtenTools } from './written-conditions.ts'
import { writtenFaults } from './written-faults.ts'
import { flowLabels, writtenFlows } from './written-flows.ts'

/** A vector, and what its decisions have to be: `deny Rule`, `ask flow`, `allow -`; a ? behind it: not evaluable. */
export interface WrittenVector extends Vector {
  expected: readonly string[] | { fault: string }
}

const agent = { id: 'bot-1', tags: ['env:prod'] }
type Mode = 'enforce' | 'observe'
const policy = (document: object, id = 'p1', mode: Mode = 'enforce') => {
  return { id, title: id, version: 1, mode, document: { title: id, ...document } }
}
const parts = ['main', 'subagent'] as const
const decideIn = (scope: (typeof parts)[number] | undefined): VectorStep => {
  return { decide: { tool: 't', args: {}, at: noon, ...(scope === undefined ? {} : { scope }) } }
}

const denies = (more: object) => policy({ rules: [{ title: 'Rule', decision: 'deny', ...more }] })
const short = (isMet: boolean | '?'): string => (isMet === false ? 'allow -' : `deny Rule${isMet === '?' ? '?' : ''}`)
const single = (name: string, more: object, step: VectorStep, isMet: boolean | '?'): WrittenVector => {
  return { name, set: { agent, policies: [denies(more)] }, steps: [step], expected: [short(isMet)] }
}

const matches = [
  ...writtenConditions.map(([key, wanted, args, isMet]) =>
    single(
      `condition ${key}: ${JSON.stringify(wanted)} on ${JSON.stringify(args).slice(0, 60)}`,
      { when: Object.fromEntries([[key, wanted]]) },
      decide('t', args),
      isMet,
    ),
  ),
  ...writtenTools.map(([pattern, tool, args, isMet]) =>
    single(
      `tool ${pattern} on ${tool} ${JSON.stringify(args)}`,
      { match: { tool: pattern } },
      decide(tool, args),
      isMet,
    ),
  ),
  ...(
    [
      ['22:00-06:00', 5 * 60 + 59, true],
      ['22:00-06:00', 6 * 60, false],
      ['22:00-06:00', 22 * 60, true],
      ['09:30-17:00', 9 * 60 + 29, false],
      ['09:30-17:00', 9 * 60 + 30, true],
      ['09:30-17:00', 17 * 60, false],
      ['12:00-12:00', 12 * 60, false],
    ] as const
  ).map(([hours, minute, isMet]) =>
    single(
      `hours ${hours} at minute ${minute}`,
      { hours },
      decide('t', {}, Date.UTC(2026, 0, 1) + minute * 60_000),
      isMet,
    ),
  ),
  ...(
    [
      ['2026-01-15T12:00Z', false],
      ['2026-01-15T12:00:00.001Z', true],
      ['2026-01-16', true],
      ['2026-01-15', false],
    ] as const
  ).map(([expires, isMet]) => single(`expires_at ${expires}`, { expires_at: expires }, decide('t', {}), isMet)),
  ...(
    [
      [{ agent: 'bot-*' }, true],
      [{ agent: 'pay-*' }, false],
      [{ tags: ['env:prod', 'x'] }, true],
      [{ tags: 'env:dev' }, false],
      [{ tags: 'ENV:PROD' }, false],
    ] as const
  ).map(([match, isMet]) => single(`match ${JSON.stringify(match)}`, { match }, decide('t', {}), isMet)),
  ...(
    [
      ['main', 'main', true],
      ['main', 'subagent', false],
      ['main', undefined, '?'],
      ['subagent', 'subagent', true],
      ['subagent', 'main', false],
      ['subagent', undefined, '?'],
      [['main', 'subagent'], 'subagent', true],
      [['main', 'subagent'], undefined, '?'],
    ] as const
  ).map(([scope, made, isMet]) =>
    single(`match.scope ${scope} for a call of ${made}`, { match: { scope } }, decideIn(made), isMet),
  ),
]

const ask = (title: string, more: object = {}) => ({ title, decision: 'ask', match: { tool: 't' }, ...more })
const written = (
  name: string,
  policies: Vector['set']['policies'],
  steps: VectorStep[],
  ...expected: string[]
): WrittenVector => {
  return { name, set: { agent, policies }, steps, expected }
}
const times = (count: number, step: (index: number) => VectorStep) => Array.from({ length: count }, (_, at) => step(at))
const pays = (amounts: unknown[]) => amounts.map((amount) => decide('t', { amount }))

const combined = [
  written(
    'a rule that allows a part allows no call of an unknown one',
    [policy({ default: 'deny', rules: [{ title: 'a', decision: 'allow', match: { scope: 'main' } }] })],
    [decideIn('main'), decideIn('subagent'), decideIn(undefined)],
    'allow a',
    'deny -',
    'deny -',
  ),
  written(
    'a rule that asks about a part asks about a call of an unknown one',
    [policy({ rules: [ask('a', { match: { tool: 't', scope: ['subagent'] } })] })],
    [decideIn('main'), decideIn('subagent'), decideIn(undefined)],
    'allow -',
    'ask a',
    'ask a?',
  ),
  written(
    'the strictest rule of one policy',
    [policy({ rules: [{ title: 'a', decision: 'allow' }, { title: 'd', decision: 'deny' }, ask('b')] })],
    [decide('t', {})],
    'deny d',
  ),
  written(
    'of equally strict rules one that was evaluated',
    [policy({ rules: [ask('a', { when: { 'a|gt': 1 } }), ask('b'), ask('c')] })],
    [decide('t', { a: 'x' })],
    'ask b',
  ),
  written(
    'the default of a policy',
    [policy({ default: 'ask', rules: [{ title: 'a', decision: 'allow', match: { tool: 'u' } }] })],
    [decide('t', {}), decide('u', {})],
    'ask -',
    'allow a',
  ),
  written(
    'the strictest policy',
    [policy({ default: 'ask' }, 'p1'), policy({ rules: [{ title: 'd', decision: 'deny' }] }, 'p2')],
    [decide('t', {})],
    'deny d',
  ),
  written(
    'an allowance of one policy does not loosen another',
    [policy({ rules: [{ title: 'a', decision: 'allow' }] }, 'p1'), policy({ default: 'deny' }, 'p2')],
    [decide('t', {})],
    'deny -',
  ),
  written(
    'a rule is named before a default',
    [policy({ default: 'ask' }, 'p1'), policy({ rules: [ask('b')] }, 'p2')],
    [decide('t', {})],
    'ask b',
  ),
  written(
    'two people before one',
    [policy({ rules: [ask('one'), ask('two', { approvals: 2, wait: '1h' })] })],
    [decide('t', {})],
    'ask two',
  ),
  written(
    'mode observe',
    [policy({ rules: [{ title: 'd', decision: 'deny' }] }, 'p1', 'observe'), policy({}, 'p2')],
    [decide('t', {})],
    'allow -',
  ),
  written(
    'an allow that cannot be evaluated',
    [policy({ default: 'deny', rules: [{ title: 'a', decision: 'allow', when: { 'n|lt': 5 } }] })],
    [decide('t', { n: 'x' }), decide('t', { n: 1 })],
    'deny -',
    'allow a',
  ),
  written(
    'a question that cannot be evaluated does not loosen a default',
    [policy({ default: 'deny', rules: [ask('b', { when: { 'n|lt': 5 } })] })],
    [decide('t', { n: 'x' }), decide('t', { n: 1 })],
    'deny -',
    'ask b',
  ),
  written(
    'a rule that allows has to match every command and every value',
    [
      policy({
        default: 'deny',
        rules: [
          { title: 'a', decision: 'allow', match: { tool: ['Bash(ls*)', 'Bash(cat *)'] } },
          { title: 'b', decision: 'allow', match: { tool: 't' }, when: { 'to|host': 'a.example' } },
          { title: 'c', decision: 'allow', match: { tool: 'u' }, when: { 'to|not_host': 'b.example' } },
        ],
      }),
    ],
    [
      ...['ls -la; cat x 2>&1', 'ls; rm x', 'ls > ~/.bashrc', 'ls > /dev/null', 'sudo ls', '$X y'].map((command) =>
        decide('Bash', { command }),
      ),
      ...[['x@a.example'], ['x@a.example', 'y@b.example'], []].map((to) => decide('t', { to })),
      ...[['x@a.example'], ['x@a.example', 'y@b.example'], []].map((to) => decide('u', { to })),
    ],
    ...['allow a', 'deny -', 'deny -', 'allow a', 'deny -', 'deny -'],
    ...['allow b', 'deny -', 'deny -', 'allow c', 'deny -', 'deny -'],
  ),
  written(
    'a limit of calls',
    [policy({ rules: [{ title: 'd', decision: 'deny', limit: { calls: 2, within: '1m' } }] })],
    [0, 1, 2, 60_000, 60_001, 60_002].map((ms) => decide('t', {}, noon + ms)),
    'allow -',
    'allow -',
    'deny d',
    'allow -',
    'allow -',
    'deny d',
  ),
  written(
    'a limit that joins what it counted',
    [policy({ rules: [{ title: 'd', decision: 'deny', limit: { calls: 60, within: '1m' } }] })],
    times(63, (index) => decide('t', {}, noon + (index < 62 ? index * 100 : 70_000))),
    ...Array.from({ length: 63 }, (_, index) => (index === 60 || index === 61 ? 'deny d' : 'allow -')),
  ),
  written(
    'a limit on some arguments',
    [policy({ rules: [{ title: 'd', decision: 'deny', when: { a: 'x' }, limit: { calls: 1, within: '1m' } }] })],
    ['x', 'y', 'x'].map((a) => decide('t', { a })),
    'allow -',
    'allow -',
    'deny d',
  ),
  written(
    'a total',
    [policy({ rules: [ask('b', { limit: { total: 10, of: 'amount', within: '1h' } })] })],
    pays([4, '5.5', 1, 0.5, 0.1, -1, 'x', 0]),
    'allow -',
    'allow -',
    'ask b',
    'allow -',
    'ask b',
    'ask b?',
    'ask b?',
    'allow -',
  ),
  written(
    'a denied call does not count',
    [
      policy({
        rules: [{ title: 'x', decision: 'deny', when: { a: 'x' } }, ask('b', { limit: { calls: 1, within: '1h' } })],
      }),
    ],
    ['x', 'x', 'y', 'y'].map((a) => decide('t', { a })),
    'deny x',
    'deny x',
    'allow -',
    'ask b',
  ),
]

const flows = writtenFlows.flatMap(([name, steps, ...expected]) =>
  (['default', 'strict'] as const).map((level, index) =>
    written(
      `flow ${level}: ${name}`,
      [policy({ flow: level, labels: flowLabels })],
      [{ prompt: 'Write to Ada (ada@example.com) by 12' }, ...steps],
      expected[index] ?? expected[0],
    ),
  ),
)

const hashes: readonly unknown[] = [
  {},
  null,
  [],
  { b: 1, a: [1.5, 'x', true, null] },
  { '\u{1f600}': 1, '\ufb33': 2, é: 3, a: 4 },
  [1e21, 1e20, 1e-6, 1e-7, 0.1, 123456789012345680000, 5e-324, 1.7976931348623157e308],
  ['\u0000\u001f\u007f\u2028', '\ud800', '"\\/', 'é😀'],
  { nested: { nested: { nested: [{}] } } },
  Number('12345678901234567890'),
]

/** Vectors that were written by hand, with the decisions that they have to come to. */
export const writtenVectors: readonly WrittenVector[] = [
  ...matches,
  ...combined,
  ...flows,
  { name: 'hashes of arguments', set: { agent, policies: [] }, steps: hashes.map((hash) => ({ hash })), expected: [] },
  ...writtenFaults.map(([name, document, fault]): WrittenVector => {
    const message = `policy "p1" cannot be read: ${fault}`
    return {
      name: `fault: ${name}`,
      set: { agent, policies: [policy(document)] } as Vector['set'],
      steps: [],
      expected: { fault: message },
    }
  }),
]
