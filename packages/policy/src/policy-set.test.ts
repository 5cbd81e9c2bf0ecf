import { expect, test } from 'vitest'
import { deliveredDocument } from './delivered.ts'
import { SessionMemory } from './memory.ts'
import { isForAgent, modeFor, readPolicy } from './policy.ts'
import { type DeliveredSet, PolicySet, PolicySetFault } from './policy-set.ts'

const at = Date.UTC(2026, 0, 15, 12)
const policy = (id: string, document: object, mode: 'observe' | 'enforce' = 'enforce') => {
  return { id, title: `Policy ${id}`, version: 3, mode, document: { title: `Policy ${id}`, ...document } }
}
const setOf = (...policies: DeliveredSet['policies'][number][]) =>
  new PolicySet({ agent: { id: 'bot-1', tags: ['env:prod'] }, policies })
const rule = (decision: string, more: object = {}) => ({
  rules: [{ title: `Rule ${decision}`, decision, match: { tool: 'pay' }, ...more }],
})
const pay = (args: unknown = {}, more = {}) => ({ tool: 'pay', args, at, ...more })

test('the strictest policy decides, and is named', () => {
  const set = setOf(policy('a', rule('allow')), policy('b', rule('ask')), policy('c', rule('deny')))
  expect(set.decide(new SessionMemory(), pay())).toEqual({
    decision: 'deny',
    rule: 'Rule deny',
    why: null,
    policy: { id: 'c', title: 'Policy c', version: 3 },
    approvals: 1,
    waitMs: 600_000,
    observed: [],
  })
  const other = set.decide(new SessionMemory(), { tool: 'x', args: {}, at })
  expect(other).toMatchObject({ decision: 'allow', rule: null, policy: null })
})

test('a question to two people is stricter than one to one, wherever it stands', () => {
  const one = { title: 'One', decision: 'ask', match: { tool: 'pay' }, wait: '1h' }
  const two = { title: 'Two', decision: 'ask', match: { tool: 'pay' }, approvals: 2, wait: '30m' }
  for (const rules of [
    [one, two],
    [two, one],
  ]) {
    const decided = setOf(policy('a', { rules })).decide(new SessionMemory(), pay())
    expect(decided).toMatchObject({ rule: 'Two', approvals: 2, waitMs: 1_800_000 })
  }
  const asked = setOf(policy('a', { rules: [one] }), policy('b', { rules: [two] }))
  expect(asked.decide(new SessionMemory(), pay())).toMatchObject({ rule: 'Two', policy: { id: 'b' } })
})

test('a policy in mode observe says what it would have decided, and changes nothing', () => {
  const enforced = policy('a', { flow: 'default', labels: { pay: { is: ['sends'], destination: ['to'] } } })
  const observed = policy(
    'b',
    { ...rule('deny'), flow: 'strict', labels: { list: { is: ['untrusted', 'directory'] } } },
    'observe',
  )
  const set = setOf(enforced, observed)
  const memory = new SessionMemory()
  const first = set.decide(memory, pay())
  expect(first).toMatchObject({ decision: 'allow', policy: null })
  expect(first.observed).toEqual([
    { decision: 'deny', rule: 'Rule deny', why: null, policy: { id: 'b', title: 'Policy b', version: 3 } },
  ])
  // What only the observed policy trusts proves nothing for the enforced one.
  set.learn(memory, { tool: 'list', args: {} }, ['eve@evil.example'])
  const alone = setOf(enforced)
  const asked = pay({ to: 'eve@evil.example' })
  expect(set.decide(memory, asked).decision).toBe('ask')
  expect(alone.decide(memory, asked).decision).toBe('ask')
})

