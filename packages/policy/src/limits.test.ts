import { expect, test } from 'vitest'
import { deliveredDocument } from './delivered.ts'
import { askOf, mayRestrict, readPolicy } from './policy.ts'
import { readLabels } from './read-labels.ts'

const rule = (more: object = {}) => ({ title: 'r', decision: 'deny', ...more })
const withRule = (more: object) => ({ title: 'p', rules: [rule(more)] })
const faultsOf = (document: object) =>
  readPolicy({ title: 'p', ...document }).faults.map(({ path, message }) => `${path} ${message}`)
const of = <Value>(length: number, make: (at: number) => Value) => Array.from({ length }, (_, at) => make(at))
const mapOf = (length: number, value: unknown) => Object.fromEntries(of(length, (at) => [`n${at}`, value]))
const long = (length: number) => 'x'.repeat(length)
const call = { tool: 'x' }

/** What is bounded: a document with so many of it, the bound, and the fault of one more. */
const bounds: [string, (count: number) => object, number, string][] = [
  ['characters of a title', (count) => ({ title: long(count) }), 500, 'title must be a text of 1 to 500 characters.'],
  [
    'rules',
    (count) => ({ rules: of(count, (at) => rule({ title: `${at}` })) }),
    200,
    'rules must be a list of at most 200 rules.',
  ],
  [
    'tools',
    (count) => withRule({ match: { tool: of(count, () => 'x') } }),
    200,
    'rules[0].match.tool must have 1 to 200 entries.',
  ],
  [
    'agents',
    (count) => withRule({ match: { agent: of(count, () => 'x') } }),
    500,
    'rules[0].match.agent must have 1 to 500 entries.',
  ],
  [
    'tags',
    (count) => withRule({ match: { tags: of(count, () => 'x') } }),
    500,
    'rules[0].match.tags must have 1 to 500 entries.',
  ],
  [
    'agents of a policy',
    (count) => ({ for: { agents: of(count, () => 'x') } }),
    500,
    'for.agents must have 1 to 500 entries.',
  ],
  [
    'tags of a policy',
    (count) => ({ for: { tags: of(count, () => 'x') } }),
    500,
    'for.tags must have 1 to 500 entries.',
  ],
  [
    'conditions',
    (count) => withRule({ when: mapOf(count, 'x') }),
    20,
    'rules[0].when must be a map of 1 to 20 conditions, such as recipients|not_host.',
  ],
  [
    'values of a condition',
    (count) => withRule({ when: { a: of(count, () => 'x') } }),
    500,
    'rules[0].when.a must have 1 to 500 values.',
  ],
  [
    'characters of a value',
    (count) => withRule({ when: { a: long(count) } }),
    500,
    'rules[0].when.a must have values of at most 500 characters.',
  ],
  [
    'patterns',
    (count) => withRule({ when: { 'a|re': of(count, () => 'x') } }),
    50,
    'rules[0].when.a|re would cost too much: a policy has at most 50 patterns.',
  ],
  [
    'calls of a limit',
    (count) => withRule({ limit: { calls: count, within: '1m' } }),
    1_000,
    'rules[0].limit.calls must be a whole number from 1 to 1000.',
  ],
  [
    'cases',
    (count) => withRule({ cases: { no_match: of(count, () => call) } }),
    50,
    'rules[0].cases.no_match must be a list of at most 50 calls.',
  ],
  ['labelled tools', (count) => ({ labels: mapOf(count, {}) }), 2_000, 'labels must name at most 2000 tools.'],
  [
    'characters of a labelled tool',
    (count) => ({ labels: { [long(count)]: {} } }),
    500,
    'labels must name tools in at most 500 characters.',
  ],
  [
    'labels of a tool',
    (count) => ({ labels: { x: { is: of(count, () => 'private') } } }),
    8,
    'labels.x.is must have at most 8 labels.',
  ],
  [
    'arguments on which labels depend',
    (count) => ({ labels: { x: { when: mapOf(count, 'private') } } }),
    20,
    'labels.x.when must be a map of at most 20 arguments.',
  ],
  [
    'destinations',
    (count) => ({ labels: { x: { destination: of(count, () => 'to') } } }),
    20,
    'labels.x.destination must have 1 to 20 entries.',
  ],
]
test.each(bounds)('a policy is bounded in its %s', (_name, document, max, fault) => {
  expect(faultsOf(document(max))).toEqual([])
  expect(faultsOf(document(max + 1))).toEqual([fault])
})

test('a document with everything wrong has a hundred faults, with short places', () => {
  const faults = faultsOf(mapOf(500, 1))
  expect(faults).toHaveLength(100)
  expect(readPolicy({ title: 'p', [long(900)]: 1 }).faults[0]!.path).toBe(long(500))
})

test.each<[string, object, string[]]>([
  ['neither calls nor a total', { within: '1m' }, ['rules[0].limit must have calls, or total and of.']],
  ['both', { calls: 1, total: 1, of: 'a', within: '1m' }, ['rules[0].limit must have calls, or total and of.']],
  ['calls of an argument', { calls: 1, of: 'a', within: '1m' }, ['rules[0].limit.of is only for a total.']],
  ['a total of nothing', { total: 0, within: '1m' }, ['rules[0].limit.of must be a text of 1 to 500 characters.']],
  ['a total below 0', { total: -1, of: 'a', within: '1m' }, ['rules[0].limit.total must be a number from 0 on.']],
  ['no number', { total: '1', of: 'a', within: '1m' }, ['rules[0].limit.total must be a number from 0 on.']],
  ['no exact number', { total: 2 ** 53, of: 'a', within: '1m' }, ['rules[0].limit.total must be a number from 0 on.']],
  ['a total', { total: 2 ** 53 - 1, of: 'a', within: '1d' }, []],
  ['the shortest window', { calls: 1, within: '1s' }, []],
])('the limit with %s has the faults it should', (_name, limit, faults) =>
  expect(faultsOf(withRule({ limit }))).toEqual(faults),
)

