import type { PolicyBacktest, PolicyStored } from '@wardline/contract'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { dayMs, isoTime } from '../../clock.ts'
import { openRuleService, type RuleService } from '../../testing/rule-service.ts'
import { adminKey } from '../../testing/service.ts'

let on: RuleService
beforeEach(async () => {
  on = await openRuleService()
})
afterEach(() => on[Symbol.asyncDispose]())

const call = (tool: string, params?: object, more: object = {}, metadata: object = {}) => ({
  severity: 'info',
  source: 'test',
  event_type: 'tool_call',
  description: tool,
  instance_id: 'agent-1',
  session_id: 's1',
  metadata: { toolName: tool, ok: true, ...(params ? { params } : {}), ...metadata },
  ...more,
})
const policy = (more: object = {}) => ({
  title: 'Mail',
  rules: [
    { title: 'Never', decision: 'deny', match: { tool: 'volume_delete' } },
    { title: 'Outside', decision: 'ask', match: { tool: 'send_email' }, when: { 'to|not_host': 'example.com' } },
  ],
  ...more,
})
/** What is stored now is before the end of a backtest that begins a moment later. */
const report = async (...events: object[]) => {
  await on.report(...events)
  on.clock.advance(1)
}
const backtest = async (body: object) => {
  const answer = await on.call<PolicyBacktest & { error: string }>('POST', '/api/policies/backtest', { body })
  expect(answer.body.error).toBeUndefined()
  return answer.body
}

it('counts what rules would have decided on stored calls, with the newest as examples', async () => {
  await report(
    call('send_email', { to: 'ada@example.com' }),
    call('send_email', { to: 'eve@evil.example' }),
    call('volume_delete', { id: 'v1' }, { instance_id: 'agent-2', session_id: 's2' }),
    call('send_email', undefined, { session_id: 's3' }),
    { ...call('volume_delete'), event_type: 'policy_note' },
    { ...call('volume_delete'), metadata: {} },
  )
  const found = await backtest({ policy: policy() })
  expect(found).toMatchObject({
    calls: 4,
    asked: 1,
    denied: 1,
    agents: 2,
    sessions: 3,
    asks_per_session: 0.33,
    unjudged: 0,
    without_arguments: 1,
    rules: [
      { rule: 'Outside', decision: 'ask', count: 1 },
      { rule: 'Never', decision: 'deny', count: 1 },
    ],
    evicted: 0,
  })
  expect(found.samples).toMatchObject([
    { instance_id: 'agent-2', session_id: 's2', tool: 'volume_delete', decision: 'deny', rule: 'Never', why: null },
    { instance_id: 'agent-1', session_id: 's1', tool: 'send_email', decision: 'ask', rule: 'Outside' },
  ])
})

it('is of a stored policy, for its agents, by the tags of operators', async () => {
  for (const id of ['agent-1', 'agent-2']) {
    await on.call('POST', '/api/heartbeat', { body: { instance_id: id, name: id, tags: ['prod'] } })
  }
  await on.call('PUT', '/api/instances/agent-2/tags', { body: { tags: ['prod'] } })
  await report(call('volume_delete'), call('volume_delete', {}, { instance_id: 'agent-2' }))
  const { body } = await on.call<PolicyStored>('POST', '/api/policies', { body: policy({ for: { tags: ['prod'] } }) })
  expect(await backtest({ id: body.id })).toMatchObject({ calls: 1, denied: 1, samples: [{ instance_id: 'agent-2' }] })
})

