import { on, once } from 'node:events'
import { connect } from 'node:net'
import { endpoints } from '@wardline/contract'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { adminKey, openTestService, type TestService } from '../testing/service.ts'
import { createServer } from './server.ts'

let service: TestService
let port: number
beforeAll(async () => {
  service = await openTestService()
  port = Number(new URL(await service.app.listen({ host: '127.0.0.1', port: 0 })).port)
})
afterAll(() => service[Symbol.asyncDispose]())

const post = (body: unknown, headers: Record<string, string> = {}, path = '/api/events') =>
  service.call<{ error: string }>('POST', path, { body, headers })

describe('an invalid event', () => {
  const event = { severity: 'info', source: 's', event_type: 'note', description: 'd' }

  it.each<[string, unknown, string]>([
    ['a missing field', { ...event, source: undefined }, 'source is required.'],
    ['a wrong severity', { ...event, severity: 'fatal' }, 'severity must be info, warning, critical, or breach.'],
    ['a number for a severity', { ...event, severity: 1 }, 'severity must be info, warning, critical, or breach.'],
    ['a number for a text', { ...event, source: 7 }, 'source must be a string.'],
    ['null for a text', { ...event, description: null }, 'description must be a string.'],
    ['an empty text', { ...event, description: '' }, 'description must not be empty.'],
    ['a text that is too long', { ...event, source: 'x'.repeat(101) }, 'source must have at most 100 characters.'],
    ['too many wide characters', { ...event, source: '🦀'.repeat(101) }, 'source must have at most 100 characters.'],
    [
      'an upper-case type',
      { ...event, event_type: 'Note' },
      'event_type may contain only lower-case letters, digits and _.',
    ],
    [
      'a bad instance',
      { ...event, instance_id: 'a b' },
      'instance_id may contain only lower-case letters, digits, _ and -.',
    ],
    ['a line feed after an instance', { ...event, instance_id: 'a\n' }, 'instance_id may contain only'],
    ['a list for metadata', { ...event, metadata: [] }, 'metadata must be an object.'],
    ['an address that is none', { ...event, ip_address: '1.2.3' }, 'ip_address must be an IP address.'],
    ['a list', [event], 'The body must be a JSON object.'],
    ['a text', '"x"', 'The body must be a JSON object.'],
    ['null', 'null', 'The body must be a JSON object.'],
    ['nothing', '', 'The body must be a JSON object.'],
    ['no JSON', '{', 'The body must be JSON.'],
    ['no UTF-8', Buffer.from([0x22, 0xff, 0x22]), 'The body must be UTF-8.'],
  ])('with %s is refused with a sentence that names field and rule', async (_fault, body, sentence) => {
    const answer = await post(body)
    expect(answer.status).toBe(400)
    expect(answer.body.error).toContain(sentence)
    expect(Object.keys(answer.body)).toEqual(['error'])
    expect(answer.headers).toMatchObject({ 'x-error-code': 'invalid', 'x-content-type-options': 'nosniff' })
  })

  it('does not include one with the maximum number of wide characters', async () => {
    expect((await post({ ...event, source: '🦀'.repeat(100) })).status).toBe(201)
  })

  it('in a batch does not affect the others and is identified by its position', async () => {
    const answer = await post([event, { ...event, severity: 'x' }, 7, event], {}, '/api/events/batch')
    expect(answer.status).toBe(200)
    expect(answer.body).toEqual({
      ok: false,
      ids: [expect.any(String), null, null, expect.any(String)],
      errors: [
        { index: 1, error: 'severity must be info, warning, critical, or breach.' },
        { index: 2, error: 'The event must be a JSON object.' },
      ],
    })
  })

  it('in NDJSON is identified by its line', async () => {
    const lines = [JSON.stringify(event), '{', '', JSON.stringify({ ...event, source: '\u0000' })].join('\n')
    const answer = await post(lines, { 'content-type': 'application/x-ndjson' }, '/api/events/batch')
    expect(answer.body).toMatchObject({
      ok: false,
      errors: [
        { index: 1, error: 'The line must be JSON.' },
        { index: 2, error: 'source must not contain the NUL character.' },
      ],
    })
  })
})

