import { channel } from 'node:diagnostics_channel'
import { connect } from 'node:net'
import { decoysHeader, policyHeader } from '@wardline/contract'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { adminKey, openTestService, type TestService } from '../testing/service.ts'

let service: TestService
let port: number
let agentKey: string

/** Requests that the framework passed to a handler. */
let general = 0
const count = () => {
  general += 1
}
const handled = channel('tracing:fastify.request.handler:start')

beforeAll(async () => {
  handled.subscribe(count)
  service = await openTestService({ env: { WARDLINE_QUOTA_EVENTS: '1' } })
  port = Number(new URL(await service.app.listen({ host: '127.0.0.1', port: 0 })).port)
  agentKey = (await service.createKey('agent', ['agent-1'])).key
})
afterAll(async () => {
  handled.unsubscribe(count)
  await service[Symbol.asyncDispose]()
})

const event = { severity: 'info', source: 's', event_type: 'note', description: 'd' }

interface Sent {
  method?: 'GET'
  body?: unknown
  key?: string | undefined
  headers?: Record<string, string>
  path?: string
  /** Size in bytes of the chunks in which the request is sent. */
  pieces?: number
}

/** Sends one request on a separate connection. Returns status, headers and body of the response. */
function send({
  method,
  body = method ? '' : event,
  key = adminKey,
  headers = {},
  path = '/api/events',
  pieces,
}: Sent) {
  const bytes = Buffer.isBuffer(body) ? body : Buffer.from(typeof body === 'string' ? body : JSON.stringify(body))
  const lines = Object.entries({
    host: `127.0.0.1:${port}`,
    connection: 'close',
    'x-monitor-key': key,
    ...(method ? {} : { 'content-type': 'application/json', 'content-length': String(bytes.length) }),
    ...headers,
  }).map(([name, value]) => `${name}: ${value}\r\n`)
  const request = Buffer.concat([Buffer.from(`${method ?? 'POST'} ${path} HTTP/1.1\r\n${lines.join('')}\r\n`), bytes])
  return new Promise<{ status: number; headers: Record<string, string>; body: Record<string, unknown> }>(
    (resolve, reject) => {
      let text = ''
      const socket = connect({ port, host: '127.0.0.1', noDelay: true }).setEncoding('utf8')
      socket.on('data', (chunk) => {
        text += chunk
      })
      socket.on('error', reject)
      socket.on('close', () => {
        const [head = '', answer = ''] = text.split('\r\n\r\n')
        const [first = '', ...rest] = head.split('\r\n')
        const named = rest.map((line) => line.split(': ') as [string, string])
        resolve({
          status: Number(first.split(' ')[1]),
          headers: Object.fromEntries(named.map(([name, value]) => [name.toLowerCase(), value])),
          body: answer === '' ? {} : JSON.parse(answer),
        })
      })
      const size = pieces ?? request.length
      const write = (at: number): void => {
        if (at < request.length) socket.write(request.subarray(at, at + size), () => setImmediate(write, at + size))
      }
      write(0)
    },
  )
}

/** Bypasses the direct route, which accepts content type parameters only in their usual spelling. */
const sendGenerally = (sent: Sent) =>
  send({ ...sent, headers: { 'content-type': 'application/json;charset=utf-8', ...sent.headers } })

