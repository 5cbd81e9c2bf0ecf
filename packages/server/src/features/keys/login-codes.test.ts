import { afterAll, beforeAll, expect, it } from 'vitest'
import { openTestService, sessionOf, type TestService } from '../../testing/service.ts'

let service: TestService
beforeAll(async () => {
  service = await openTestService()
})
afterAll(() => service[Symbol.asyncDispose]())

const minuteMs = 60_000
const origin = { origin: 'http://localhost:80', host: 'localhost:80', 'sec-fetch-site': 'same-origin' }

async function link(key?: string): Promise<{ url: string; code: string; expires_at: string }> {
  const { status, body } = await service.call<{ url: string; expires_at: string }>('POST', '/api/login-links', {
    ...(key === undefined ? {} : { key }),
    headers: { host: 'localhost:4747' },
  })
  expect(status).toBe(201)
  return { ...body, code: body.url.split('#')[1]! }
}
const redeem = (code: string, headers: Record<string, string> = {}, to = service) =>
  to.call<{ scope: string; error: string; secret: string }>('POST', '/api/login', {
    key: null,
    body: { code },
    headers,
  })
const preview = (code: string, headers: Record<string, string> = {}, to = service) =>
  to.call<{ name: string; scope: string; key_id: string; error: string }>('POST', '/api/login/preview', {
    key: null,
    body: { code },
    headers,
  })
const headersOf = (answer: Awaited<ReturnType<typeof redeem>>) => sessionOf(answer.headers, answer.body).headers

