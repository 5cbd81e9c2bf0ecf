import { once } from 'node:events'
import { type AddressInfo, connect } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { listJobs } from '../../jobs.ts'
import { openTestService, type TestService } from '../../test-service.ts'
import { hashKey } from './key-format.ts'
import { forgetStaleSessions, Sessions } from './sessions.ts'

const minuteMs = 60_000
const hourMs = 60 * minuteMs

let service: TestService
beforeAll(async () => {
  service = await openTestService()
})
afterAll(() => service[Symbol.asyncDispose]())

async function logIn(key?: string, headers: Record<string, string> = {}, on = service) {
  const answer = await on.call('POST', '/api/session', { ...(key ? { key } : {}), headers })
  expect(answer.status).toBe(201)
  const setCookie = String(answer.headers['set-cookie'])
  return { setCookie, cookie: setCookie.split(';')[0]! }
}
const read = async (cookie: string) =>
  (await service.call('GET', '/api/status', { key: null, headers: { cookie } })).status
const write = async (cookie: string, headers: Record<string, string>) =>
  (
    await service.call('POST', '/api/kill/nobody', {
      key: null,
      body: { reason: 'x' },
      headers: { cookie, ...headers },
    })
  ).status

describe('a browser session', () => {
  it('uses a cookie that scripts cannot read and other sites cannot send', async () => {
    const { setCookie } = await logIn()
    expect(setCookie).toMatch(/^wardline=[\w-]{43}; HttpOnly; SameSite=Strict; Path=\/; Max-Age=43200$/)
  })

  it('uses a __Host- cookie behind a proxy that terminates HTTPS', async () => {
    await using behind = await openTestService({ env: { WARDLINE_TRUSTED_PROXIES: '127.0.0.1' } })
    const { setCookie } = await logIn(undefined, { 'x-forwarded-proto': 'https' }, behind)
    expect(setCookie).toMatch(/^__Host-wardline=[\w-]{43}; HttpOnly; SameSite=Strict; Path=\/; Max-Age=43200; Secure$/)
  })

  // A host such as blog.example.com can set a cookie for all of example.com, with a session of the attacker.
  it('is not replaced by a cookie with the plain name over HTTPS', async () => {
    await using behind = await openTestService({ env: { WARDLINE_TRUSTED_PROXIES: '127.0.0.1' } })
    const https = { 'x-forwarded-proto': 'https' }
    const { cookie } = await logIn(undefined, https, behind)
    const planted = (await logIn((await behind.createKey('viewer')).key, {}, behind)).cookie
    const status = async (sent: string) =>
      (await behind.call('GET', '/api/keys', { key: null, headers: { ...https, cookie: sent } })).status
    expect(await status(`${planted}; ${cookie}`)).toBe(200)
    expect(await status(`wardline=${'A'.repeat(43)}; ${cookie}`)).toBe(200)
    expect(await status(planted)).toBe(401)
  })

  // A reader of the database must not be able to take over the browser session of an operator.
  it('is stored only as a hash', async () => {
    const { cookie } = await logIn()
    expect(JSON.stringify(await service.rows('select * from sessions'))).not.toContain(cookie.split('=')[1])
  })

  it('has the scope of its key', async () => {
    const { id, key } = await service.createKey('viewer')
    const { cookie } = await logIn(key)
    expect(await read(cookie)).toBe(200)
    const session = await service.call('GET', '/api/session', { key: null, headers: { cookie } })
    expect(session.body).toMatchObject({ key_id: id, scope: 'viewer' })
    expect(await write(cookie, { origin: 'http://localhost:4747', host: 'localhost:4747' })).toBe(403)
    expect((await service.call('GET', '/api/keys', { key: null, headers: { cookie } })).status).toBe(403)
  })

  it('is refused to an agent key with 403', async () => {
    const { key } = await service.createKey('agent')
    expect((await service.call('POST', '/api/session', { key })).status).toBe(403)
  })

  it('ends after 30 minutes without a request', async () => {
    const { cookie } = await logIn()
    for (let count = 0; count < 4; count++) {
      service.clock.advance(30 * minuteMs)
      expect(await read(cookie)).toBe(200)
    }
    service.clock.advance(30 * minuteMs + 1)
    expect(await read(cookie)).toBe(401)
  })

  it('ends after 12 hours even if it is in use', async () => {
    const { cookie } = await logIn()
    for (let passed = 0; passed < 12 * hourMs - 20 * minuteMs; passed += 20 * minuteMs) {
      service.clock.advance(20 * minuteMs)
      expect(await read(cookie)).toBe(200)
    }
    service.clock.advance(20 * minuteMs)
    expect(await read(cookie)).toBe(401)
  })

  it('ends when its key is revoked, or rotated without an overlap', async () => {
    const revoked = await service.createKey('operator')
    const rotated = await service.createKey('operator')
    const sessions = [await logIn(revoked.key), await logIn(rotated.key)]
    await service.call('DELETE', `/api/keys/${revoked.id}`)
    await service.call('POST', `/api/keys/${rotated.id}/rotate`, { body: { overlap_seconds: 0 } })
    for (const { cookie } of sessions) expect(await read(cookie)).toBe(401)
  })

  // An operator replaces a WARDLINE_API_KEY that leaked. Sessions of the leaked key must end.
  it('ends when WARDLINE_API_KEY, its key, is replaced', async () => {
    const { cookie } = await logIn()
    await using restarted = await openTestService({
      dataDir: service.deps.config.dataDir,
      clock: service.clock,
      env: { WARDLINE_API_KEY: 'another-key-of-the-administrator-1234' },
    })
    expect((await restarted.call('GET', '/api/status', { key: null, headers: { cookie } })).status).toBe(401)
  })

  // A stolen cookie that could open another session would never expire.
  it('gets 401 when it opens another session: only a key may', async () => {
    const { cookie } = await logIn()
    const sameOrigin = { origin: 'http://localhost:4747', host: 'localhost:4747' }
    const before = await service.rows('select * from sessions order by token_hash')
    for (const headers of [sameOrigin, { ...sameOrigin, 'sec-fetch-site': 'same-origin' }]) {
      const answer = await service.call('POST', '/api/session', { key: null, headers: { cookie, ...headers } })
      expect([answer.status, answer.headers['set-cookie']]).toEqual([401, undefined])
      expect(answer.body).toEqual({ error: 'Only a key opens a session: send it in the header X-Monitor-Key.' })
    }
    expect(await service.rows('select * from sessions order by token_hash')).toEqual(before)
    expect((await service.call('POST', '/api/session', { key: 'wrong', headers: { cookie } })).status).toBe(401)
  })

  it('ends with the other sessions that the same browser opened with the same key, and no others', async () => {
    const { key } = await service.createKey('viewer')
    const first = await logIn(key)
    const again = await logIn(key, { cookie: first.cookie })
    const third = await logIn(key, { cookie: again.cookie })
    const elsewhere = await logIn(key)
    const other = await service.createKey('viewer')
    const switched = await logIn(other.key, { cookie: first.cookie })
    const stranger = await logIn(key, { cookie: 'wardline=made-up' })
    const headers = { cookie: again.cookie, origin: 'http://localhost:4747', host: 'localhost:4747' }
    await service.call('DELETE', '/api/session', { key: null, headers })
    for (const { cookie } of [first, again, third]) expect(await read(cookie)).toBe(401)
    for (const { cookie } of [elsewhere, switched, stranger]) expect(await read(cookie)).toBe(200)
  })

  it('ends after 12 hours even if later sessions of its family are open', async () => {
    const first = await logIn()
    let last = first
    for (let passed = 0; passed < 12 * hourMs; passed += 20 * minuteMs) {
      expect(await read(first.cookie)).toBe(200)
      last = await logIn(undefined, { cookie: last.cookie })
      service.clock.advance(20 * minuteMs)
    }
    expect(await read(first.cookie)).toBe(401)
    expect(await read(last.cookie)).toBe(200)
  })

  it('ends on logout, on the server and in the browser', async () => {
    const { cookie } = await logIn()
    const sameOrigin = { origin: 'http://localhost:4747', host: 'localhost:4747' }
    const answer = await service.call('DELETE', '/api/session', { key: null, headers: { cookie, ...sameOrigin } })
    expect(answer.status).toBe(200)
    expect(String(answer.headers['set-cookie'])).toMatch(/^wardline=; .*Max-Age=0$/)
    expect(await read(cookie)).toBe(401)
  })

  // Another site cannot read responses, but it can make the operator's browser send a write with the cookie.
  it.each([
    ['another site', { 'sec-fetch-site': 'cross-site', origin: 'http://evil.example' }, 403],
    ['another port of the same host', { 'sec-fetch-site': 'same-site', origin: 'http://localhost:4748' }, 403],
    ['another site that forged its origin', { 'sec-fetch-site': 'same-site', origin: 'http://localhost:4747' }, 403],
    ['a link or a typed address', { 'sec-fetch-site': 'none' }, 403],
    ['an old browser on another site', { origin: 'http://evil.example' }, 403],
    ['an old browser on another port', { origin: 'http://localhost:4748' }, 403],
    ['a sandboxed page', { origin: 'null' }, 403],
    ['an origin that is none', { origin: 'localhost:4747' }, 403],
    ['something that tells no origin', {}, 403],
    ['our own page', { 'sec-fetch-site': 'same-origin', origin: 'http://localhost:4747' }, 404],
    ['our own page in an old browser', { origin: 'http://localhost:4747' }, 404],
  ] as [string, Record<string, string>, number][])('answers a write from %s', async (_from, headers, expected) => {
    const { cookie } = await logIn()
    expect(await write(cookie, { host: 'localhost:4747', ...headers })).toBe(expected)
  })

  it('is required: a missing, malformed or unknown cookie gets 401', async () => {
    await logIn()
    for (const cookie of ['', 'wardline=', 'wardline', 'wardline=x', 'other=x; wardline=y', '__Host-wardline=z']) {
      expect(await read(cookie), cookie).toBe(401)
    }
  })

  it('is read from a header with several cookies', async () => {
    const { cookie } = await logIn()
    expect(await read(`theme=dark; ${cookie}; lang=en`)).toBe(200)
  })

  // A valid cookie must not hide that the key is invalid.
  it('does not replace an invalid key in the same request', async () => {
    const { cookie } = await logIn()
    expect((await service.call('GET', '/api/status', { key: 'bad', headers: { cookie } })).status).toBe(401)
  })

  // A cookie requires no key, so invalid ones must be cheap. A dashboard sends several requests at once.
  it('is queried at most once a second, and never for a malformed cookie', async () => {
    const { cookie } = await logIn()
    const { deps, services } = service
    let queries = 0
    const db = deps.database.db.withPlugin({
      transformQuery: ({ node }) => {
        queries += 1
        return node
      },
      transformResult: async ({ result }) => result,
    })
    const sessions = new Sessions({ ...deps, database: { ...deps.database, db } }, services.keyring)
    const find = (token: string) => sessions.bySession(token)
    const token = cookie.split('=')[1]!
    const burst = await Promise.all(Array.from({ length: 10 }, () => find(token)))
    expect(burst.every((principal) => principal?.session === hashKey(token))).toBe(true)
    await find(token)
    expect(queries).toBe(1)
    service.clock.advance(1_000)
    await find(token)
    expect(queries).toBe(2)
    expect(await find('x'.repeat(43))).toBeUndefined()
    expect([queries, sessions.knownSession('x'.repeat(43)), sessions.knownSession(token)]).toEqual([3, 'over', 'live'])
    await service.execute('alter table sessions rename to sessions_away')
    const statuses: number[] = []
    for (const value of ['x', 'x'.repeat(42), 'x'.repeat(44), `${'x'.repeat(42)}!`]) {
      statuses.push(await read(`wardline=${value}`))
    }
    await service.execute('alter table sessions_away rename to sessions')
    expect(statuses).toEqual([401, 401, 401, 401])
  })

  it('is deleted after it has ended', async () => {
    service.clock.advance(12 * hourMs)
    await forgetStaleSessions(service.deps)
    await logIn()
    service.clock.advance(30 * minuteMs)
    await forgetStaleSessions(service.deps)
    expect(await service.rows('select * from sessions')).toHaveLength(1)
    service.clock.advance(1)
    await forgetStaleSessions(service.deps)
    expect(await service.rows('select * from sessions')).toEqual([])
  })
})

