import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { createMonitorWith } from '../agent-monitor.ts'
import { CallDenied } from '../denied.ts'
import type { Monitor, MonitorOptions } from '../monitor.ts'
import { type Answerer, sendJson, startHostileService } from '../testing/hostile-service.ts'
import { agentId, eventually, fastPace, streamOpen, TestFleet } from '../testing/service.ts'

const policy = {
  title: 'Mail',
  rules: [{ title: 'Mail outside the company', decision: 'ask', match: { tool: 'send_email' } }],
}
const outcomeOf = (call: Promise<unknown>) => call.catch((fault: unknown) => fault)

describe('with the service', () => {
  let fleet: TestFleet
  let monitor: Monitor
  let sent: object[]
  const send = (to: string, options: { onAsk?: 'wait' | 'deny' } = {}) =>
    monitor.guardTool('send_email', async (args: object) => sent.push(args), options)({ to })
  beforeEach(async () => {
    fleet = await TestFleet.open()
    await fleet.addPolicy(policy)
    monitor = fleet.monitor({}, { approval: 600_000 }).monitor
    sent = []
    await monitor.start()
    await streamOpen(monitor)
  })
  afterEach(() => fleet[Symbol.asyncDispose]())

  test('a call waits for a person and runs once it is approved, as the stream says', async () => {
    const call = send('anna@example.com')
    const { id, ...asked } = await fleet.pendingApproval()
    expect(asked).toMatchObject({ tool: 'send_email', rule: 'Mail outside the company', instance_id: agentId })
    expect(asked.args).toBe('{"to":"anna@example.com"}')
    expect(sent).toEqual([])
    await fleet.decide(id, 'approve')
    await call
    expect(sent).toEqual([{ to: 'anna@example.com' }])
    const { approvals } = await fleet.approvals()
    expect(approvals).toMatchObject([{ id, state: 'granted' }])
  })

  test('a call that a person denies does not run, and the model reads the reason', async () => {
    const call = outcomeOf(send('mallory@evil.example'))
    const { id } = await fleet.pendingApproval()
    await fleet.decide(id, 'deny', { reason: 'Not this address' })
    const denied = (await call) as CallDenied
    expect(denied).toBeInstanceOf(CallDenied)
    expect(denied).toMatchObject({
      code: 'approval',
      rule: 'Mail outside the company',
      approvalId: id,
      retryable: false,
    })
    expect(denied.denial.reason).toBe(
      'The policy of this agent asks a person. It was denied (Not this address). Do not retry it.',
    )
    expect(sent).toEqual([])
  })

  test('with onAsk deny the call is denied at once, and its retry takes the approval, once', async () => {
    const denied = (await outcomeOf(send('anna@example.com', { onAsk: 'deny' }))) as CallDenied
    const { id } = await fleet.pendingApproval()
    expect(denied).toMatchObject({ code: 'approval', approvalId: id, retryable: true })
    expect(denied.denial.reason).toBe(`Denied: approval ${id} is pending. Retry the same call later.`)
    await fleet.decide(id, 'approve')
    // Other arguments are another call.
    await expect(send('mallory@evil.example', { onAsk: 'deny' })).rejects.toThrow('is pending')
    await send('anna@example.com', { onAsk: 'deny' })
    await expect(send('anna@example.com', { onAsk: 'deny' })).rejects.toThrow('is pending')
    expect(sent).toEqual([{ to: 'anna@example.com' }])
  })

  test('identical calls are one question, and one approval runs one of them', async () => {
    const calls = [send('anna@example.com'), send('anna@example.com')].map(outcomeOf)
    const { id } = await fleet.pendingApproval()
    await eventually(async () => expect((await fleet.pendingApproval()).asked).toBe(2))
    await fleet.decide(id, 'approve')
    await Promise.race(calls)
    expect(sent).toHaveLength(1)
    const next = await fleet.pendingApproval()
    await fleet.decide(next.id, 'deny')
    await Promise.all(calls)
    expect(sent).toHaveLength(1)
  })

  test('a suspension ends the waiting, and an approval after it runs nothing', async () => {
    const call = outcomeOf(send('anna@example.com'))
    const { id } = await fleet.pendingApproval()
    await fleet.kill('test')
    expect(await call).toMatchObject({ code: 'suspended' })
    await fleet.decide(id, 'approve').catch(() => {})
    expect(sent).toEqual([])
  })

  test('stop() and the signal of a call end the waiting', async () => {
    const gone = new AbortController()
    const call = { toolName: 'send_email', args: { to: 'anna@example.com' } }
    let waitsFor = ''
    const onWait = (id: string) => {
      waitsFor = id
    }
    const denial = monitor.guard({ ...call, onWait, signal: gone.signal })
    await eventually(() => expect(waitsFor).not.toBe(''))
    gone.abort()
    expect(await denial).toMatchObject({ code: 'approval', approvalId: waitsFor, retryable: true })
    const stopped = monitor.guard({ ...call, onWait })
    await eventually(async () => expect((await fleet.pendingApproval()).asked).toBe(2))
    await monitor.stop()
    expect(await stopped).toMatchObject({ code: 'approval' })
  })

  test('without a stream the decision arrives with the next request', async () => {
    const { monitor: polling } = fleet.monitor(
      { instanceId: 'polling', key: await fleet.createKey(['polling']) },
      { approval: 50 },
    )
    fleet.wire.cut = /polling\/control/
    await polling.start()
    const call = polling.guard({ toolName: 'send_email', args: {} })
    await fleet.decide((await fleet.pendingApproval('polling')).id, 'approve')
    expect(await call).toBeUndefined()
  })

  test('a lost answer to the request that took the approval does not lose it', async () => {
    const { monitor: polling } = fleet.monitor(
      { instanceId: 'polling', key: await fleet.createKey(['polling']) },
      { approval: 50 },
    )
    await polling.start()
    const call = polling.guard({ toolName: 'send_email', args: {} })
    const { id } = await fleet.pendingApproval('polling')
    fleet.wire.cutAnswer = /polling\/approvals/
    await fleet.decide(id, 'approve')
    await eventually(async () => expect((await fleet.approvals()).approvals).toMatchObject([{ state: 'granted' }]))
    fleet.wire.cutAnswer = /(?!)/
    expect(await call).toBeUndefined()
  })

  test('arguments are shown without secrets, and never reported', async () => {
    const key = `sk-ant-api03-${'a1B2'.repeat(24)}`
    const call = outcomeOf(
      monitor.guard({ toolName: 'send_email', args: { to: 'a@b.example', token: key, text: key } }),
    )
    const { id, args } = await fleet.pendingApproval()
    expect(args).not.toContain('a1B2')
    await fleet.decide(id, 'deny')
    await call
  })

  // A person would otherwise approve what they cannot read as a whole.
  test('arguments that cannot be hashed are denied in every fail mode', async () => {
    let deep: unknown = 'x'
    for (let level = 0; level < 100; level++) deep = { deep }
    const denial = await monitor.guard({ toolName: 'send_email', args: { deep } })
    expect(denial).toMatchObject({ code: 'approval', approvalId: undefined })
    expect((await fleet.approvals()).approvals).toEqual([])
    await monitor.flush()
    expect(await fleet.events('tool_blocked')).toMatchObject([{ metadata: { decision: 'ask' } }])
  })

  test('the agent goes on within 100 ms of the decision, over the stream', async () => {
    const took: number[] = []
    for (let run = 0; run < 40; run++) {
      const call = send(`anna${run}@example.com`).then(() => performance.now())
      const { id } = await fleet.pendingApproval()
      const pressedAt = performance.now()
      await fleet.decide(id, 'approve')
      took.push((await call) - pressedAt)
    }
    took.sort((one, other) => one - other)
    // The limit is for an idle machine; a busy one takes longer.
    expect(took[20]).toBeLessThan(500)
  })
})