it('a login link opens one session with the scope of the key', async () => {
  const { key } = await service.createKey('viewer')
  const { code, url, expires_at } = await link(key)
  expect(url).toBe(`http://localhost:4747/login#${code}`)
  expect(expires_at).toBe(new Date(service.clock.now() + 10 * minuteMs).toISOString())
  const answer = await redeem(code, origin)
  expect([answer.status, answer.body.scope]).toEqual([201, 'viewer'])
  expect(String(answer.headers['set-cookie'])).toMatch(/^wardline=[\w-]{43}; HttpOnly; SameSite=Strict; Path=\//)
  const { status } = await service.call('GET', '/api/status', { key: null, headers: headersOf(answer) })
  expect(status).toBe(200)
  const again = await redeem(code)
  expect([again.status, again.headers['set-cookie']]).toEqual([401, undefined])
})

// A link remains in the history of a terminal or a chat, where others can read it.
it('a login link ends after 10 minutes, with its key, and when the key creates another link', async () => {
  const late = await link()
  service.clock.advance(10 * minuteMs)
  expect((await redeem(late.code)).status).toBe(401)
  const [first, second] = [await link(), await link()]
  expect((await redeem(first.code)).status).toBe(401)
  expect((await redeem(second.code)).status).toBe(201)
  const viewer = await service.createKey('viewer')
  const { code } = await link(viewer.key)
  await service.call('DELETE', `/api/keys/${viewer.id}`)
  expect((await redeem(code)).status).toBe(401)
})

it('a login link opens one session if several clients redeem it at the same time in two processes', async () => {
  await using other = await openTestService({ dataDir: service.deps.config.dataDir, clock: service.clock })
  const { code } = await link()
  const answers = await Promise.all([redeem(code), redeem(code, {}, other), redeem(code), redeem(code, {}, other)])
  expect(answers.map(({ status }) => status).toSorted()).toEqual([201, 401, 401, 401])
})

// A load balancer sends the browser to a process that has not reloaded its keys: the link would be used up.
it('a login link of a new key works at once in a process that does not know the key', async () => {
  await using other = await openTestService({ dataDir: service.deps.config.dataDir, clock: service.clock })
  for (const attempt of [redeem, preview]) {
    const { key } = await service.createKey('viewer')
    const { code } = await link(key)
    const answer = await attempt(code, origin, other)
    expect([answer.status < 300, answer.body.scope]).toEqual([true, 'viewer'])
  }
})

it('a login link stays valid when its session cannot be stored', async () => {
  const { key } = await service.createKey('viewer')
  const { code } = await link(key)
  const allow = await service.refuse('insert', 'sessions')
  expect((await redeem(code, origin)).status).toBe(500)
  await allow()
  expect((await redeem(code, origin)).status).toBe(201)
})

// Otherwise a link of a revoked key could lock out an address that many people share.
it('a login link of a revoked key gets 401, which does not count as a guess', async () => {
  await using other = await openTestService({ dataDir: service.deps.config.dataDir, clock: service.clock })
  const viewer = await service.createKey('viewer')
  const { code } = await link(viewer.key)
  await service.call('DELETE', `/api/keys/${viewer.id}`)
  const statuses = []
  for (let count = 0; count < 25; count++) statuses.push((await redeem(code, origin, other)).status)
  expect(statuses).toEqual(Array(25).fill(401))
  expect((await redeem((await link()).code, origin, other)).status).toBe(201)
})

it('a session by a login link leaves an audit entry, and a refused link none', async () => {
  const { id, key } = await service.createKey('operator')
  const { code } = await link(key)
  expect((await redeem(code, origin)).status).toBe(201)
  expect((await redeem(code, origin)).status).toBe(401)
  const { body, text } = await service.call<{ entries: object[] }>('GET', `/api/audit?target=${id}&action=session.*`)
  expect(body.entries).toMatchObject([{ action: 'session.create', actor: id, after: { by: 'login_link' } }])
  expect(text).not.toContain(code)
})

// A foreign page could otherwise log the operator in to a session of the attacker (login CSRF).
it('a page of another site gets 403 when it redeems a login link', async () => {
  const { code } = await link()
  for (const headers of [
    { origin: 'https://evil.example', host: 'localhost:80' },
    { ...origin, 'sec-fetch-site': 'cross-site' },
    { ...origin, 'sec-fetch-site': 'same-site' },
  ]) {
    expect((await redeem(code, headers)).status).toBe(403)
    expect((await preview(code, headers)).status).toBe(403)
  }
  expect((await redeem(code, origin)).status).toBe(201)
})

// Otherwise a stolen session could be renewed forever.
it('a session gets 401 and an agent key 403 when it creates a login link', async () => {
  const headers = { ...headersOf(await redeem((await link()).code)), ...origin }
  expect((await service.call('POST', '/api/login-links', { key: null, headers })).status).toBe(401)
  const { key } = await service.createKey('agent')
  expect((await service.call('POST', '/api/login-links', { key })).status).toBe(403)
})

it('the audit log records the creation of a login link; its code is not stored or logged', async () => {
  const { key, id } = await service.createKey('operator')
  const { code } = await link(key)
  expect(JSON.stringify(await service.rows('select * from login_codes'))).not.toContain(code)
  expect(service.logged.join()).not.toContain(code)
  const { text } = await service.call('GET', `/api/audit?target=${id}&action=key.login_link`)
  expect(text).toContain('"action":"key.login_link"')
  expect(text).not.toContain(code)
})

it('the preview of a login link names its key as often as asked and leaves the link valid', async () => {
  const { key, id } = await service.createKey('operator')
  const { code } = await link(key)
  for (let count = 0; count < 3; count++) {
    const { status, body, headers } = await preview(code, origin)
    expect([status, headers['set-cookie']]).toEqual([200, undefined])
    expect(body).toEqual({ key_id: id, scope: 'operator', name: 'operator of a test' })
  }
  expect((await redeem(code, origin)).status).toBe(201)
  expect((await preview(code, origin)).status).toBe(401)
})

// A foreign page that navigates the operator to its own link could make them work under its key without notice.
it('a login link is refused while the browser has another session, which stays, and works after signing out', async () => {
  const session = await service.signIn()
  const { key } = await service.createKey('viewer')
  const { code } = await link(key)
  const before = await service.rows('select * from sessions order by token_hash')
  const refused = await redeem(code, { ...origin, ...session.headers })
  expect([refused.status, refused.headers['set-cookie']]).toEqual([409, undefined])
  expect(refused.body.error).toMatch(/^This browser is signed in with the key .+ \(admin\): sign out first\.$/)
  expect(await service.rows('select * from sessions order by token_hash')).toEqual(before)
  await service.call('DELETE', '/api/session', { key: null, headers: { ...origin, ...session.headers } })
  const answer = await redeem(code, { ...origin, ...session.headers })
  expect([answer.status, answer.body.scope]).toEqual([201, 'viewer'])
})

// Otherwise a cookie that another port has set could keep the operator from signing in.
it('a login link works in a browser whose cookie has no secret or the secret of another session', async () => {
  const session = await service.signIn()
  const other = await service.signIn()
  for (const headers of [{ cookie: session.cookie }, { ...session.headers, cookie: other.cookie }]) {
    expect((await redeem((await link()).code, { ...origin, ...headers })).status).toBe(201)
  }
})

it('a malformed code gets 400', async () => {
  for (const code of ['', 'x', 'A'.repeat(44), `${'A'.repeat(42)}%`]) {
    const { status, body } = await redeem(code)
    expect([status, body.error]).toEqual([400, 'code must be the code of a login link.'])
    expect((await preview(code)).status).toBe(400)
  }
})

it('a login link uses the public URL if configured, and an address that guesses codes gets 429', async () => {
  await using open = await openTestService({ env: { WARDLINE_PUBLIC_URL: 'https://wardline.example/ops/' } })
  const { body } = await open.call<{ url: string }>('POST', '/api/login-links')
  expect(body.url).toMatch(/^https:\/\/wardline\.example\/ops\/login#[\w-]{43}$/)
  const statuses = []
  for (let guess = 0; guess < 22; guess++) {
    const attempt = guess % 2 === 0 ? redeem : preview
    statuses.push((await attempt('A'.repeat(43), {}, open)).status)
  }
  expect([statuses[0], statuses.at(-1)]).toEqual([401, 429])
  for (const attempt of [preview, redeem]) {
    expect((await attempt(body.url.split('#')[1]!, {}, open)).status).toBe(429)
  }
})
