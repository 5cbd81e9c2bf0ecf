import fc from 'fast-check'
import { expect, test } from 'vitest'
import { lintPolicy } from './lint.ts'
import { SessionMemory } from './memory.ts'
import { decisions, isForAgent, readPolicy } from './policy.ts'
import { PolicyDecider } from './policy-set.ts'

const at = Date.UTC(2026, 0, 15, 12)
interface Call {
  tool: string
  args: Record<string, unknown>
  at: number
  agent?: string
  tags?: string[]
}
const call = (tool: string, args: Record<string, unknown> = {}, more: Partial<Call> = {}): Call => ({
  tool,
  args,
  at,
  ...more,
})
const read = (document: object) => {
  const { policy, faults } = readPolicy({ title: 'Test', mode: 'enforce', ...document })
  expect(faults).toEqual([])
  return policy
}
const decider = (document: object) => {
  const policy = read(document)
  const memory = new SessionMemory()
  const held = { id: 'p', title: 'Test', version: 1, mode: 'enforce', policy } as const
  return {
    decide({ agent, tags, ...one }: Call) {
      const whom = { ...(agent === undefined ? {} : { id: agent }), ...(tags === undefined ? {} : { tags }) }
      return new PolicyDecider(whom, isForAgent(policy.for, whom) ? [held] : []).decide(memory, one)
    },
  }
}
const rule = (decision: string, match: object, when?: object, more = {}) => ({
  rules: [{ title: 'Rule', decision, match, ...(when ? { when } : {}), ...more }],
})

test.each<[string, object | undefined, Record<string, unknown>, boolean]>([
  ['no condition', undefined, {}, true],
  ['glob', { subject: 'invoice *' }, { subject: 'Invoice 7' }, true],
  ['glob of a number', { count: 3 }, { count: 3 }, true],
  ['in', { 'region|in': ['eu', 'us'] }, { region: 'eu' }, true],
  ['in, another', { 'region|in': ['eu', 'us'] }, { region: 'cn' }, false],
  ['not_in', { 'region|not_in': ['eu', 'us'] }, { region: 'cn' }, true],
  ['not_in without the argument', { 'region|not_in': ['eu'] }, {}, false],
  ['host outside', { 'to|not_host': ['example.com'] }, { to: ['a@example.com', 'b@evil.example'] }, true],
  ['hosts inside', { 'to|not_host': ['example.com'] }, { to: ['a@example.com', 'b@EXAMPLE.com'] }, false],
  ['a host that is none takes effect', { 'to|not_host': ['example.com'] }, { to: ['a@example.com', 'bob'] }, true],
  ['path', { 'path|path': '~/.ssh/**' }, { path: '/root/.ssh/id_rsa' }, true],
  ['path of any argument', { '*|path': '.env' }, { options: { files: ['a', '/app/.env'] } }, true],
  ['command', { 'command|command': 'rm *' }, { command: 'ls && sudo rm x' }, true],
  ['a command too long takes effect', { 'command|command': 'rm *' }, { command: 'a'.repeat(70_000) }, true],
  ['re', { 'body|re': '^(?i)pass(word|code)\\b' }, { body: 'Passcode: 7' }, true],
  ['not_re', { 'id|not_re': '^[a-z]{2}\\d+$' }, { id: ['ab12', 'x'] }, true],
  ['re of a text too long takes effect', { 'body|re': 'x{50}' }, { body: 'a'.repeat(50_000) }, true],
  [
    'an argument of each item',
    { 'items.to|not_host': 'a.example' },
    { items: [{ to: 'x@a.example' }, { to: 'x@b.example' }] },
    true,
  ],
  ['gt', { 'amount|gt': 100 }, { amount: 100 }, false],
  ['gt of a text', { 'amount|gt': 100 }, { amount: '100.5' }, true],
  ['gt of no number takes effect', { 'amount|gt': 100 }, { amount: 'much' }, true],
  ['nested', { 'options.url|host': 'evil.example' }, { options: { url: 'http://evil.example/' } }, true],
  ['a name with a dot', { 'options.url|host': 'evil.example' }, { 'options.url': 'http://evil.example/' }, true],
  ['all of two', { a: '1', b: '2' }, { a: '1', b: '3' }, false],
  ['an inherited name', { constructor: '*' }, {}, false],
])('when: %s', (_name, when, args, isDenied) => {
  const decided = decider(rule('deny', { tool: 'pay' }, when)).decide(call('pay', args))
  expect(decided.decision).toBe(isDenied ? 'deny' : 'allow')
  expect(decided.rule).toBe(isDenied ? 'Rule' : null)
})