describe('a body', () => {
  it('of an unsupported type is refused', async () => {
    for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'application/x-ndjson']) {
      expect((await post('{}', { 'content-type': type })).status, type).toBe(415)
    }
  })

  it('over its limit is refused: 256 KiB, or 1 MiB for a batch', async () => {
    expect((await post(`"${'x'.repeat(256 * 1024)}"`)).status).toBe(413)
    expect((await post(`["${'x'.repeat(256 * 1024)}"]`, {}, '/api/events/batch')).status).toBe(200)
    expect((await post(`["${'x'.repeat(1024 * 1024)}"]`, {}, '/api/events/batch')).status).toBe(413)
  })

  // Without a content type no parser is called.
  it.each([
    ['/api/events/batch', 'application/json or application/x-ndjson'],
    ['/auth/backchannel-logout', 'application/x-www-form-urlencoded'],
  ])('that is missing is refused: %s', async (url, types) => {
    const answer = await service.call('POST', url)
    expect(answer).toMatchObject({ status: 400, body: { error: `The body is required, as ${types}.` } })
  })

  it('of a batch must contain 1 to 1,000 events', async () => {
    for (const [body, sentence] of [
      ['[]', 'at least one event'],
      [JSON.stringify(new Array(1_001).fill(1)), 'at most 1000 events'],
      ['{}', 'a JSON array'],
    ]) {
      const answer = await post(body, {}, '/api/events/batch')
      expect(answer.status).toBe(400)
      expect(answer.body.error).toContain(sentence)
    }
  })
})

// With a NUL, SQLite would match every row, and PostgreSQL would fail as if it were unavailable.
describe('a query', () => {
  it.each(['/api/events?q=', '/api/events?session_id=', '/api/audit?actor=', '/api/audit?target='])(
    'such as %s with a NUL is refused',
    async (url) => {
      const answer = await service.call<{ error: string }>('GET', `${url}a%00b`)
      expect(answer).toMatchObject({ status: 400, headers: { 'x-error-code': 'invalid' } })
      expect(answer.body.error).toMatch(/^(q|session_id|actor|target) must not contain the NUL character\.$/)
    },
  )
})

describe('the API reference', () => {
  // It needs no key, so it must not cost more than any other file.
  it('is serialized once, not for each request', async () => {
    const written: unknown[] = []
    const stringify = JSON.stringify
    await service.call('GET', '/openapi.json', { key: null })
    JSON.stringify = ((value: object, ...rest: []) => {
      if (value && 'openapi' in Object(value)) written.push(value)
      return stringify(value, ...rest)
    }) as typeof JSON.stringify
    try {
      for (const path of ['/openapi.json', '/docs/json']) {
        const answer = await service.call<{ openapi: string }>('GET', path, { key: null })
        expect(answer.headers['content-type']).toBe('application/json; charset=utf-8')
        expect(answer.body.openapi).toBe('3.1.0')
      }
    } finally {
      JSON.stringify = stringify
    }
    expect(written).toEqual([])
  })
})

describe('the Host header', () => {
  const status = async (host: string) =>
    (await service.call('GET', '/healthz', { key: null, headers: { host } })).status

  it('of this machine is served', async () => {
    for (const host of [
      'localhost',
      'localhost:4747',
      '127.0.0.1',
      '127.0.0.1:4747',
      '127.8.9.1',
      '[::1]',
      '[::1]:4747',
    ]) {
      expect(await status(host), host).toBe(200)
    }
  })

  // A page can point its own name at 127.0.0.1 and thereby read a service meant for this machine only (DNS rebinding).
  it.each([
    'evil.example',
    'evil.example:4747',
    '127.0.0.1.evil.example',
    '127.evil.example',
    '127.0.0.1.evil.example:4747',
    'localhost.evil.example',
    'evil-localhost',
    '0.0.0.0',
    '192.168.0.1',
    '[::2]',
  ])('%s is refused', async (host) => {
    expect(await status(host)).toBe(421)
  })

  it('is refused on every route if unknown, including the stream and routes without a key', async () => {
    for (const path of ['/', '/api/stream', '/api/public/trust', '/metrics', '/docs', '/openapi.json', '/nowhere']) {
      const answer = await service.call('GET', path, { headers: { host: 'evil.example' } })
      expect(answer.status, path).toBe(421)
    }
  })
})

