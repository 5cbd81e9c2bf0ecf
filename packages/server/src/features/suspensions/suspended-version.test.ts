import { type Suspension, suspendedHeader } from '@wardline/contract'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { listenOnFreePort } from '../../testing/control-stream.ts'
import { adminKey, openTestService, type TestService } from '../../testing/service.ts'

let service: TestService
let url: string
/** Keys of scope agent: bound to the one agent, and to all agents of a team. */
let only: string
let shared: string

beforeEach(async () => {
  service = await openTestService({ env: { WARDLINE_QUOTA_EVENTS: '1' } })
  url = await listenOnFreePort(service.app)
  only = (await service.createKey('agent', ['team-a'])).key
  shared = (await service.createKey('agent', ['team-*'])).key
  for (const [id, key] of [
    ['team-a', only],
    ['team-b', shared],
    ['other', adminKey],
  ]) {
    await service.call('POST', '/api/heartbeat', { key: key!, body: { instance_id: id, name: 'Bot' } })
  }
})
afterEach(() => service[Symbol.asyncDispose]())

interface Sent {
  method?: string
  path: string
  body?: unknown
}

/** Sends a request over a socket, so that frequent requests bypass the framework. Returns status and header. */
async function send(key: string, { method = 'POST', path, body }: Sent) {
  const response = await fetch(`${url}${path}`, {
    method,
    headers: { 'x-monitor-key': key, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  await response.text()
  return [response.status, response.headers.get(suspendedHeader)]
}

const kill = (id: string) => service.call('POST', `/api/kill/${id}`, { body: { reason: 'Leak' } })
const resume = (id: string) => service.call('POST', `/api/resume/${id}`)
const event = (more: object = {}) => ({ severity: 'info', source: 's', event_type: 'note', description: 'd', ...more })
async function delivery(id: string): Promise<Pick<Suspension, 'delivered_by' | 'delivered_at'>> {
  await service.services.suspensionFacts.write()
  const { body } = await service.call<{ suspensions: Suspension[] }>('GET', `/api/instances/${id}/suspensions`)
  return body.suspensions[0]!
}

const beat: Sent = { path: '/api/heartbeat', body: { instance_id: 'team-a', name: 'Bot' } }
const named: Sent = { path: '/api/events', body: event({ instance_id: 'team-a' }) }

describe('answers to a suspended agent', () => {
  it.each<[string, number, Sent]>([
    ['a heartbeat', 200, beat],
    ['an event', 201, named],
    ['a batch of events', 200, { path: '/api/events/batch', body: [event({ instance_id: 'team-a' })] }],
    ['a check of a key', 200, { path: '/api/honeypots/check/key', body: { key: 'x', instance_id: 'team-a' } }],
    ['a poll', 200, { method: 'GET', path: '/api/instances/team-a/status' }],
    ['its policies', 200, { method: 'GET', path: '/api/instances/team-a/policy' }],
    ['an invalid event', 400, { path: '/api/events', body: { instance_id: 'team-a' } }],
    ['an invalid heartbeat', 400, { path: '/api/heartbeat', body: { instance_id: 'team-a' } }],
  ])('carry its control version: %s', async (_, status, request) => {
    expect(await send(shared, request)).toEqual([status, null])
    await kill('team-a')
    expect(await send(shared, request)).toEqual([status, '1'])
    expect(await send(only, request)).toEqual([status, '1'])
    await resume('team-a')
    expect(await send(shared, request)).toEqual([status, null])
  })

  it.each<[string, number, Sent]>([
    ['an event without an instance', 403, { path: '/api/events', body: event() }],
    ['a request that its scope does not allow', 403, { method: 'GET', path: '/api/events' }],
    ['an event of another agent', 403, { path: '/api/events', body: event({ instance_id: 'other' }) }],
  ])('carry it if only the key identifies it: %s', async (_, status, request) => {
    await kill('team-a')
    const expected = request.body && (request.body as { instance_id?: string }).instance_id === 'other' ? null : '1'
    expect(await send(only, request)).toEqual([status, expected])
    expect(await send(shared, request)).toEqual([status, null])
  })

  it('carry it when the quota of the key is used up', async () => {
    await kill('team-a')
    const answers: unknown[] = []
    for (let sent = 0; sent < 200 && !answers.some((status) => status === 429); sent++) {
      const [status, version] = await send(shared, named)
      expect(version).toBe('1')
      answers.push(status)
    }
    expect(answers).toContain(429)
  })

  it('say nothing about it to other keys and other agents', async () => {
    await kill('other')
    expect(await send(shared, { path: '/api/events', body: event({ instance_id: 'other' }) })).toEqual([403, null])
    expect(await send(shared, { path: '/api/events', body: event({ instance_id: 'team-b' }) })).toEqual([201, null])
    const { key: viewer } = await service.createKey('viewer')
    expect(await send(viewer, { method: 'GET', path: '/api/instances/other/status' })).toEqual([200, null])
    expect(await send('wrong', { path: '/api/events', body: event({ instance_id: 'other' }) })).toEqual([401, null])
    expect(await send(adminKey, { method: 'GET', path: '/api/instances/other' })).toEqual([200, null])
    expect(await delivery('other')).toMatchObject({ delivered_by: null })
    expect(await send(adminKey, { path: '/api/events', body: event({ instance_id: 'other' }) })).toEqual([201, '1'])
    expect(await delivery('other')).toMatchObject({ delivered_by: 'answer' })
  })

  it('carry the version of the suspended one of several agents in a batch', async () => {
    await kill('team-b')
    await resume('team-b')
    await kill('team-b')
    const body = [event({ instance_id: 'team-a' }), event({ instance_id: 'team-b' })]
    expect(await send(shared, { path: '/api/events/batch', body })).toEqual([200, '3'])
    expect(await send(shared, { path: '/api/events/batch', body: body.slice(0, 1) })).toEqual([200, null])
  })

  it('are its delivery until it polls', async () => {
    await kill('team-a')
    await send(only, beat)
    const answered = await delivery('team-a')
    expect(answered.delivered_by).toBe('answer')
    service.clock.advance(20_000)
    await send(only, beat)
    expect(await delivery('team-a')).toEqual(answered)
    await send(only, { method: 'GET', path: '/api/instances/team-a/status' })
    const polled = await delivery('team-a')
    expect(polled.delivered_by).toBe('poll')
    expect(Date.parse(polled.delivered_at!) - Date.parse(answered.delivered_at!)).toBe(20_000)
    service.clock.advance(20_000)
    await send(only, beat)
    expect(await delivery('team-a')).toEqual(polled)
  })
})

it('a process that did not make the kill says it too, also after a start', async () => {
  await kill('team-a')
  await using second = await openTestService({ dataDir: service.deps.config.dataDir, clock: service.clock })
  await second.services.suspensionWatch.run()
  const { headers } = await second.call('POST', '/api/heartbeat', { key: only, body: beat.body })
  expect(headers[suspendedHeader]).toBe('1')
})