test.each<[string, string, Record<string, unknown>, boolean]>([
  ['volume_delete', 'Volume_Delete', {}, true],
  ['mcp__github__*', 'mcp__github__push_files', {}, true],
  ['Bash(rm -rf *)', 'Bash', { command: 'cd x; rm -rf /' }, true],
  ['Bash(npm test:*)', 'Bash', { command: 'npm test -- x' }, true],
  ['Bash(rm *)', 'Bash', { script: 'rm x' }, true],
  ['Bash(rm *)', 'Bash', {}, true],
  ['Bash(rm *)', 'Bash', { command: 'ls' }, false],
  ['Read(//etc/**)', 'Read', { file_path: '/etc/passwd' }, true],
  ['Read(.env)', 'Read', { file_path: '/app/.env' }, true],
  ['WebFetch(domain:*.example)', 'WebFetch', { url: 'https://evil.example/x' }, true],
  ['WebFetch(domain:good.example)', 'WebFetch', { url: 'https://evil.example/good.example' }, false],
])('the tool %s is %s with %j: %s', (tool, name, args, isDenied) => {
  expect(decider(rule('deny', { tool })).decide(call(name, args)).decision).toBe(isDenied ? 'deny' : 'allow')
})

test('a rule that cannot be evaluated holds back a call, and allows none', () => {
  const document = { default: 'ask', ...rule('allow', { tool: 'pay' }, { 'amount|lt': 10 }) }
  expect(decider(document).decide(call('pay', { amount: 'none' })).decision).toBe('ask')
  expect(decider(document).decide(call('pay', { amount: 5 })).decision).toBe('allow')
  const held = decider(rule('ask', { tool: 'pay' }, { 'amount|gt': 10 })).decide(call('pay', { amount: 'none' }))
  expect(held).toMatchObject({ decision: 'ask', rule: 'Rule', why: expect.stringContaining('cannot be evaluated') })
})

test('whom a policy and a rule are for is said by operators’ tags and by the id', () => {
  const policy = { for: { tags: ['env:prod'] }, ...rule('deny', { agent: 'pay-*' }) }
  const decide = (more: Partial<Call>) => decider(policy).decide(call('x', {}, more)).decision
  expect(decide({ agent: 'pay-1', tags: ['env:prod'] })).toBe('deny')
  expect(decide({ agent: 'bot-1', tags: ['env:prod'] })).toBe('allow')
  expect(decide({ agent: 'pay-1', tags: ['env:dev'] })).toBe('allow')
  expect(decide({ agent: 'pay-1' })).toBe('allow')
})

test('a limit takes effect beyond its calls, and ends with its window', () => {
  const decide = decider(rule('deny', { tool: 'x' }, undefined, { limit: { calls: 2, within: '1m' } }))
  const at0 = (ms: number) => decide.decide(call('x', {}, { at: at + ms })).decision
  expect([at0(0), at0(1), at0(2), at0(59_999), at0(60_000), at0(60_002)]).toEqual([
    'allow',
    'allow',
    'deny',
    'deny',
    'allow',
    'allow',
  ])
})

test('hours and the end of a rule', () => {
  const night = (ms: number) =>
    decider(rule('deny', {}, undefined, { hours: '22:00-06:00' })).decide(call('x', {}, { at: ms })).decision
  expect([0, 5, 6, 12, 21, 22, 23].map((hour) => night(Date.UTC(2026, 0, 15, hour)))).toEqual([
    'deny',
    'deny',
    'allow',
    'allow',
    'allow',
    'deny',
    'deny',
  ])
  const until = decider(rule('deny', {}, undefined, { expires_at: '2026-01-15T12:00Z' }))
  expect([until.decide(call('x', {}, { at: at - 1 })).decision, until.decide(call('x')).decision]).toEqual([
    'deny',
    'allow',
  ])
})