describe('the address of the client', () => {
  const event = { severity: 'info', source: 's', event_type: 'note', description: 'd' }
  const addressBehind = async (on: TestService, forwarded: string) => {
    await on.call('POST', '/api/events', { body: event, headers: { 'x-forwarded-for': forwarded } })
    const [row] = await on.rows<{ ip_address: string }>('select ip_address from events order by seq desc limit 1')
    return row!.ip_address
  }

  // If a client could choose the recorded address, it could blame another machine.
  it('cannot be chosen by the client', async () => {
    expect(await addressBehind(service, '203.0.113.9')).toBe('127.0.0.1')
  })

  it('is the last one that is not a trusted proxy', async () => {
    await using behind = await openTestService({ env: { WARDLINE_TRUSTED_PROXIES: '127.0.0.1, 10.0.0.0/8' } })
    expect(await addressBehind(behind, '6.6.6.6, 203.0.113.9, 10.1.2.3')).toBe('203.0.113.9')
  })
})

describe('the address forwarded by a trusted proxy', () => {
  const event = { severity: 'info', source: 's', event_type: 'note', description: 'd' }
  let behind: TestService
  beforeAll(async () => {
    behind = await openTestService({ env: { WARDLINE_TRUSTED_PROXIES: '127.0.0.1' } })
  })
  afterAll(() => behind[Symbol.asyncDispose]())

  it.each([
    ['203.0.113.9:50123', '203.0.113.9'],
    ['[2001:db8::9]:50123', '2001:db8::9'],
    ['[2001:db8::9]', '2001:db8::9'],
    ['2001:db8::9', '2001:db8::9'],
    ['::ffff:203.0.113.9', '203.0.113.9'],
    ['<script>alert(1)</script>', '127.0.0.1'],
    ['unknown', '127.0.0.1'],
    ['999.1.1.1', '127.0.0.1'],
    [`fe80::1%${'a'.repeat(3_000)}`, '127.0.0.1'],
  ])('%s is stored as %s', async (forwarded, stored) => {
    await behind.call('POST', '/api/events', { body: event, headers: { 'x-forwarded-for': forwarded } })
    const [row] = await behind.rows<{ ip_address: string }>('select ip_address from events order by seq desc limit 1')
    expect(row!.ip_address).toBe(stored)
  })

  // Otherwise a new port per connection would count as a new address, and guesses would not add up.
  it('counts for limits without its port', async () => {
    const guess = (port: number) =>
      behind.call('GET', '/api/status', { key: 'guess', headers: { 'x-forwarded-for': `203.0.113.7:${port}` } })
    for (let port = 1; port <= 20; port++) expect((await guess(port)).status).toBe(401)
    expect((await guess(21)).status).toBe(429)
  })
})

describe('bytes that are not a request', () => {
  const raw = (text: string) =>
    new Promise<string>((resolve, reject) => {
      const socket = connect(port, '127.0.0.1')
      let answer = ''
      socket.setEncoding('utf8').on('data', (chunk: string) => {
        answer += chunk
      })
      socket.on('error', reject).on('close', () => resolve(answer))
      socket.end(text)
    })

  it.each([
    ['garbage', 'GARBAGE\r\n\r\n', '400 Bad Request'],
    ['a broken header', 'GET / HTTP/1.1\r\nhost: localhost\r\nbad header\r\n\r\n', '400 Bad Request'],
    ['headers without end', `GET / HTTP/1.1\r\nhost: localhost\r\nx: ${'y'.repeat(9_000)}\r\n\r\n`, '431 '],
    [
      'two lengths',
      'POST /api/events HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nxx',
      '400 ',
    ],
    [
      'a length beside chunks',
      'POST /api/events HTTP/1.1\r\nhost: localhost\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n',
      '400 ',
    ],
  ])('such as %s get an error response in the usual form, and the connection ends', async (_what, text, status) => {
    const answer = await raw(text)
    expect(answer).toMatch(new RegExp(`^HTTP/1\\.1 ${status}`))
    expect(answer).toContain('connection: close')
    const [error] = Object.values(JSON.parse(answer.slice(answer.indexOf('{'))))
    expect(error).toBe(
      status === '431 '
        ? 'The path, query and headers of a request may have at most 8 KiB together.'
        : 'The request is malformed.',
    )
    expect(answer.split('HTTP/1.1')).toHaveLength(2)
  })

  // The response to the first request is still on its way.
  it('do not affect the service behind another request in the same packet', async () => {
    const get = 'GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n'
    const post = `POST /api/heartbeat HTTP/1.1\r\nhost: localhost\r\nx-monitor-key: k\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}`
    const connectTo = 'CONNECT b:1 HTTP/1.1\r\nhost: localhost\r\n\r\n'
    const upgrade = 'GET / HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n'
    const expecting = 'POST / HTTP/1.1\r\nhost: localhost\r\nexpect: x\r\ncontent-length: 1\r\n\r\nx'
    const requests = [get, post, connectTo, upgrade, expecting, 'GARBAGE\r\n\r\n']
    const packets = requests.flatMap((first) => requests.map((second) => first + second + get))
    for (const packet of packets) await raw(packet).catch(() => {})
    expect((await fetch(`http://127.0.0.1:${port}/healthz`)).status).toBe(200)
  })

  it('do not affect the service', async () => {
    await Promise.all(['\0\0\0', '\r\n\r\n', 'GET', ''].map(raw))
    expect((await fetch(`http://127.0.0.1:${port}/healthz`)).status).toBe(200)
  })
})