test('counts of limits are stored with the session, by policy and rule', () => {
  const limited = { ...rule('deny', { limit: { calls: 2, within: '1m' } }) }
  const set = setOf(policy('a', limited))
  let memory = new SessionMemory()
  const next = (set_ = set) => {
    memory = new SessionMemory(JSON.parse(JSON.stringify(memory.stored())))
    return set_.decide(memory, pay()).decision
  }
  expect([next(), next(), next(), next()]).toEqual(['allow', 'allow', 'deny', 'deny'])
  expect(next(setOf(policy('other', limited)))).toBe('allow')
})

test('a call that another rule denies does not count for a limit', () => {
  const set = setOf(
    policy('a', rule('deny', { limit: { calls: 1, within: '1m' } })),
    policy('b', { rules: [{ title: 'None', decision: 'deny', match: { tool: 'pay' }, when: { to: 'eve' } }] }),
  )
  const memory = new SessionMemory()
  const decided = ['eve', 'eve', 'ada', 'ada'].map((to) => set.decide(memory, pay({ to })).rule)
  expect(decided).toEqual(['None', 'None', null, 'Rule deny'])
})

test('a total takes effect for the call that would exceed it', () => {
  const set = setOf(policy('a', rule('ask', { limit: { total: 500, of: 'items.amount', within: '1d' } })))
  const memory = new SessionMemory()
  const decide = (amounts: unknown[], ms = 0) =>
    set.decide(memory, pay({ items: amounts.map((amount) => ({ amount })) }, { at: at + ms }))
  expect(decide([100, '200.5']).decision).toBe('allow')
  expect(decide([200]).decision).toBe('ask')
  expect(decide([199.5]).decision).toBe('allow')
  expect(decide([0.01]).decision).toBe('ask')
  for (const unknown of [[-600], ['much'], [Number.NaN], [true], []]) {
    expect(decide(unknown)).toMatchObject({ decision: 'ask', why: expect.stringContaining('cannot be evaluated') })
  }
  expect(decide([500], 86_400_000).decision).toBe('allow')
})

test('a session that counts a lot stays bounded, and a limit never loosens', () => {
  const rules = Array.from({ length: 40 }, (_, index) => {
    return { title: `${index}`, decision: 'deny', match: { tool: `t${index}` }, limit: { calls: 1_000, within: '1d' } }
  })
  const set = setOf(policy('a', { rules }))
  const memory = new SessionMemory()
  const decided: string[] = []
  for (let call = 0; call < 1_001; call++) {
    for (let index = 0; index < 40; index++) {
      const { decision } = set.decide(memory, { tool: `t${index}`, args: {}, at: at + call * 60_000 })
      if (call >= 999) decided.push(`${call} ${decision}`)
    }
  }
  expect(new Set(decided)).toEqual(new Set(['999 allow', '1000 deny']))
  expect(JSON.stringify(memory.stored().counts).length).toBeLessThan(25_000)
})

test('more tools than are remembered count as untrusted text', () => {
  const set = setOf(policy('a', { flow: 'default', labels: { pay: { is: ['sends'] }, list: { is: [] } } }))
  const memory = new SessionMemory()
  set.learn(memory, { tool: 'list', args: {} }, 'x')
  expect(set.decide(memory, pay()).decision).toBe('allow')
  for (let index = 0; index < 200; index++)
    memory.learn(`tool${index}`, { args: {}, conditional: [], isDirectory: false }, '')
  const again = new SessionMemory(JSON.parse(JSON.stringify(memory.stored())))
  expect([memory, again].map((one) => set.decide(one, pay()).decision)).toEqual(['ask', 'ask'])
})

test.each<[string, unknown]>([
  ['nothing', null],
  ['another version', { version: 9 }],
  [
    'texts that are none',
    { version: 1, key: 'k', words: 7, values: '', addresses: '', tools: [], more: false, counts: {} },
  ],
  [
    'counts that are none',
    { version: 1, key: 'k', words: '', values: '', addresses: '', tools: [], more: false, counts: { a: ['x'] } },
  ],
])('a stored memory of %s counts as one that read untrusted text', (_name, stored) => {
  const set = setOf(policy('a', { flow: 'default', labels: { pay: { is: ['sends'] } } }))
  expect(set.decide(new SessionMemory(stored as never), pay()).decision).toBe('ask')
})