test.each<[string, object, string, RegExp]>([
  ['unknown field', { rule: [] }, 'rule', /is unknown; known are title/],
  ['no title', { title: ' ' }, 'title', /1 to 500 characters/],
  ['mode', { mode: 'on' }, 'mode', /observe or enforce/],
  ['flow', { flow: 'high' }, 'flow', /off, default or strict/],
  ['decision', { rules: [{ title: 'a', decision: 'block' }] }, 'rules[0].decision', /allow, ask or deny/],
  ['tool', rule('deny', { tool: 'Bash(' }), 'rules[0].match.tool[0]', /such as send_email/],
  ['modifier', rule('deny', {}, { 'a|regex': 'x' }), 'rules[0].when.a|regex', /one of glob, re, in, host/],
  ['number', rule('deny', {}, { 'a|gt': 'x' }), 'rules[0].when.a|gt', /must be a number/],
  [
    'a pattern',
    rule('deny', {}, { 'a|re': 'x(' }),
    'rules[0].when.a|re',
    /has a pattern that has a \( without a \)\.$/,
  ],
  ['a costly pattern', rule('deny', {}, { 'a|re': '(x{99}){99}' }), 'rules[0].when.a|re', /would cost too much/],
  ['many patterns', rule('deny', {}, { 'a|re': Array(51).fill('x') }), 'rules[0].when.a|re', /at most 50 patterns/],
  ['no condition', rule('deny', {}, {}), 'rules[0].when', /map of 1 to 20/],
  [
    'limit',
    rule('deny', {}, undefined, { limit: { calls: 0, within: '1m' } }),
    'rules[0].limit.calls',
    /from 1 to 1000/,
  ],
  [
    'window',
    rule('deny', {}, undefined, { limit: { calls: 1, within: '2d' } }),
    'rules[0].limit.within',
    /at least 1s and at most 1d/,
  ],
  ['hours', rule('deny', {}, undefined, { hours: '22-6' }), 'rules[0].hours', /22:00-06:00/],
  ['end', rule('deny', {}, undefined, { expires_at: 'soon' }), 'rules[0].expires_at', /in UTC/],
  ['label', { labels: { x: { is: ['reads'] } } }, 'labels.x.is[0]', /untrusted, private/],
  ['pack', { labels: 'none' }, 'labels', /has no pack none/],
  ['rules', { rules: {} }, 'rules', /list of at most 200/],
  ['twice', { rules: [1, 2].map(() => ({ title: 'a', decision: 'deny' })) }, 'rules[1].title', /title of another rule/],
  [
    'case',
    rule('deny', {}, undefined, { cases: { match: [{ tool: 'x', args: [] }] } }),
    'rules[0].cases.match[0].args',
    /map/,
  ],
])('%s is refused with its place', (_name, document, path, message) => {
  const { faults } = readPolicy({ title: 'Test', ...document })
  expect(faults).toContainEqual({ path, message: expect.stringMatching(message) })
})

test.each([
  null,
  1,
  'text',
  [],
  { rules: [null, 1, 'x', []] },
  { labels: [[], 7] },
  { for: 3, rules: [{ match: 3, when: 3, cases: 3 }] },
])('the document %j is refused, not thrown at', (document) =>
  expect(readPolicy(document).faults.length).toBeGreaterThan(0),
)

test('lint finds cases that do not hold, arguments that no tool has, and rules that never decide', () => {
  const policy = read({
    rules: [
      {
        title: 'Mail',
        decision: 'ask',
        match: { tool: 'send_email' },
        when: { 'recipient|not_host': 'example.com' },
        cases: {
          match: [{ tool: 'send_email', args: { recipient: 'a@example.com' } }],
          no_match: [{ tool: 'send_email', args: { recipient: 'x' } }],
        },
      },
      { title: 'None', decision: 'deny', match: { tool: 'send_*' } },
      { title: 'Old', decision: 'deny', match: { tool: 'y' }, expires_at: '2025-01-01' },
    ],
  })
  const tools = [{ name: 'send_email', inputSchema: { properties: { recipients: {}, body: {} } } }]
  expect(lintPolicy(policy, tools, at)).toEqual([
    { path: 'rules[0].cases.match[0]', message: 'is a call that does not match the rule.' },
    { path: 'rules[0].cases.no_match[0]', message: 'is a call that cannot be evaluated for the rule.' },
    {
      path: 'rules[0].when.recipient|not_host',
      message: 'is no argument of the tool send_email: it has recipients, body.',
    },
    { path: 'rules[0]', message: 'never decides: the rule "None" matches the same calls, and its deny is stricter.' },
    { path: 'rules[2].expires_at', message: 'is over: the rule never takes effect.' },
  ])
})