it.each([
  ['content-length: 600000', (part: string) => part],
  ['transfer-encoding: chunked', (part: string) => `${part.length.toString(16)}\r\n${part}\r\n`],
])('a client that is still sending a body that is too large reads the refusal (%s)', async (length, framed) => {
  const socket = connect(port, '127.0.0.1').setEncoding('utf8')
  const answers = on(socket, 'data', { close: ['close'] })
  const answer = async () => String((await answers.next()).value?.[0])
  socket.write(
    `POST /api/events HTTP/1.1\r\nhost: localhost\r\nx-monitor-key: ${adminKey}\r\ncontent-type: application/json\r\n`,
  )
  socket.write(`${length}\r\n\r\n${framed('x'.repeat(300_000))}`)
  expect(await answer()).toMatch(/^HTTP\/1\.1 413 /)
  const end = length.startsWith('transfer') ? '0\r\n\r\n' : ''
  socket.write(`${framed('x'.repeat(300_000))}${end}GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n`)
  expect(await answer()).toMatch(/^HTTP\/1\.1 200 /)
  socket.destroy()
})

describe('a path refused before routing', () => {
  const paths = ['/%zz', '/api/instances/%ff/status', '/docs/%zz']
  const send = async (path: string, headers = 'host: localhost') => {
    const socket = connect(port, '127.0.0.1').setEncoding('utf8')
    socket.write(`GET ${path} HTTP/1.1\r\n${headers}\r\nconnection: close\r\n\r\n`)
    let answer = ''
    for await (const chunk of socket) answer += chunk
    return answer
  }

  it.each(paths)('such as %s is refused in the usual form, without repeating it', async (path) => {
    const answer = await send(path)
    expect(answer).toMatch(/^HTTP\/1\.1 400 /)
    expect(answer).toContain('x-error-code: invalid')
    expect(answer).toContain('x-content-type-options: nosniff')
    expect(answer).toMatch(/\r\n\r\n\{"error":"The path is malformed\."\}$/)
  })

  // The router responds to these before any hook runs, so the checks for every request must apply here too.
  it.each(paths)('such as %s is not served under a foreign host name', async (path) => {
    expect(await send(path, 'host: evil.example')).toMatch(/^HTTP\/1\.1 421 /)
  })

  it('closes a connection that already requested a stream', async () => {
    const stream = 'GET /api/stream HTTP/1.1\r\nhost: localhost\r\n\r\n'
    const socket = connect(port, '127.0.0.1').setEncoding('utf8')
    socket.write(`${stream}GET /%zz HTTP/1.1\r\nhost: localhost\r\n\r\n`)
    let answer = ''
    for await (const chunk of socket) answer += chunk
    expect(answer).not.toContain('malformed')
    expect((await fetch(`http://127.0.0.1:${port}/healthz`)).status).toBe(200)
  })
})

describe('a refusal by a plugin', () => {
  const get = async (path: string) => {
    const socket = connect(port, '127.0.0.1').setEncoding('utf8')
    socket.write(`GET ${path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n`)
    let answer = ''
    for await (const chunk of socket) answer += chunk
    return answer
  }

  // Otherwise anyone without a key could write a stack to the log with each request.
  it('of a path that leaves its folder is a 4xx without a log line', async () => {
    const lines = service.logged.length
    for (const path of ['/docs/static/../x', '/docs/static/..%2f..%2fpackage.json', '/docs/static/%2e%2e/x']) {
      expect(await get(path), path).toMatch(/^HTTP\/1\.1 4\d\d /)
    }
    expect(service.logged.slice(lines)).toEqual([])
  })

  it('keeps its status, or becomes 400 if the contract has no such status, and hides its message', async () => {
    const app = createServer(service.deps)
    app.get('/:status', ({ params }) => {
      throw Object.assign(new Error('/etc/wardline/file'), {
        statusCode: Number((params as { status: string }).status),
      })
    })
    for (const [given, expected] of [
      [400, 400],
      [401, 401],
      [403, 403],
      [404, 404],
      [413, 413],
      [418, 400],
      [499, 400],
      [500, 500],
      [503, 500],
      [200, 500],
    ]) {
      const answer = await app.inject({ url: `/${given}`, headers: { host: 'localhost' } })
      expect(answer.statusCode, String(given)).toBe(expected)
      expect(answer.body).not.toContain('/etc')
    }
  })
})