test('all of a rule is read', () => {
  const { policy, faults } = readPolicy({
    title: ' p ',
    mode: 'enforce',
    default: 'ask',
    rules: [
      rule({
        title: 'a',
        decision: 'ask',
        match: { tool: 'x', agent: 'a-*', tags: ['t'], scope: 'subagent' },
        limit: { total: 1.5, of: 'amount', within: '2m' },
        hours: '22:15-06:45',
        expires_at: '2026-01-15T12:00Z',
        approvals: 2,
        wait: '1h',
        cases: {
          match: [{ ...call, agent: 'a', tags: 't', scope: 'main', at: '2026-01-15' }],
          no_match: [{ tool: 'y', args: { a: 1 } }],
        },
      }),
    ],
  })
  expect(faults).toEqual([])
  expect(policy).toMatchObject({ title: 'p', mode: 'enforce', default: 'ask', flow: 'off', enforceFor: undefined })
  const at = Date.UTC(2026, 0, 15)
  expect(policy.rules[0]).toMatchObject({
    match: { agents: ['a-*'], tags: ['t'], scopes: ['subagent'] },
    limit: { of: 'amount', max: 1.5, withinMs: 120_000 },
    hours: { from: 22 * 60 + 15, to: 6 * 60 + 45 },
    expiresAt: at + 12 * 3_600_000,
    approvals: 2,
    waitMs: 3_600_000,
    cases: {
      match: [{ tool: 'x', args: {}, agent: 'a', tags: ['t'], scope: 'main', at }],
      no_match: [{ tool: 'y', args: { a: 1 } }],
    },
  })
  expect(policy.rules[0]!.cases.no_match[0]).toEqual({ tool: 'y', args: { a: 1 } })
})

test('what a question asks is that of its rule, of the flow, or of the default', () => {
  const { policy } = readPolicy({
    title: 'p',
    default: 'deny',
    rules: [rule({ title: 'a', decision: 'ask', approvals: 2, wait: '30s' }), rule({ title: 'b' })],
  })
  const usual = { approvals: 1, waitMs: 600_000 }
  expect(askOf(policy, 'a')).toEqual({ decision: 'ask', approvals: 2, waitMs: 30_000 })
  expect(askOf(policy, 'b')).toEqual({ decision: 'deny', ...usual })
  expect(askOf(policy, 'flow')).toEqual({ decision: 'ask', ...usual })
  expect(askOf(policy, null)).toEqual({ decision: 'deny', ...usual })
  expect(askOf(policy, 'gone')).toBeUndefined()
})

test('a policy may restrict what its default or a rule does not allow', () => {
  const may = (document: object, tool: string) => mayRestrict(readPolicy({ title: 'p', ...document }).policy, tool)
  expect(may({ default: 'ask' }, 'x')).toBe(true)
  expect(may({}, 'x')).toBe(false)
  expect(may({ rules: [rule({ match: { tool: ['a', 'send_*'] } })] }, 'Send_Mail')).toBe(true)
  expect(may({ rules: [rule({ match: { tool: ['a', 'send_*'] } })] }, 'read')).toBe(false)
  expect(may({ rules: [rule({ decision: 'allow', match: { tool: '*' } })] }, 'x')).toBe(false)
})

test.each<[unknown, string | undefined]>([
  [undefined, undefined],
  [[], undefined],
  [
    'labels.yaml',
    'names a file, which the API cannot read: use `wardline policy add` or put the labels into the policy.',
  ],
  ['toString', expect.stringMatching(/^has no pack toString; the packs are \w+/) as never],
  [7, 'must be a map of tools, the name of a pack, or a list of these.'],
  [{ x: { destination: [] } }, undefined],
  [{ x: { when: [] } }, 'must be a map of at most 20 arguments.'],
])('the labels %j have the fault %s', (labels, message) =>
  expect(readLabels(labels).faults.map((fault) => fault.message)).toEqual(message === undefined ? [] : [message]),
)

test('later labels win, and their names are compared in lower case', () => {
  const { labels } = readLabels([
    { Mail: { is: 'private' }, b: { is: 'sends' } },
    { mail: { is: ['changes'], destination: 'to', when: { cc: 'sends' } } },
  ])
  expect(Object.fromEntries(labels)).toEqual({
    mail: { is: ['changes'], destination: ['to'], when: { cc: ['sends'] } },
    b: { is: ['sends'], destination: [], when: {} },
  })
})

test('agents get a policy without notes and cases, and with their labels as one map', () => {
  expect(deliveredDocument({ title: 'p', description: 'd' })).toEqual({ title: 'p' })
  const document = {
    title: 'p',
    rules: [rule({ description: 'd', cases: { match: [] }, when: { a: 1 } })],
    labels: [{ X: { is: 'private' } }],
  }
  expect(deliveredDocument(document)).toEqual({
    title: 'p',
    rules: [rule({ when: { a: 1 } })],
    labels: { x: { is: ['private'], destination: [], when: {} } },
  })
})
