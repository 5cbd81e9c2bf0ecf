import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openTestService, type TestService } from '../../test-service.ts'
import { forgetStaleSessions } from './sessions.ts'

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
  it('lives in a cookie that scripts cannot read and other sites cannot send', async () => {
    const { setCookie } = await logIn()
    expect(setCookie).toMatch(/^wardline=[\w-]{43}; HttpOnly; SameSite=Strict; Path=\/; Max-Age=43200$/)
  })

  it('is bound to its host by name behind a proxy that speaks HTTPS', async () => {
    await using behind = await openTestService({ env: { WARDLINE_TRUSTED_PROXIES: '127.0.0.1' } })
    const { setCookie } = await logIn(undefined, { 'x-forwarded-proto': 'https' }, behind)
    expect(setCookie).toMatch(/^__Host-wardline=[\w-]{43}; HttpOnly; SameSite=Strict; Path=\/; Max-Age=43200; Secure$/)
  })

  // Whoever reads the database must not be able to sit down at the browser of an operator.
  it('is stored only as a hash', async () => {
    const { cookie } = await logIn()
    expect(JSON.stringify(await service.rows('select * from sessions'))).not.toContain(cookie.split('=')[1])
  })

  it('acts with the scope of its key', async () => {
    const { key } = await service.createKey('viewer')
    const { cookie } = await logIn(key)
    expect(await read(cookie)).toBe(200)
    expect(await write(cookie, { origin: 'http://localhost:4747', host: 'localhost:4747' })).toBe(403)
    expect((await service.call('GET', '/api/keys', { key: null, headers: { cookie } })).status).toBe(403)
  })

  it('is not for agents', async () => {
    const { key } = await service.createKey('agent')
    expect((await service.call('POST', '/api/session', { key })).status).toBe(403)
  })

  it('ends after half an hour without use', async () => {
    const { cookie } = await logIn()
    for (let count = 0; count < 4; count++) {
      service.clock.advance(30 * minuteMs)
      expect(await read(cookie)).toBe(200)
    }
    service.clock.advance(30 * minuteMs + 1)
    expect(await read(cookie)).toBe(401)
  })

  it('ends after twelve hours however busy it is', async () => {
    const { cookie } = await logIn()
    for (let passed = 0; passed < 12 * hourMs - 20 * minuteMs; passed += 20 * minuteMs) {
      service.clock.advance(20 * minuteMs)
      expect(await read(cookie)).toBe(200)
    }
    service.clock.advance(20 * minuteMs)
    expect(await read(cookie)).toBe(401)
  })

  it('dies with its key: revoked, expired or rotated away', async () => {
    const revoked = await service.createKey('operator')
    const rotated = await service.createKey('operator')
    const sessions = [await logIn(revoked.key), await logIn(rotated.key)]
    await service.call('DELETE', `/api/keys/${revoked.id}`)
    await service.call('POST', `/api/keys/${rotated.id}/rotate`, { body: { overlap_seconds: 0 } })
    for (const { cookie } of sessions) expect(await read(cookie)).toBe(401)
  })

  // The operator replaces WARDLINE_API_KEY because it leaked: who logged in with the old one must be out.
  it('dies with the configured key when that is replaced', async () => {
    const { cookie } = await logIn()
    await using restarted = await openTestService({
      dataDir: service.deps.config.dataDir,
      clock: service.clock,
      env: { WARDLINE_API_KEY: 'another-key-of-the-administrator-1234' },
    })
    expect((await restarted.call('GET', '/api/status', { key: null, headers: { cookie } })).status).toBe(401)
  })

  it('ends by logging out, on the server as well as in the browser', async () => {
    const { cookie } = await logIn()
    const sameOrigin = { origin: 'http://localhost:4747', host: 'localhost:4747' }
    const answer = await service.call('DELETE', '/api/session', { key: null, headers: { cookie, ...sameOrigin } })
    expect(answer.status).toBe(200)
    expect(String(answer.headers['set-cookie'])).toMatch(/^wardline=; .*Max-Age=0$/)
    expect(await read(cookie)).toBe(401)
  })

  // Another site cannot read answers, but it can make the operator's browser send a write with the cookie.
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

  it('is nothing that can be guessed or left out', async () => {
    await logIn()
    for (const cookie of ['', 'wardline=', 'wardline', 'wardline=x', 'other=x; wardline=y', '__Host-wardline=z']) {
      expect(await read(cookie), cookie).toBe(401)
    }
  })

  it('is found among other cookies', async () => {
    const { cookie } = await logIn()
    expect(await read(`theme=dark; ${cookie}; lang=en`)).toBe(200)
  })

  // A key that was refused must not be saved by a cookie beside it.
  it('does not stand in for a bad key', async () => {
    const { cookie } = await logIn()
    expect((await service.call('GET', '/api/status', { key: 'bad', headers: { cookie } })).status).toBe(401)
  })

  it('is forgotten once it cannot be used any more', async () => {
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
