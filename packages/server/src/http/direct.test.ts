import { channel } from 'node:diagnostics_channel'
import { connect } from 'node:net'
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
  body?: unknown
  key?: string | undefined
  headers?: Record<string, string>
  path?: string
  /** Size in bytes of the chunks in which the request is sent. */
  pieces?: number
}

/** Sends one request on a separate connection. Returns status, headers and body of the response. */
function send({ body = event, key = adminKey, headers = {}, path = '/api/events', pieces }: Sent) {
  const bytes = Buffer.isBuffer(body) ? body : Buffer.from(typeof body === 'string' ? body : JSON.stringify(body))
  const lines = Object.entries({
    host: `127.0.0.1:${port}`,
    connection: 'close',
    'x-monitor-key': key,
    'content-type': 'application/json',
    'content-length': String(bytes.length),
    ...headers,
  }).map(([name, value]) => `${name}: ${value}\r\n`)
  const request = Buffer.concat([Buffer.from(`POST ${path} HTTP/1.1\r\n${lines.join('')}\r\n`), bytes])
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
          body: JSON.parse(answer),
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