describe('a stream opened by a session', () => {
  /** Opens a stream over a socket. */
  async function listen(on: TestService, path: string, cookie: string) {
    if (!on.app.server.listening) await on.app.listen({ host: '127.0.0.1', port: 0 })
    const { port } = on.app.server.address() as AddressInfo
    const socket = connect(port, '127.0.0.1')
    const ended = once(socket, 'close')
    socket.write(`GET ${path} HTTP/1.1\r\nhost: localhost\r\ncookie: ${cookie}\r\n\r\n`)
    const [head] = await once(socket, 'data')
    expect(String(head)).toMatch(/^HTTP\/1.1 200 OK/)
    socket.resume()
    return { ended, isOpen: () => !socket.destroyed, close: () => socket.destroy() }
  }

  async function openStreams(on: TestService) {
    await on.call('POST', '/api/heartbeat', { body: { instance_id: 'agent-1', name: 'Agent' } })
    const [left, kept] = [await logIn(undefined, {}, on), await logIn(undefined, {}, on)]
    const paths = ['/api/stream', '/api/instances/agent-1/control']
    const open = ({ cookie }: { cookie: string }) => Promise.all(paths.map((path) => listen(on, path, cookie)))
    return { left, kept, ending: await open(left), staying: await open(kept) }
  }

  /** Runs the job that each process runs twice a second. */
  const lookAtKeys = async (on: TestService) => {
    const { everyMs, run } = listJobs(on.deps, on.services).find(({ name }) => name === 'keys')!
    expect(everyMs).toBeLessThanOrEqual(500)
    await run()
  }

  // After a logout on a shared screen, it must show no more events.
  it('ends when its session is logged out in another process; streams of other sessions stay open', async () => {
    await using on = await openTestService({ env: { WARDLINE_STREAM_AUTH: 'session' } })
    await using other = await openTestService({ dataDir: on.deps.config.dataDir, clock: on.clock })
    const { left, ending, staying } = await openStreams(on)
    await lookAtKeys(on)
    expect([...ending, ...staying].every(({ isOpen }) => isOpen())).toBe(true)
    const headers = { cookie: left.cookie, origin: 'http://localhost:4747', host: 'localhost:4747' }
    await other.call('DELETE', '/api/session', { key: null, headers })
    await lookAtKeys(on)
    await Promise.all(ending.map(({ ended }) => ended))
    await lookAtKeys(on)
    expect(staying.every(({ isOpen }) => isOpen())).toBe(true)
    for (const { close } of staying) close()
  })

  it.each([
    ['was idle for half an hour', 30 * minuteMs + 1],
    ['is twelve hours old', 12 * hourMs],
  ])('ends when the session %s', async (_why, passed) => {
    await using on = await openTestService({ env: { WARDLINE_STREAM_AUTH: 'session' } })
    const { kept, ending, staying } = await openStreams(on)
    on.clock.advance(passed)
    if (passed < 12 * hourMs) {
      await on.execute(`update sessions set last_used_at = ${on.clock.now()}
        where token_hash = '${hashKey(kept.cookie.split('=')[1]!)}'`)
    }
    await lookAtKeys(on)
    await Promise.all(ending.map(({ ended }) => ended))
    if (passed < 12 * hourMs) expect(staying.every(({ isOpen }) => isOpen())).toBe(true)
    for (const { close } of staying) close()
  })

  it('ends when the key of the session is revoked', async () => {
    await using on = await openTestService({ env: { WARDLINE_STREAM_AUTH: 'session' } })
    const { id, key } = await on.createKey('viewer')
    const { cookie } = await logIn(key, {}, on)
    const { ended } = await listen(on, '/api/stream', cookie)
    await on.call('DELETE', `/api/keys/${id}`)
    await lookAtKeys(on)
    await ended
  })
})
