import { once } from 'node:events'
import { type AddressInfo, connect } from 'node:net'
import { type Endpoint, endpoints, hiddenHeader, sessionHeader } from '@wardline/contract'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { listJobs } from '../../jobs.ts'
import { openTestService, type TestService, type TestSession } from '../../testing/service.ts'
import { hashKey } from './key-format.ts'
import { forgetStaleSessions, Sessions } from './sessions.ts'

const minuteMs = 60_000
const hourMs = 60 * minuteMs

let service: TestService
beforeAll(async () => {
  service = await openTestService()
})
afterAll(() => service[Symbol.asyncDispose]())

const logIn = (key?: string, headers: Record<string, string> = {}, on = service) => on.signIn(key, headers)
const read = async ({ headers }: Pick<TestSession, 'headers'>, on = service) =>
  (await on.call('GET', '/api/status', { key: null, headers })).status
const write = async (session: TestSession, headers: Record<string, string>) =>
  (
    await service.call('POST', '/api/kill/nobody', {
      key: null,
      body: { reason: 'x' },
      headers: { ...session.headers, ...headers },
    })
  ).status

describe('a browser session', () => {
  it('uses a cookie that scripts cannot read and other sites cannot send', async () => {
    const { setCookie } = await logIn()
    expect(setCookie).toMatch(/^wardline=[\w-]{43}; HttpOnly; SameSite=Strict; Path=\/; Max-Age=43200$/)
  })

  it('says where traces are shown, if an address is set', async () => {
    const template = 'https://traces.example/t/{trace_id}'
    await using traced = await openTestService({ env: { WARDLINE_TRACE_URL: template } })
    for (const [on, trace_url] of [
      [traced, template],
      [service, undefined],
    ] as const) {
      const { headers } = await logIn(undefined, {}, on)
      const { body } = await on.call<{ trace_url?: string }>('GET', '/api/session', { key: null, headers })
      expect(body.trace_url).toBe(trace_url)
    }
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
    const own = await logIn(undefined, https, behind)
    const planted = await logIn((await behind.createKey('viewer')).key, {}, behind)
    const status = async (cookie: string, session = own) =>
      (await behind.call('GET', '/api/keys', { key: null, headers: { ...session.headers, ...https, cookie } })).status
    expect(await status(`${planted.cookie}; ${own.cookie}`)).toBe(200)
    expect(await status(`wardline=${'A'.repeat(43)}; ${own.cookie}`)).toBe(200)
    expect(await status(planted.cookie, planted)).toBe(401)
  })

  // A reader of the database must not be able to take over the browser session of an operator.
  it('is stored only as hashes', async () => {
    const { cookie, secret } = await logIn()
    const stored = JSON.stringify(await service.rows('select * from sessions'))
    for (const part of [cookie.split('=')[1]!, secret]) {
      expect(part).toMatch(/^[\w-]{43}$/)
      expect(stored).not.toContain(part)
    }
  })

  // Browsers send the cookie to every port of the host: a page there hands it to its server, which sends it on with
  // forged headers.
  it('is refused to the cookie alone, or with another secret, for reads and writes', async () => {
    const session = await logIn()
    const other = await logIn()
    const own = { 'sec-fetch-site': 'same-origin', origin: 'http://localhost:4747', host: 'localhost:4747' }
    const forged = [
      { cookie: session.cookie },
      { cookie: session.cookie, [sessionHeader]: '' },
      { cookie: session.cookie, [sessionHeader]: session.cookie.split('=')[1]! },
      { cookie: session.cookie, [sessionHeader]: other.secret },
      { cookie: session.cookie, [sessionHeader]: `${session.secret}, ${session.secret}` },
      { [sessionHeader]: session.secret },
    ]
    for (const headers of forged) {
      const named = JSON.stringify(headers)
      expect(await read({ headers: { ...headers, ...own } as never }), named).toBe(401)
      expect(await write({ ...session, headers: headers as never }, own), named).toBe(401)
    }
    const all: Endpoint[] = Object.values(endpoints)
    for (const { method, path, isOtlp } of all.filter(({ access }) => Array.isArray(access))) {
      const answer = await service.call(method, path.replaceAll(/:\w+/g, 'x'), {
        key: null,
        headers: { cookie: session.cookie, ...own, ...(isOtlp ? { 'content-type': 'application/json' } : {}) },
      })
      expect([answer.status, answer.headers['set-cookie']], path).toEqual([401, undefined])
      const sentence =
        "The session cookie is accepted only with the session's secret in the header wardline-session: sign in again."
      expect(answer.body, path).toEqual(isOtlp ? { code: 16, message: sentence } : { error: sentence })
    }
    expect([await read(session), await read(other)]).toEqual([200, 200])
  })

  // Otherwise a holder of the cookie could keep an unused session open.
  it('is not kept open by requests with another secret', async () => {
    const session = await logIn()
    const { secret } = await logIn()
    service.clock.advance(20 * minuteMs)
    expect(await read({ headers: { ...session.headers, [sessionHeader]: secret } })).toBe(401)
    service.clock.advance(10 * minuteMs + 1)
    expect(await read(session)).toBe(401)
  })

  it('of a process of the previous version, which has no secret, is refused', async () => {
    const session = await logIn()
    const tokenHash = hashKey(session.cookie.split('=')[1]!)
    await service.execute(`update sessions set secret_hash = null where token_hash = '${tokenHash}'`)
    expect(await read(session)).toBe(401)
    expect(await read({ headers: { ...session.headers, [sessionHeader]: '' } })).toBe(401)
  })

  it('has the scope of its key', async () => {
    const { id, key } = await service.createKey('viewer')
    const session = await logIn(key)
    const { headers } = session
    expect(await read(session)).toBe(200)
    const { body } = await service.call('GET', '/api/session', { key: null, headers })
    expect(body).toMatchObject({ key_id: id, scope: 'viewer' })
    expect(await write(session, { origin: 'http://localhost:4747', host: 'localhost:4747' })).toBe(403)
    expect((await service.call('GET', '/api/keys', { key: null, headers })).status).toBe(403)
  })

  // A load balancer sends the next request to a process that has not reloaded its keys.
  it('is accepted at once by a process that does not know its key, in many requests at a time', async () => {
    await using other = await openTestService({ dataDir: service.deps.config.dataDir, clock: service.clock })
    const { key } = await service.createKey('viewer')
    const session = await logIn(key)
    expect(await Promise.all(Array.from({ length: 20 }, () => read(session, other)))).toEqual(Array(20).fill(200))
    const revoked = await service.createKey('viewer')
    const ended = await logIn(revoked.key)
    await service.call('DELETE', `/api/keys/${revoked.id}`)
    expect(await read(ended, other)).toBe(401)
  })

  // Otherwise a stolen key could open sessions for twelve hours without a trace.
  it('leaves an audit entry that names the key, but no token or secret', async () => {
    const { id, key } = await service.createKey('operator')
    const { cookie, secret } = await logIn(key)
    const { body, text } = await service.call<{ entries: object[] }>('GET', `/api/audit?target=${id}&action=session.*`)
    expect(body.entries).toMatchObject([
      {
        action: 'session.create',
        actor: id,
        scope: 'operator',
        ip: '127.0.0.1',
        after: { by: 'key', expires_at: service.clock.now() + 12 * hourMs },
      },
    ])
    for (const part of [cookie.split('=')[1]!, secret, hashKey(secret)]) expect(text).not.toContain(part)
    const allow = await service.refuse('insert', 'audit_log')
    expect((await service.call('POST', '/api/session', { key })).status).toBe(500)
    await allow()
    expect(await service.rows(`select * from sessions where key_id = '${id}'`)).toHaveLength(1)
  })

  // A stolen key of any scope could otherwise fill the disk, as audit entries are never deleted.
  it('is opened by a key at most 60 times at once, and then once in ten seconds', async () => {
    const [{ id, key }, other] = [await service.createKey('viewer'), await service.createKey('viewer')]
    const attempt = async (path: string, by = key) => (await service.call('POST', path, { key: by })).status
    const statuses = []
    for (let count = 0; count < 70; count++)
      statuses.push(await attempt(count % 2 ? '/api/session' : '/api/login-links'))
    expect(statuses).toEqual([...Array(60).fill(201), ...Array(10).fill(429)])
    const refused = await service.call<{ error: string }>('POST', '/api/session', { key })
    expect(refused.headers['retry-after']).toBe('10')
    expect(refused.body.error).toMatch(/^The key signed in more than 60 times: .*\.$/)
    expect(await attempt('/api/session', other.key)).toBe(201)
    expect(await service.rows(`select seq from audit_log where target = '${id}'`)).toHaveLength(60 + 1)
    service.clock.advance(10_000)
    expect([await attempt('/api/session'), await attempt('/api/session')]).toEqual([201, 429])
  })

  it('is refused to an agent key with 403', async () => {
    const { key } = await service.createKey('agent')
    expect((await service.call('POST', '/api/session', { key })).status).toBe(403)
  })

  it('ends after 30 minutes without a request', async () => {
    const session = await logIn()
    for (let count = 0; count < 4; count++) {
      service.clock.advance(30 * minuteMs)
      expect(await read(session)).toBe(200)
    }
    service.clock.advance(30 * minuteMs + 1)
    expect(await read(session)).toBe(401)
  })

  it('ends after 12 hours even if it is in use', async () => {
    const session = await logIn()
    for (let passed = 0; passed < 12 * hourMs - 20 * minuteMs; passed += 20 * minuteMs) {
      service.clock.advance(20 * minuteMs)
      expect(await read(session)).toBe(200)
    }
    service.clock.advance(20 * minuteMs)
    expect(await read(session)).toBe(401)
  })

  it('ends when its key is revoked, or rotated without an overlap', async () => {
    const revoked = await service.createKey('operator')
    const rotated = await service.createKey('operator')
    const sessions = [await logIn(revoked.key), await logIn(rotated.key)]
    await service.call('DELETE', `/api/keys/${revoked.id}`)
    await service.call('POST', `/api/keys/${rotated.id}/rotate`, { body: { overlap_seconds: 0 } })
    for (const session of sessions) expect(await read(session)).toBe(401)
  })

  // An operator replaces a WARDLINE_API_KEY that leaked. Sessions of the leaked key must end.
  it('ends when WARDLINE_API_KEY, its key, is replaced', async () => {
    const session = await logIn()
    await using restarted = await openTestService({
      dataDir: service.deps.config.dataDir,
      clock: service.clock,
      env: { WARDLINE_API_KEY: 'another-key-of-the-administrator-1234' },
    })
    expect(await read(session, restarted)).toBe(401)
  })

  // A stolen session that could open another one would never expire.
  it('gets 401 when it opens another session: only a key may', async () => {
    const session = await logIn()
    const sameOrigin = { origin: 'http://localhost:4747', host: 'localhost:4747' }
    const before = await service.rows('select * from sessions order by token_hash')
    for (const headers of [sameOrigin, { ...sameOrigin, 'sec-fetch-site': 'same-origin' }]) {
      const answer = await service.call('POST', '/api/session', {
        key: null,
        headers: { ...session.headers, ...headers },
      })
      expect([answer.status, answer.headers['set-cookie']]).toEqual([401, undefined])
      expect(answer.body).toEqual({ error: 'Only a key opens a session: send it in the header X-Monitor-Key.' })
    }
    expect(await service.rows('select * from sessions order by token_hash')).toEqual(before)
    expect((await service.call('POST', '/api/session', { key: 'wrong', headers: session.headers })).status).toBe(401)
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
    const headers = { ...again.headers, origin: 'http://localhost:4747', host: 'localhost:4747' }
    await service.call('DELETE', '/api/session', { key: null, headers })
    for (const session of [first, again, third]) expect(await read(session)).toBe(401)
    for (const session of [elsewhere, switched, stranger]) expect(await read(session)).toBe(200)
  })

  it('ends after 12 hours even if later sessions of its family are open', async () => {
    const first = await logIn()
    let last = first
    for (let passed = 0; passed < 12 * hourMs; passed += 20 * minuteMs) {
      expect(await read(first)).toBe(200)
      last = await logIn(undefined, { cookie: last.cookie })
      service.clock.advance(20 * minuteMs)
    }
    expect(await read(first)).toBe(401)
    expect(await read(last)).toBe(200)
  })

  it('ends on logout, on the server and in the browser', async () => {
    const session = await logIn()
    const headers = { ...session.headers, origin: 'http://localhost:4747', host: 'localhost:4747' }
    const answer = await service.call('DELETE', '/api/session', { key: null, headers })
    expect(answer.status).toBe(200)
    expect(String(answer.headers['set-cookie'])).toMatch(/^wardline=; .*Max-Age=0$/)
    expect(await read(session)).toBe(401)
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
    const session = await logIn()
    expect(await write(session, { host: 'localhost:4747', ...headers })).toBe(expected)
  })

  // A program on another port may have the cookie and a viewer's key: it must not sign the operator out.
  it('is not ended by a request with a key that has its cookie but not its secret', async () => {
    const session = await logIn()
    const { key } = await service.createKey('viewer')
    const ended = await service.call('DELETE', '/api/session', { key, headers: { cookie: session.cookie } })
    expect(ended.status).toBe(200)
    expect(await read(session)).toBe(200)
  })

  it('is required: a missing, malformed or unknown cookie gets 401', async () => {
    const { headers } = await logIn()
    for (const cookie of ['', 'wardline=', 'wardline', 'wardline=x', 'other=x; wardline=y', '__Host-wardline=z']) {
      expect(await read({ headers: { ...headers, cookie } }), cookie).toBe(401)
    }
  })

  it('is read from a header with several cookies', async () => {
    const { cookie, headers } = await logIn()
    expect(await read({ headers: { ...headers, cookie: `theme=dark; ${cookie}; lang=en` } })).toBe(200)
  })

  // A valid cookie must not hide that the key is invalid.
  it('does not replace an invalid key in the same request', async () => {
    const { headers } = await logIn()
    expect((await service.call('GET', '/api/status', { key: 'bad', headers })).status).toBe(401)
  })

  // A cookie requires no key, so invalid ones must be cheap. A dashboard sends several requests at once.
  it('is queried at most once a second, and never for a malformed cookie', async () => {
    const { cookie, secret, headers } = await logIn()
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
    const find = (token: string) => sessions.bySession({ token, secret })
    const token = cookie.split('=')[1]!
    const burst = await Promise.all(Array.from({ length: 10 }, () => find(token)))
    expect(burst.every((found) => typeof found === 'object' && found.session === hashKey(token))).toBe(true)
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
      statuses.push(await read({ headers: { ...headers, cookie: `wardline=${value}` } }))
    }
    await service.execute('alter table sessions_away rename to sessions')
    expect(statuses).toEqual([401, 401, 401, 401])
  })

  // A hidden tab that notifies reads every 15 seconds: an open desk would stay signed in.
  it('is not in use by what a hidden page reads', async () => {
    const [hidden, seen] = [await logIn(), await logIn()]
    const headers = { ...hidden.headers, [hiddenHeader]: '1' }
    const unattended = async () => (await service.call('GET', '/api/status', { key: null, headers })).status
    for (let minutes = 0; minutes < 31; minutes += 5) {
      expect(await unattended()).toBe(200)
      expect(await read(seen)).toBe(200)
      service.clock.advance(5 * minuteMs)
    }
    expect(await unattended()).toBe(401)
    expect(await read(hidden)).toBe(401)
    expect(await read(seen)).toBe(200)
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
  async function listen(on: TestService, path: string, { cookie, secret }: TestSession) {
    if (!on.app.server.listening) await on.app.listen({ host: '127.0.0.1', port: 0 })
    const { port } = on.app.server.address() as AddressInfo
    const socket = connect(port, '127.0.0.1')
    const ended = once(socket, 'close')
    socket.write(`GET ${path} HTTP/1.1\r\nhost: localhost\r\ncookie: ${cookie}\r\n${sessionHeader}: ${secret}\r\n\r\n`)
    const [head] = await once(socket, 'data')
    expect(String(head)).toMatch(/^HTTP\/1.1 200 OK/)
    socket.resume()
    return { ended, isOpen: () => !socket.destroyed, close: () => socket.destroy() }
  }

  async function openStreams(on: TestService) {
    await on.call('POST', '/api/heartbeat', { body: { instance_id: 'agent-1', name: 'Agent' } })
    const [left, kept] = [await logIn(undefined, {}, on), await logIn(undefined, {}, on)]
    const paths = ['/api/stream', '/api/instances/agent-1/control']
    const open = (session: TestSession) => Promise.all(paths.map((path) => listen(on, path, session)))
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
    const headers = { ...left.headers, origin: 'http://localhost:4747', host: 'localhost:4747' }
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
    const { ended } = await listen(on, '/api/stream', await logIn(key, {}, on))
    await on.call('DELETE', `/api/keys/${id}`)
    await lookAtKeys(on)
    await ended
  })
})