test('a label that depends on an argument holds for what was read with it', () => {
  const labels = { open: { is: [], when: { url: ['untrusted'] } }, pay: { is: ['sends'], destination: ['to'] } }
  const set = setOf(policy('a', { flow: 'default', labels }))
  const memory = new SessionMemory()
  set.learn(memory, { tool: 'open', args: { url: '' } }, 'x')
  expect(set.decide(memory, pay({ to: 'bob' })).decision).toBe('allow')
  set.learn(memory, { tool: 'open', args: { url: 'https://a.example' } }, 'x')
  expect(set.decide(memory, pay({ to: 'bob' })).decision).toBe('ask')
})

test('arguments that cannot be read as a whole meet every rule that holds back', () => {
  const cycle: Record<string, unknown> = { to: 'bob' }
  cycle.self = cycle
  const deep = JSON.parse(`{"to":${'['.repeat(5_000)}${']'.repeat(5_000)}}`)
  const many = { to: Array.from({ length: 30_000 }, () => 'bob') }
  const throws = {
    get to() {
      throw new Error('no')
    },
  }
  const set = setOf(
    policy('a', {
      default: 'ask',
      rules: [
        { title: 'Eve', decision: 'deny', match: { tool: 'pay' }, when: { to: 'eve' } },
        { title: 'Bob', decision: 'allow', match: { tool: 'pay' }, when: { to: 'bob' } },
      ],
    }),
  )
  expect(set.decide(new SessionMemory(), pay({ to: 'bob' })).decision).toBe('allow')
  for (const args of [cycle, deep, many, throws, ['bob'], 'bob', 7]) {
    expect(set.decide(new SessionMemory(), pay(args)).rule).toBe('Eve')
  }
  expect(set.decide(new SessionMemory(), pay(undefined)).decision).toBe('ask')
})

test('values that JSON has no form for are compared as JSON would write them', () => {
  const host = policy('a', rule('deny', { when: { 'url|host': 'evil.example' } }))
  const big = policy('b', rule('deny', { when: { 'amount|gt': 10 } }))
  const decide = (args: object) => setOf(host, big).decide(new SessionMemory(), pay(args)).policy?.id
  expect(decide({ url: new URL('https://evil.example/') })).toBe('a')
  expect(decide({ url: new Map([['x', 'http://evil.example']]) })).toBe('a')
  expect(decide({ amount: 10n ** 20n })).toBe('b')
  expect(decide({ amount: Number.NaN })).toBe('b')
  expect(decide(JSON.parse('{"__proto__":{"amount":50}}'))).toBeUndefined()
})

test.each<[string, unknown, RegExp]>([
  ['nothing', null, /agent must be/],
  ['tags that are none', { agent: { id: 'a', tags: 'x' }, policies: [] }, /agent must be/],
  ['no policies', { agent: { id: 'a', tags: [] } }, /policies must be a list/],
  ['a policy that is none', { agent: { id: 'a', tags: [] }, policies: [null] }, /policies\[0\] must have/],
  [
    'a newer grammar',
    { agent: { id: 'a', tags: [] }, policies: [policy('a', { quota: 1 })] },
    /"Policy a" cannot be read: quota is unknown/,
  ],
])('a set with %s is refused', (_name, set, message) => {
  expect(() => new PolicySet(set as DeliveredSet)).toThrow(PolicySetFault)
  expect(() => new PolicySet(set as DeliveredSet)).toThrow(message)
})