it('judges a flow by the tools that answered before, and destinations only where they were stored', async () => {
  const labels = {
    read_inbox: { is: ['untrusted'] },
    send_email: { is: ['sends'], destination: ['to'] },
  }
  const send = (session_id: string, metadata: object = {}) =>
    call('send_email', { to: 'a@b.example' }, { session_id }, metadata)
  const read = (session_id: string) => call('read_inbox', {}, { session_id })
  await report(
    send('before'),
    read('stored'),
    send('stored', { flow: { met: ['untrusted'], proven: false } }),
    send('stored', { flow: { met: ['untrusted'], proven: true } }),
    read('unstored'),
    send('unstored'),
    send('odd', { flow: 'x' }),
  )
  expect(await backtest({ policy: { title: 'Flow', flow: 'default', labels } })).toMatchObject({
    calls: 7,
    asked: 1,
    unjudged: 1,
    rules: [{ rule: 'flow', decision: 'ask', count: 1 }],
    samples: [{ session_id: 'stored', why: expect.stringContaining('after untrusted text was read (read_inbox)') }],
  })
})

it('begins limits a day before the range, and counts only calls within it', async () => {
  const limited = { title: 'Two a day', decision: 'ask', match: { tool: 'pay' }, limit: { calls: 2, within: '1d' } }
  await report(call('pay'), call('pay'))
  on.clock.advance(dayMs / 2)
  const from = isoTime(on.clock.now())
  await report(call('pay'), call('pay'))
  expect(await backtest({ policy: policy({ rules: [limited] }), from })).toMatchObject({ calls: 2, asked: 2 })
  on.clock.advance(dayMs)
  const later = isoTime(on.clock.now())
  await report(call('pay'))
  expect(await backtest({ policy: policy({ rules: [limited] }), from: later })).toMatchObject({
    calls: 1,
    asked: 0,
  })
})

it('forgets the sessions with the oldest calls beyond 5,000, and says so', async () => {
  const sessions = Array.from({ length: 5_010 }, (_, n) => call('pay', {}, { session_id: `s${n}` }))
  for (let at = 0; at < sessions.length; at += 1_000) await report(...sessions.slice(at, at + 1_000))
  expect(await backtest({ policy: policy() })).toMatchObject({ calls: 5_010, sessions: 5_010, evicted: 10 })
})

it('streams progress and its result, and refuses what it cannot run', async () => {
  await report(call('volume_delete'))
  const { body: text } = await on.app.inject({
    method: 'POST',
    url: '/api/policies/backtest',
    headers: { 'x-monitor-key': adminKey, accept: 'application/x-ndjson' },
    payload: { policy: policy() },
  })
  const lines = text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))
  expect(lines[0]).toEqual({ progress: { events_read: 0, percent: 0 } })
  expect(lines.at(-1).result).toMatchObject({ denied: 1 })
  for (const [body, status, error] of [
    [{}, 400, /^Give either policy/],
    [{ policy: policy(), id: '00000000-0000-7000-8000-000000000001' }, 400, /^Give either policy/],
    [{ id: '00000000-0000-7000-8000-000000000001' }, 404, /00000000/],
    [{ policy: policy({ flow: 'x' }) }, 400, /^Line \d+, column \d+: flow must be/],
    [{ policy: policy(), from: '2020-01-01T00:00:00Z' }, 400, /90 days apart/],
  ] as const) {
    const answer = await on.call<{ error: string }>('POST', '/api/policies/backtest', { body })
    expect([answer.status, answer.body.error]).toEqual([status, expect.stringMatching(error)])
  }
  const { key } = await on.createKey('viewer')
  expect((await on.call('POST', '/api/policies/backtest', { body: { policy: policy() }, key })).status).toBe(403)
})

it('reads hostile calls without failing', async () => {
  await report(
    call('__proto__', { __proto__: { a: 1 }, constructor: null }),
    call('x'.repeat(5_000), { to: 'x'.repeat(10_000) }),
    call('send_email', { to: [[[[[[{ deep: 'eve@evil.example' }]]]]]] }),
    { ...call('send_email'), metadata: { toolName: 'send_email', params: 'text' } },
    { ...call('send_email'), metadata: { toolName: ['list'], params: null } },
    { ...call('\u001b[31mred'), instance_id: undefined, session_id: undefined },
  )
  const found = await backtest({ policy: policy({ default: 'ask', flow: 'strict' }) })
  expect(found.calls).toBeGreaterThan(3)
  expect(found.samples.every(({ tool }) => tool.length <= 200)).toBe(true)
})
