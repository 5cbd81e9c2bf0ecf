import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectRefusal, isoTime } from './expectations.ts'
import { newInstance, postEvent, unique } from './fleet.ts'
import { type Service, startService } from './service.ts'
import type { ControlMessage, StatusView } from './shapes.ts'

let service: Service
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service?.stop())

const kill = (id: string, reason: unknown = 'stop now') => service.call('POST', `/api/kill/${id}`, { body: { reason } })
const resume = (id: string) => service.call('POST', `/api/resume/${id}`)
const poll = (id: string, headers: Record<string, string> = {}) =>
  service.call<{ suspended: boolean; reason: string | null }>('GET', `/api/instances/${id}/status`, { headers })
const fleetView = async (id: string) => {
  const { body } = await service.call<StatusView>('GET', '/api/status')
  return body.instances.find((instance) => instance.id === id)
}

describe('POST /api/kill/:instanceId', () => {
  test('answers exactly { ok, instance_id, status } and is seen by the next poll and the fleet view', async () => {
    const id = await newInstance(service)
    const answer = await kill(id, 'data leak')
    expect(answer.status).toBe(200)
    expect(answer.body).toEqual({ ok: true, instance_id: id, status: 'suspended' })
    expect((await poll(id)).body).toEqual({ suspended: true, reason: 'data leak' })
    expect(await fleetView(id)).toMatchObject({ status: 'suspended', suspension_reason: 'data leak' })
  })

  test('refuses to suspend twice and keeps the first reason', async () => {
    const id = await newInstance(service)
    await kill(id, 'first')
    expectRefusal(await kill(id, 'second'), 400)
    expect((await poll(id)).body).toEqual({ suspended: true, reason: 'first' })
  })

  test('answers 404 for an unknown instance', async () => {
    expectRefusal(await kill(unique('nobody')), 404)
  })

  test.each([
    ['missing', undefined],
    ['empty', ''],
    ['blank', ' \t\n '],
    ['a number', 7],
    ['null', null],
    ['a list', ['why']],
    ['longer than 500 characters', '🦊'.repeat(501)],
  ])('refuses a reason that is %s and suspends nothing', async (_title, reason) => {
    const id = await newInstance(service)
    expectRefusal(await service.call('POST', `/api/kill/${id}`, { body: { reason } }), 400, 'reason')
    expect((await poll(id)).body).toEqual({ suspended: false, reason: null })
  })

  test('refuses a kill without a body', async () => {
    const id = await newInstance(service)
    expectRefusal(await service.call('POST', `/api/kill/${id}`), [400, 415])
    expect((await poll(id)).body.suspended).toBe(false)
  })

  test('trims the reason and accepts 500 characters', async () => {
    const id = await newInstance(service)
    expect((await kill(id, '  spaced out \n')).status).toBe(200)
    expect((await poll(id)).body.reason).toBe('spaced out')
    await resume(id)
    expect((await kill(id, '🦊'.repeat(500))).status).toBe(200)
    expect((await poll(id)).body.reason).toBe('🦊'.repeat(500))
  })

  test('lets exactly one of twenty simultaneous kills succeed', async () => {
    const id = await newInstance(service)
    const answers = await Promise.all(Array.from({ length: 20 }, (_, index) => kill(id, `reason ${index}`)))
    const winners = answers.flatMap((answer, index) => (answer.status === 200 ? [index] : []))
    expect(winners).toHaveLength(1)
    expect(answers.filter((answer) => answer.status === 400)).toHaveLength(19)
    expect((await poll(id)).body).toEqual({ suspended: true, reason: `reason ${winners[0]}` })
  })

  test('is not undone by heartbeats or events of the suspended instance', async () => {
    const id = await newInstance(service)
    await kill(id)
    await service.call('POST', '/api/heartbeat', { body: { instance_id: id, name: 'Defiant' } })
    await postEvent(service, { instance_id: id, event_type: 'tool_call', metadata: { toolName: 'shell-exec' } })
    expect((await poll(id)).body.suspended).toBe(true)
    expect((await fleetView(id))?.status).toBe('suspended')
  })
})

describe('POST /api/resume/:instanceId', () => {
  test('answers exactly { ok, instance_id, status } and clears the reason', async () => {
    const id = await newInstance(service)
    await kill(id)
    const answer = await resume(id)
    expect(answer.status).toBe(200)
    expect(answer.body).toEqual({ ok: true, instance_id: id, status: 'active' })
    expect((await poll(id)).body).toEqual({ suspended: false, reason: null })
    expect(await fleetView(id)).toMatchObject({ status: 'active', suspension_reason: null })
  })

  test('accepts a client that declares JSON and sends no body', async () => {
    const id = await newInstance(service)
    await kill(id)
    const answer = await service.call('POST', `/api/resume/${id}`, { headers: { 'content-type': 'application/json' } })
    expect(answer.status, answer.text).toBe(200)
  })

  test('refuses an instance that is not suspended', async () => {
    expectRefusal(await resume(await newInstance(service)), 400)
  })

  test('answers 404 for an unknown instance', async () => {
    expectRefusal(await resume(unique('nobody')), 404)
  })

  test('lets exactly one of twenty simultaneous resumes succeed', async () => {
    const id = await newInstance(service)
    await kill(id)
    const answers = await Promise.all(Array.from({ length: 20 }, () => resume(id)))
    expect(answers.map((answer) => answer.status).sort()).toEqual([200, ...Array.from({ length: 19 }, () => 400)])
  })
})

