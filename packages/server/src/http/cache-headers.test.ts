import { once } from 'node:events'
import { connect } from 'node:net'
import { type Endpoint, type EndpointName, endpoints } from '@wardline/contract'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { AppError } from '../errors.ts'
import { listenOnFreePort } from '../testing/control-stream.ts'
import { adminKey, openTestService, type TestService } from '../testing/service.ts'
import { createServer } from './server.ts'

// What a browser or a proxy stores of the API outlives the session and the key: the next user of a shared machine, or
// of a proxy, reads it from the cache.

/** Public data and files without a secret, by endpoint. */
const cached: Partial<Record<EndpointName, string>> = {
  getTrust: 'public, max-age=60',
  getTrustBadge: 'public, max-age=60',
  getTrustBadgeData: 'public, max-age=60',
  getAgentRegistration: 'public, max-age=60',
  getSdk: 'no-cache',
  getPythonClient: 'no-cache',
}
const table = Object.entries(endpoints) as [EndpointName, Endpoint][]

let service: TestService
let url: string
beforeAll(async () => {
  service = await openTestService()
  url = await listenOnFreePort(service.app)
  for (const id of ['agent-1', 'kept']) {
    await service.call('POST', '/api/heartbeat', { body: { instance_id: id, name: 'Agent' } })
  }
  // Before its first sweep the score is unknown, and the badge is not stored.
  await service.services.scout.sweep()
})
afterAll(() => service[Symbol.asyncDispose]())

interface Sent {
  key?: string | undefined
  id?: string
  query?: string
  body?: string
}

/** Sends a request over a socket, because the direct routes and the streams do not exist without one. */
async function send(
  { method, path, body: schema, rawBody }: Endpoint,
  { key, id = 'agent-1', query = '', body }: Sent,
) {
  const text = body ?? (schema || rawBody ? '{}' : undefined)
  const response = await fetch(`${url}${path.replaceAll(/:\w+/g, id)}${query}`, {
    method,
    headers: {
      ...(key === undefined ? {} : { 'x-monitor-key': key }),
      ...(text === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(text === undefined ? {} : { body: text }),
  })
  await response.body?.cancel()
  return { status: response.status, cache: response.headers.get('cache-control') }
}

const expected = (name: EndpointName, status: number) => (status < 300 ? (cached[name] ?? 'no-store') : 'no-store')

describe('the responses of every endpoint', () => {
  it.each(table)('%s: are not stored, also when they refuse', async (name, endpoint) => {
    const calls: Sent[] = [
      { key: undefined },
      { key: 'nonsense' },
      { key: adminKey },
      { key: adminKey, id: '%00' },
      { key: adminKey, query: `?${Object.keys(endpoint.query ?? {}).length > 0 ? 'limit=nonsense' : ''}` },
      ...(endpoint.body || endpoint.rawBody ? [{ key: adminKey, body: '{' }] : []),
    ]
    for (const call of calls) {
      const { status, cache } = await send(endpoint, call)
      expect(cache, `${status} ${JSON.stringify(call)}`).toBe(expected(name, status))
    }
  })

  it('include successes of the direct routes, of polls that changed nothing, and of streams', async () => {
    const event = { severity: 'info', source: 's', event_type: 'note', description: 'd' }
    const heartbeat = { instance_id: 'agent-1', name: 'Agent' }
    const asked = { key: adminKey }
    const answers = [
      await send(endpoints.createEvent, { ...asked, body: JSON.stringify(event) }),
      await send(endpoints.sendHeartbeat, { ...asked, body: JSON.stringify(heartbeat) }),
      await send(endpoints.streamEvents, asked),
      await send(endpoints.streamControl, asked),
      await send(endpoints.getInstanceStatus, asked),
    ]
    expect(answers.map(({ status }) => status)).toEqual([201, 200, 200, 200, 200])
    for (const { cache } of answers) expect(cache).toBe('no-store')
    const same = { 'x-monitor-key': adminKey, 'if-none-match': 'W/"0"' }
    const unchanged = await fetch(`${url}/api/instances/agent-1/status`, { headers: same })
    expect([unchanged.status, unchanged.headers.get('cache-control')]).toEqual([304, 'no-store'])
  })

  it('are not stored when the database fails', async () => {
    await using broken = await openTestService()
    const to = await listenOnFreePort(broken.app)
    for (const name of await broken.tables()) await broken.execute(`alter table ${name} rename to hidden_${name}`)
    const statuses = new Set<number>()
    for (const [name, { method, path, body, rawBody }] of table) {
      const hasBody = body !== undefined || rawBody !== undefined
      const response = await fetch(`${to}${path.replaceAll(/:\w+/g, 'agent-1')}`, {
        method,
        headers: { 'x-monitor-key': adminKey, ...(hasBody ? { 'content-type': 'application/json' } : {}) },
        ...(hasBody ? { body: '{}' } : {}),
      })
      await response.body?.cancel()
      statuses.add(response.status)
      // The badge is sent with status 200 also when the score is unknown, and then is not stored.
      const isUnknown = name.startsWith('getTrustBadge')
      const value = isUnknown ? 'no-store' : expected(name, response.status)
      expect(response.headers.get('cache-control'), `${response.status} ${name}`).toBe(value)
    }
    expect([...statuses]).toContain(500)
  })
})

describe('a response outside of the endpoints', () => {
  it('is not stored when a handler fails that has allowed it', async () => {
    const app = createServer(service.deps)
    app.get('/fails', (_request, reply) => {
      reply.header('cache-control', 'public, max-age=60')
      throw new AppError('invalid', 'No.')
    })
    const { statusCode, headers } = await app.inject({ url: '/fails', headers: { host: '127.0.0.1' } })
    expect([statusCode, headers['cache-control']]).toEqual([400, 'no-store'])
  })

  it.each([
    ['an unknown route', 'GET /api/nowhere', 404],
    ['an unknown method', 'DELETE /api/status', 404],
    ['a path that cannot be decoded', 'GET /api/instances/%ff/status', 400],
    ['the reference', 'GET /openapi.json', 200],
    ['the list of addresses', 'GET /', 200],
    ['an unknown host', 'GET /api/status', 421, 'evil.example'],
    ['bytes that are not HTTP', 'nonsense', 400],
  ])('is not stored: %s', async (_of, line, status, host = '127.0.0.1') => {
    const socket = connect(Number(new URL(url).port), '127.0.0.1').setEncoding('utf8')
    let text = ''
    socket.on('data', (chunk) => {
      text += chunk
    })
    socket.write(`${line} HTTP/1.1\r\nhost: ${host}\r\nconnection: close\r\n\r\n`)
    await once(socket, 'close')
    expect(text).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `))
    expect(text.match(/^cache-control: .*$/gim)).toEqual(['cache-control: no-store'])
  })
})