describe('a direct request', () => {
  it('is served without the framework, with the same headers and the same stored rows', async () => {
    const before = general
    const direct = await send({ body: { ...event, description: 'direct' } })
    expect(general).toBe(before)
    const usual = await sendGenerally({ body: { ...event, description: 'usual' } })
    expect(general).toBe(before + 1)
    expect(direct.status).toBe(201)
    const { date: _, ...headers } = direct.headers
    const { date: __, ...usualHeaders } = usual.headers
    expect(headers).toEqual(usualHeaders)
    const list = await service.call<{ events: Record<string, unknown>[] }>('GET', '/api/events?limit=2')
    const [second, first] = list.body.events
    expect(first).toMatchObject({ id: direct.body.id, description: 'direct', ip_address: '127.0.0.1' })
    const { id, seq, description } = first!
    expect({ ...second, id, seq, description }).toEqual(first)
  })

  it.each<[string, Sent]>([
    ['no JSON', { body: '{' }],
    ['no UTF-8', { body: Buffer.from([0x22, 0xff, 0x22]) }],
    ['NUL in a text', { body: { ...event, description: 'a\u0000' } }],
    ['__proto__', { body: `{"__proto__":1,${JSON.stringify(event).slice(1)}` }],
    ['null', { body: 'null' }],
    ['a list', { body: [event] }],
    ['a missing field', { body: { ...event, source: undefined } }],
    ['a wrong severity', { body: { ...event, severity: 'fatal' } }],
    ['metadata that is no object', { body: { ...event, metadata: [] } }],
    ['an address that is none', { body: { ...event, ip_address: 'x' } }],
    ['the name of the service', { body: { ...event, source: 'wardline' } }],
    ['no body', { body: '' }],
    ['too many bytes', { body: { ...event, description: 'x'.repeat(300_000) } }],
    ['an empty Idempotency-Key', { headers: { 'idempotency-key': '' } }],
    ['a wrong key', { key: 'wrong' }],
    ['another host', { headers: { host: 'evil.example' } }],
  ])('with %s is refused like on the framework path', async (_, sent) => {
    const direct = await send(sent)
    const usual = await sendGenerally(sent)
    expect(direct.status).toBeGreaterThanOrEqual(400)
    expect({ ...direct, headers: { ...direct.headers, date: '' } }).toEqual({
      ...usual,
      headers: { ...usual.headers, date: '' },
    })
  })

  it('may be a heartbeat, with the headers that agents read, and is refused like on the framework path', async () => {
    const heartbeat = (body: object) => ({ key: agentKey, path: '/api/heartbeat', body })
    for (const sent of [
      heartbeat({ instance_id: 'agent-1', name: 'a' }),
      heartbeat({ instance_id: 'agent-2', name: 'not of the key' }),
      heartbeat({ name: 'without an id' }),
    ]) {
      const before = general
      const direct = await send(sent)
      expect(general).toBe(before)
      if (direct.status === 200)
        expect(direct.headers).toMatchObject({ [decoysHeader]: 'none', [policyHeader]: expect.any(String) })
      const usual = await sendGenerally(sent)
      expect({ ...direct, headers: { ...direct.headers, date: '' } }).toEqual({
        ...usual,
        headers: { ...usual.headers, date: '' },
      })
    }
  })

  it('is refused and reported for an instance to which its key is not bound', async () => {
    const sent = { key: agentKey, body: { ...event, instance_id: 'agent-2' } }
    const direct = await send(sent)
    expect(direct).toMatchObject({ status: 403, body: { error: 'This key is bound to other instances.' } })
    await service.services.ingest.whenIdle()
    const list = await service.call<{ events: unknown[] }>('GET', '/api/events?event_type=identity_mismatch')
    expect(list.body.events).toHaveLength(1)
  })

  it('is refused for a key whose scope may not report', async () => {
    const { key } = await service.createKey('viewer')
    expect(await send({ key })).toMatchObject({ status: 403, headers: { 'x-error-code': 'forbidden' } })
  })

  it('is read completely, however it is split into chunks', async () => {
    const before = general
    const description = '🦀'.repeat(50)
    const answer = await send({ body: { ...event, description }, pieces: 7 })
    expect(answer.status).toBe(201)
    expect(general).toBe(before)
    const list = await service.call<{ events: unknown[] }>('GET', '/api/events?limit=1')
    expect(list.body.events).toEqual([expect.objectContaining({ id: answer.body.id, description })])
  })

  it('gets the same id for the same Idempotency-Key on either path', async () => {
    const headers = { 'idempotency-key': 'once' }
    const direct = await send({ headers })
    expect((await sendGenerally({ headers })).body).toEqual(direct.body)
    expect((await send({ headers })).body).toEqual(direct.body)
  })

  it('is subject to the quota of its key like on the framework path', async () => {
    const sent = { key: agentKey, body: { ...event, instance_id: 'agent-1' } }
    const answers = []
    for (let n = 0; n < 30; n++) answers.push(await send(sent))
    const refused = answers.find(({ status }) => status === 429)
    expect(refused).toMatchObject({ headers: { 'x-error-code': 'quota_exceeded', 'retry-after': expect.any(String) } })
    expect((await sendGenerally(sent)).body).toEqual(refused!.body)
  })

  it('returns the database error if the database fails', async () => {
    const back = await service.refuse('insert', 'events')
    const answer = await send({})
    expect(answer).toMatchObject({ status: 500, headers: { 'x-error-code': 'database' } })
    await back()
    expect((await send({})).status).toBe(201)
  })
})