test.each<[string, object, object, string | undefined]>([
  [
    'the same',
    { decision: 'allow' },
    { decision: 'deny' },
    'contradicts the rule "b": both match the same calls, with allow and deny',
  ],
  [
    'the same tool and condition',
    { decision: 'allow', match: { tool: 'x' }, when: { to: ['a', 'b'] } },
    { decision: 'deny', match: { tool: 'x' }, when: { to: ['b', 'a'] } },
    'contradicts',
  ],
  [
    'fewer conditions',
    { decision: 'allow', when: { to: 'a', cc: 'b' } },
    { decision: 'deny', when: { to: 'a' } },
    'never decides: the rule "b" matches the same calls, and its deny is stricter',
  ],
  [
    'more conditions',
    { decision: 'allow', when: { to: 'a' } },
    { decision: 'deny', when: { to: 'a', cc: 'b' } },
    undefined,
  ],
  ['other values', { decision: 'allow', when: { to: 'a' } }, { decision: 'deny', when: { to: 'b' } }, undefined],
  [
    'some tags',
    { decision: 'allow', match: { tags: ['x'] } },
    { decision: 'deny', match: { tags: ['x', 'y'] } },
    'never decides',
  ],
  ['every tag', { decision: 'allow' }, { decision: 'deny', match: { tags: ['x'] } }, undefined],
  ['a limit', { decision: 'ask' }, { decision: 'deny', limit: { calls: 2, within: '1m' } }, undefined],
  ['hours', { decision: 'ask' }, { decision: 'deny', hours: '22:00-06:00' }, undefined],
  ['an end', { decision: 'ask' }, { decision: 'deny', expires_at: '2030-01-01' }, undefined],
  [
    'a tool with an argument',
    { decision: 'ask', match: { tool: 'Bash(rm *)' } },
    { decision: 'deny', match: { tool: 'Bash(rm *)' } },
    'contradicts',
  ],
  [
    'a narrower tool',
    { decision: 'ask', match: { tool: 'Bash' } },
    { decision: 'deny', match: { tool: 'Bash(rm *)' } },
    undefined,
  ],
  [
    'two people',
    { decision: 'ask', match: { tool: 'x' } },
    { decision: 'ask', match: { tool: '*' }, approvals: 2 },
    'never decides',
  ],
])('lint compares two rules: %s', (_name, one, other, message) => {
  const policy = read({
    rules: [
      { title: 'a', ...one },
      { title: 'b', ...other },
    ],
  })
  expect(lintPolicy(policy, [], at)).toEqual(
    message === undefined ? [] : [{ path: 'rules[0]', message: expect.stringContaining(message) }],
  )
})

test('of two rules that say the same the second never decides, and a narrow one before a wide one does', () => {
  const [narrow, wide] = [
    { title: 'n', decision: 'ask', match: { tool: 'send_email' } },
    { title: 'w', decision: 'ask', match: { tool: 'send_*' } },
  ]
  expect(lintPolicy(read({ rules: [narrow, wide] }), [], at)).toEqual([])
  expect(lintPolicy(read({ rules: [wide, narrow] }), [], at)).toEqual([
    { path: 'rules[1]', message: 'never decides: the rule "w" before it matches the same calls, with the same ask.' },
  ])
})

const someRule = fc.record({
  decision: fc.constantFrom(...decisions),
  tool: fc.constantFrom('*', 'send_*', 'send_email', 'read', 'Bash(rm *)'),
  when: fc.constantFrom(undefined, { 'to|not_host': ['example.com'] }, { 'amount|gt': 10 }, { to: 'bob*' }),
})
const someCall = fc.record({
  tool: fc.constantFrom('send_email', 'read', 'Bash'),
  args: fc.record(
    {
      to: fc.constantFrom('bob@example.com', 'eve@evil.example', 'bob', 7),
      amount: fc.constantFrom(1, 100, '50', 'x'),
      command: fc.constantFrom('ls', 'rm x'),
    },
    { requiredKeys: [] },
  ),
})
const decideBy = (
  rules: { decision: string; tool: string; when: object | undefined }[],
  one: { tool: string; args: object },
) =>
  decider({
    rules: rules.map(({ decision, tool, when }, index) => ({
      title: `${index}`,
      decision,
      match: { tool },
      ...(when ? { when } : {}),
    })),
  }).decide(call(one.tool, one.args as Record<string, unknown>)).decision

test('the strictest rule wins in any order, and one more rule never loosens', () => {
  const rank = (decision: string) => decisions.indexOf(decision as never)
  fc.assert(
    fc.property(fc.array(someRule, { maxLength: 6 }), someRule, someCall, (rules, another, one) => {
      const before = decideBy(rules, one)
      expect(decideBy(rules.toReversed(), one)).toBe(before)
      expect(rank(decideBy([...rules, another], one))).toBeGreaterThanOrEqual(rank(before))
      const each = rules.map((single) => rank(decideBy([single], one)))
      expect(rank(before)).toBe(Math.max(0, ...each))
    }),
    { numRuns: 300 },
  )
})