describe('with a service that answers strangely', () => {
  const set = {
    agent: { id: agentId, tags: [] },
    policies: [
      { id: '01900000-0000-7000-8000-000000000000', title: 'Mail', version: 1, mode: 'enforce', document: policy },
    ],
  }

  async function start(answer: Answerer, options: Partial<MonitorOptions> = {}) {
    const service = { asked: [] as Record<string, unknown>[] }
    const url = await startHostileService((request, response, body) => {
      const { url: path = '' } = request
      if (path.includes('/control')) return sendJson(response, 404, { error: 'no' })
      if (path.endsWith('/approvals')) {
        service.asked.push(JSON.parse(body))
        return answer(request, response, body)
      }
      if (path.endsWith('/policy')) {
        return sendJson(response, 200, { instance_id: agentId, version: 1, body: JSON.stringify(set) })
      }
      const headers = { 'x-wardline-decoys': 'none', 'x-wardline-policy': '1', etag: 'W/"0"' }
      sendJson(
        response,
        200,
        path.endsWith('/status') ? { suspended: false, reason: null } : { ok: true, errors: [] },
        headers,
      )
    })
    const pace = { ...fastPace, approval: 5, request: 200, flush: 200 }
    const monitor = createMonitorWith({ url, key: 'key', instanceId: agentId, ...options }, pace)
    onTestFinished(() => monitor.stop())
    await monitor.start()
    return { service, ask: () => monitor.guard({ toolName: 'send_email', args: { to: 'a@b.example' } }), monitor }
  }
  const id = '01900000-0000-7000-8000-000000000001'
  const state =
    (name: string, more: object = {}): Answerer =>
    (_, response) =>
      sendJson(response, 200, { id, state: name, expires_at: '2026-11-27T12:00:00.000Z', reason: null, ...more })

  test('an expired question denies the call', async () => {
    const { ask } = await start(state('expired'))
    expect(await ask()).toMatchObject({
      code: 'approval',
      approvalId: id,
      retryable: false,
      reason: expect.stringContaining('in time'),
    })
  })

  test('the same attempt is repeated until it is decided', async () => {
    let answers = 0
    const { ask, service } = await start((...given) => state(++answers < 5 ? 'pending' : 'granted')(...given))
    expect(await ask()).toBeUndefined()
    expect(new Set(service.asked.map(({ attempt }) => attempt)).size).toBe(1)
    expect(service.asked).toHaveLength(5)
  })

  test('the fail mode decides about a question that nobody takes, and it is reported', async () => {
    for (const failMode of ['open', 'closed'] as const) {
      const { ask, service, monitor } = await start((_, response) => response.destroy(), { failMode })
      expect((await ask())?.code).toBe(failMode === 'open' ? undefined : 'approval')
      expect(service.asked.length).toBeGreaterThanOrEqual(3)
      expect(monitor.health.queuedEvents).toBeGreaterThanOrEqual(1)
    }
  })

  // Who steers the agent may choose the arguments and the number of calls: neither may turn a question into a call.
  test.each([400, 404, 409, 413, 429])('a question refused with %i is denied in every fail mode', async (status) => {
    const { ask } = await start((_, response) => sendJson(response, status, { error: 'no' }))
    expect(await ask()).toMatchObject({ code: 'approval', approvalId: undefined })
  })

  test.each([
    ['of an unknown state', { id, state: 'approved' }],
    ['without an id', { state: 'granted' }],
    ['with an id that is no id', { id: 'a b\n', state: 'granted' }],
    ['that is a list', [{ id, state: 'granted' }]],
    ['that is not JSON', undefined],
  ])('an answer %s grants nothing', async (_, body) => {
    const { ask } = await start((_request, response) =>
      body === undefined ? response.writeHead(200).end('granted') : sendJson(response, 200, body),
    )
    expect(await ask()).toMatchObject({ code: 'approval', approvalId: undefined })
  })

  test('a service that goes away while a call waits does not let it run', async () => {
    let answers = 0
    const { ask, monitor } = await start((...given) => {
      if (++answers === 1) return state('pending')(...given)
      given[1].destroy()
    })
    const call = ask()
    await eventually(() => expect(answers).toBeGreaterThan(5))
    await monitor.stop()
    expect(await call).toMatchObject({ code: 'approval', approvalId: id })
  })
})