test.each<[string, string]>([
  ['deep lists', '['.repeat(50_000) + ']'.repeat(50_000)],
  [
    'a deep value',
    `{"title":"x","rules":[{"title":"x","decision":"deny","hours":${'['.repeat(50_000)}${']'.repeat(50_000)}}]}`,
  ],
  [
    'a deep case',
    `{"title":"x","rules":[{"title":"x","decision":"deny","cases":{"match":[{"tool":"x","args":{"a":${'['.repeat(50_000)}${']'.repeat(50_000)}}}]},"limit":{"within":{"toString":1}}}]}`,
  ],
  [
    'prototypes',
    '{"title":"x","labels":"__proto__","for":{"__proto__":1},"rules":[{"__proto__":{"decision":"deny"}}]}',
  ],
  ['names of prototypes', '{"title":"x","labels":["constructor"],"flow":"toString","mode":"__proto__"}'],
  ['thousands of faults', JSON.stringify({ title: 'x', rules: Array.from({ length: 200 }, () => ({ x: 1, y: 2 })) })],
])('a document of %s is refused, not thrown at', (_name, text) => {
  const { faults } = readPolicy(JSON.parse(text))
  expect(faults.length).toBeGreaterThan(0)
  expect(faults.length).toBeLessThanOrEqual(100)
})

test('a policy in mode observe is enforced for the agents that it names', () => {
  const { policy: read, faults } = readPolicy({
    title: 'x',
    for: { agents: ['bot-*'] },
    enforce_for: { tags: ['canary'] },
  })
  expect(faults).toEqual([])
  expect(modeFor(read, { id: 'bot-1', tags: ['canary'] })).toBe('enforce')
  expect(modeFor(read, { id: 'bot-1', tags: [] })).toBe('observe')
  expect([isForAgent(read.for, { id: 'bot-1' }), isForAgent(read.for, { id: 'x' })]).toEqual([true, false])
})

test.each<[string, object, string, RegExp]>([
  ['approvals', { decision: 'ask', approvals: 3 }, 'rules[0].approvals', /1 or 2/],
  [
    'approvals of a denial',
    { decision: 'deny', approvals: 2 },
    'rules[0].approvals',
    /only for rules whose decision is ask/,
  ],
  ['a wait too short', { decision: 'ask', wait: '9s' }, 'rules[0].wait', /at least 10s and at most 1d/],
  ['a total without an argument', { decision: 'ask', limit: { total: 5, within: '1d' } }, 'rules[0].limit.of', /text/],
  [
    'calls and a total',
    { decision: 'ask', limit: { total: 5, calls: 5, of: 'x', within: '1d' } },
    'rules[0].limit',
    /calls, or total and of/,
  ],
  ['enforce_for', {}, 'enforce_for.tags', /1 to 500 entries/],
])('%s is refused with its place', (_name, more, path, message) => {
  const { faults } = readPolicy({
    title: 'x',
    enforce_for: { tags: [] },
    rules: [{ title: 'x', decision: 'deny', ...more }],
  })
  expect(faults).toContainEqual({ path, message: expect.stringMatching(message) })
})

test('a delivered document has labels as a map, and decides the same', () => {
  const document = {
    title: 'x',
    description: 'For people.',
    flow: 'strict',
    rules: [
      { title: 'a', description: 'b', decision: 'deny', match: { tool: 'x' }, cases: { match: [{ tool: 'x' }] } },
    ],
    labels: ['office', { pay: { is: ['sends'], when: { to: ['irreversible'] } } }],
  }
  const delivered = JSON.parse(JSON.stringify(deliveredDocument(document)))
  expect(delivered.rules).toEqual([{ title: 'a', decision: 'deny', match: { tool: 'x' } }])
  expect(delivered.description).toBeUndefined()
  expect(delivered.labels.pay).toEqual({ is: ['sends'], destination: [], when: { to: ['irreversible'] } })
  const [stored, sent] = [document, delivered].map((one) => readPolicy(one))
  expect(sent!.faults).toEqual([])
  expect(sent!.policy.labels).toEqual(stored!.policy.labels)
})