describe('a poll', () => {
  const path = '/api/instances/agent-1/status'
  const poll = (sent: Sent = {}) => send({ method: 'GET', path, key: agentKey, ...sent })
  /** Bypasses the direct route, which leaves requests with a body to the framework. */
  const pollGenerally = (sent: Sent = {}) => poll({ ...sent, headers: { 'content-length': '0', ...sent.headers } })
  const undated = <Answer extends { headers: object }>(answer: Answer) => ({
    ...answer,
    headers: { ...answer.headers, date: '' },
  })

  /** Compares both paths, and returns the direct answer. */
  async function same(sent: Sent, isDirect: boolean) {
    const before = general
    const direct = await poll(sent)
    expect(general - before).toBe(isDirect ? 0 : 1)
    expect(undated(direct)).toEqual(undated(await pollGenerally(sent)))
    expect(general - before).toBe(isDirect ? 1 : 2)
    return direct
  }

  beforeAll(async () => {
    await service.call('POST', '/api/heartbeat', { body: { instance_id: 'agent-1', name: 'agent-1' } })
    await service.call('POST', '/api/heartbeat', { body: { instance_id: 'agent-2', name: 'agent-2' } })
    await Promise.all(['agent-1', 'agent-2'].map((id) => service.call('GET', `/api/instances/${id}/status`)))
  })

  it('is answered without the framework, like by it: with a body, as 304, of a suspended agent, and after its resume', async () => {
    const active = await same({}, true)
    expect(active).toMatchObject({ status: 200, body: { suspended: false } })
    const unchanged = { headers: { 'if-none-match': active.headers.etag! } }
    expect(await same(unchanged, true)).toMatchObject({ status: 304, body: {} })
    await service.call('POST', '/api/kill/agent-1', { body: { reason: 'test' } })
    const suspended = await same(unchanged, true)
    expect(suspended).toMatchObject({ status: 200, body: { suspended: true, reason: 'test' } })
    expect(suspended.headers).toMatchObject({ 'wardline-suspended': '1', 'x-wardline-decoys': 'none' })
    // Written after the answer.
    const suspensions = () =>
      service
        .call<{ suspensions: object[] }>('GET', '/api/instances/agent-1/suspensions')
        .then(({ body }) => body.suspensions)
    await expect.poll(suspensions).toMatchObject([{ delivered_by: 'poll' }])
    await service.call('POST', '/api/resume/agent-1', { body: {} })
    expect(await same(unchanged, true)).toMatchObject({ status: 200, body: { suspended: false } })
  })

  it.each<[string, number, Sent]>([
    ['of an unknown agent', 404, { key: adminKey, path: '/api/instances/nobody/status' }],
    ['of an agent to which the key is not bound', 403, { path: '/api/instances/agent-2/status' }],
    ['with an id that cannot be one', 400, { path: '/api/instances/Agent%201/status' }],
    ['with a long id', 400, { path: `/api/instances/${'a'.repeat(200)}/status` }],
    ['with a wrong key', 401, { key: 'wrong' }],
    ['for another host', 421, { headers: { host: 'evil.example' } }],
  ])('%s is left to the framework', async (_, status, sent) => {
    const before = general
    const direct = await poll(sent)
    const usual = await pollGenerally(sent)
    expect(direct.status).toBe(status)
    expect(undated(direct)).toEqual(undated(usual))
    expect((general - before) % 2).toBe(0)
  })

  it('with a query, or with the name of an object that all have, is left to the framework', async () => {
    const before = general
    expect((await poll({ path: `${path}?a=/status` })).status).toBe(200)
    expect(general).toBe(before + 1)
    expect((await poll({ key: adminKey, path: '/api/instances/constructor/status' })).status).toBe(404)
  })
})