describe('an internal error', () => {
  // Otherwise a caller who triggers one could fill the disk with stacks.
  it('is logged once per second and endpoint, with the number of requests', async () => {
    await using own = await openTestService()
    const app = createServer(own.deps)
    app.get('/broken/:id', () => {
      throw new Error('unforeseen')
    })
    app.get('/other', () => {
      throw new Error('unforeseen')
    })
    const times = async (count: number, url: string) => {
      for (let index = 0; index < count; index++) await app.inject({ url, headers: { host: 'localhost' } })
    }
    const faults = () =>
      own.logged
        .map((line) => JSON.parse(line) as { endpoint?: string; requests?: number })
        .filter(({ endpoint }) => endpoint !== undefined)
        .map(({ endpoint, requests }) => [endpoint, requests])
    await times(50, '/broken/1')
    await times(50, '/broken/2')
    await times(2, '/other')
    expect(faults()).toEqual([
      ['/broken/:id', 1],
      ['/other', 1],
    ])
    own.clock.advance(1_000)
    await times(1, '/broken/3')
    expect(faults().at(-1)).toEqual(['/broken/:id', 100])
  })

  // Statements, tables and file names belong in the operator's log, not in responses.
  it('is reported without its details', async () => {
    await service.deps.database.db.schema.alterTable('baselines').renameTo('hidden_baselines').execute()
    const body = {
      severity: 'info',
      source: 's',
      event_type: 'session_metrics',
      description: '{"a":1}',
      instance_id: 'x',
    }
    const answer = await post(body)
    expect(answer).toMatchObject({ status: 500, body: { error: 'The database is unavailable.' } })
    expect(answer.text + JSON.stringify(answer.headers)).not.toMatch(/baselines|sqlite|postgres|relation|\.ts/i)
    expect(service.logged.join()).toMatch(/no such table: baselines|\\"baselines\\" does not exist/)
    await service.deps.database.db.schema.alterTable('hidden_baselines').renameTo('baselines').execute()
  })

  it('affects readiness but not liveness', async () => {
    await using other = await openTestService()
    expect((await other.call('GET', '/readyz', { key: null })).status).toBe(200)
    await other.deps.database.db.schema.alterTable('job_runs').renameTo('hidden').execute()
    // The database is probed at most once per second, however often readiness is queried.
    expect((await other.call('GET', '/readyz', { key: null })).status).toBe(200)
    other.clock.advance(1_000)
    expect((await other.call('GET', '/readyz', { key: null })).status).toBe(503)
    expect((await other.call('GET', '/healthz', { key: null })).status).toBe(200)
  })
})

// PostgreSQL refuses NUL in a text: it must be a fault of the request, not one of the database.
it.each(Object.entries(endpoints).filter(([, { path }]) => path.includes(':')))(
  'refuses NUL in the path of %s',
  async (_name, { method, path }) => {
    const url = path.replaceAll(/:\w+/g, 'a%00b')
    const { status } = await service.call(method, url, method === 'POST' ? { body: {} } : {})
    expect(status).toBe(400)
  },
)

it('closes the connection of a client that announces more than is discarded', async () => {
  const socket = connect(port, '127.0.0.1').setEncoding('utf8')
  let answer = ''
  socket.on('data', (text) => {
    answer += text
  })
  socket.write(`POST /api/events HTTP/1.1\r\nhost: localhost\r\nx-monitor-key: ${adminKey}\r\n`)
  socket.write(`content-type: application/json\r\ncontent-length: ${100 * 1024 ** 3}\r\n\r\n{`)
  await once(socket, 'close')
  expect(answer).toMatch(/^HTTP\/1\.1 413 /)
  expect(answer).toMatch(/^connection: close\r$/im)
})