describe('GET /api/instances/:instanceId/status', () => {
  test('answers exactly { suspended, reason }', async () => {
    const answer = await poll(await newInstance(service))
    expect(answer.status).toBe(200)
    expect(answer.body).toEqual({ suspended: false, reason: null })
  })

  // If the status of a mistyped id was "not suspended", an operator would draw wrong conclusions about a running agent.
  test('answers 404 for an unknown instance', async () => {
    expectRefusal(await poll(unique('nobody')), 404)
  })

  test('refuses a malformed id', async () => {
    for (const id of ['UPPER', 'with%20space', '%00', '..%2f..', encodeURIComponent('🦊'), 'a'.repeat(5_000)]) {
      const answer = await poll(id)
      expect([400, 404, 414, 431], `${id}: ${answer.text}`).toContain(answer.status)
    }
  })

  test('answers 304 without a body until the state changes, by a weak ETag', async () => {
    const id = await newInstance(service)
    const first = await poll(id)
    const etag = first.headers.etag ?? ''
    expect(etag).toMatch(/^W\/".+"$/)
    const unchanged = await poll(id, { 'if-none-match': etag })
    expect(unchanged.status).toBe(304)
    expect(unchanged.text).toBe('')

    await kill(id)
    const changed = await poll(id, { 'if-none-match': etag })
    expect(changed.status).toBe(200)
    expect(changed.body.suspended).toBe(true)
    expect(changed.headers.etag).not.toBe(etag)
    expect((await poll(id, { 'if-none-match': changed.headers.etag ?? '' })).status).toBe(304)

    await resume(id)
    const resumed = await poll(id, { 'if-none-match': etag })
    expect(resumed.status, 'a state that returned is a new version').toBe(200)
    expect(resumed.body.suspended).toBe(false)
  })
})

describe('GET /api/instances/:instanceId/control', () => {
  const control = (id: string) => service.openStream(`/api/instances/${id}/control`, { key: service.key })

  test('needs a key', async () => {
    const answer = await service.call('GET', `/api/instances/${await newInstance(service)}/control`, { key: null })
    expectRefusal(answer, 401)
  })

  test('sends the current state first, then each change, with rising versions', async () => {
    const id = await newInstance(service)
    const stream = await control(id)
    expect(stream.status).toBe(200)
    expect(stream.headers['content-type']).toMatch(/^text\/event-stream/)
    const isControl = (message: ControlMessage) => message.action !== undefined
    const current = await stream.next<ControlMessage>(isControl)
    expect(current.json).toMatchObject({ instance_id: id, action: 'resume' })

    await kill(id, '  exfiltration ')
    const suspend = await stream.next<ControlMessage>(isControl)
    expect(suspend.json).toMatchObject({ instance_id: id, action: 'suspend', reason: 'exfiltration' })
    expect(suspend.json.issued_at).toMatch(isoTime)
    expect(suspend.json.signature).toMatch(/^\S{32,}$/)

    await resume(id)
    const resumed = await stream.next<ControlMessage>(isControl)
    expect(resumed.json).toMatchObject({ instance_id: id, action: 'resume' })
    const versions = [current, suspend, resumed].map((message) => message.json.version)
    expect(versions.every(Number.isInteger)).toBe(true)
    expect(versions).toEqual([...versions].sort((left, right) => left - right))
    expect(new Set(versions).size).toBe(3)
    stream.close()
  })

  test('sends an agent that connects late its suspension, with the reason', async () => {
    const id = await newInstance(service)
    await kill(id, 'while away')
    const stream = await control(id)
    const current = await stream.next<ControlMessage>((message) => message.action !== undefined)
    expect(current.json).toMatchObject({ instance_id: id, action: 'suspend', reason: 'while away' })
    stream.close()
  })

  test('has no messages of another instance', async () => {
    const [mine, other] = [await newInstance(service), await newInstance(service)]
    const stream = await control(mine)
    await kill(other)
    await kill(mine)
    await stream.next<ControlMessage>((message) => message.action === 'suspend')
    expect(stream.messages.filter((message) => (message.json as ControlMessage).instance_id === other)).toEqual([])
    stream.close()
  })

  test('reaches ten listeners of one instance', async () => {
    const id = await newInstance(service)
    const streams = await Promise.all(Array.from({ length: 10 }, () => control(id)))
    await kill(id)
    const heard = await Promise.all(
      streams.map((stream) => stream.next<ControlMessage>((message) => message.action === 'suspend')),
    )
    expect(new Set(heard.map((message) => message.json.version)).size).toBe(1)
    for (const stream of streams) stream.close()
  })
})

describe('POST /api/instances/:instanceId/ack', () => {
  const acknowledge = (id: string, version: unknown) =>
    service.call<{ ok: boolean }>('POST', `/api/instances/${id}/ack`, { body: { version } })

  test('accepts the version that the agent has applied', async () => {
    const id = await newInstance(service)
    const stream = await service.openStream(`/api/instances/${id}/control`, { key: service.key })
    await kill(id)
    const suspend = await stream.next<ControlMessage>((message) => message.action === 'suspend')
    const answer = await acknowledge(id, suspend.json.version)
    expect(answer.status, answer.text).toBe(200)
    expect(answer.body.ok).toBe(true)
    expect((await poll(id)).body.suspended).toBe(true)
    stream.close()
  })

  test.each([
    ['text', '1'],
    ['a fraction', 1.5],
    ['negative', -1],
    ['missing', undefined],
    ['null', null],
  ])('refuses a version that is %s', async (_title, version) => {
    expectRefusal(await acknowledge(await newInstance(service), version), 400, 'version')
  })

  test('answers 404 for an unknown instance', async () => {
    expectRefusal(await acknowledge(unique('nobody'), 1), 404)
  })
})
