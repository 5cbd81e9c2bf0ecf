import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openSession, type SessionHeaders } from './browser-headers.ts'
import { expectRefusal } from './expectations.ts'
import { createKey, newInstance } from './fleet.ts'
import { isExternal, type Service, startService } from './service.ts'

describe.skipIf(isExternal)('a browser session', () => {
  let service: Service
  beforeAll(async () => {
    service = await startService()
  })
  afterAll(() => service?.stop())

  const open = (key: string | null) => service.call('POST', '/api/session', { key })
  const withSession = (
    method: string,
    path: string,
    session: SessionHeaders,
    headers: Record<string, string> = {},
    body?: unknown,
  ) => service.call(method, path, { key: null, body, headers: { ...session, ...headers } })

  test('exchanges a key for a cookie that scripts cannot read and other sites cannot send', async () => {
    const answer = await open(service.key)
    const cookies = answer.headers['set-cookie'] ?? []
    expect(cookies).toHaveLength(1)
    expect(cookies[0]).toMatch(/;\s*HttpOnly/i)
    expect(cookies[0]).toMatch(/;\s*SameSite=Strict/i)
    expect(cookies[0]).toMatch(/;\s*Path=\//i)
    expect(cookies[0]).not.toContain(service.key)
    expect(answer.text).not.toContain(service.key)
  })

  test('sets no cookie for a missing or invalid key', async () => {
    for (const key of [null, 'nonsense']) {
      const answer = await open(key)
      expectRefusal(answer, 401)
      expect(answer.headers['set-cookie']).toBeUndefined()
    }
  })

  test('allows reads and writes by the page itself', async () => {
    const session = await openSession(service)
    expect((await withSession('GET', '/api/status', session)).status).toBe(200)
    const id = await newInstance(service)
    const own = { origin: service.baseUrl, 'sec-fetch-site': 'same-origin' }
    const answer = await withSession('POST', `/api/kill/${id}`, session, own, { reason: 'by hand' })
    expect(answer.status, answer.text).toBe(200)
  })

  // A page of another origin that makes the operator's browser resume an agent needs no key.
  test('refuses a write that comes from another origin and changes nothing', async () => {
    const session = await openSession(service)
    const id = await newInstance(service)
    const origins = [
      'https://evil.example',
      'null',
      `${service.baseUrl}.evil.example`,
      `http://127.0.0.1:${service.port + 1}`,
    ]
    for (const origin of origins) {
      const headers = { origin, 'sec-fetch-site': 'cross-site' }
      expectRefusal(await withSession('POST', `/api/kill/${id}`, session, headers, { reason: 'forged' }), 403)
    }
    const { body } = await service.call('GET', `/api/instances/${id}/status`)
    expect(body).toEqual({ suspended: false, reason: null })
  })

  test('has no more rights than its key', async () => {
    const session = await openSession(service, await createKey(service, { scope: 'viewer' }))
    const id = await newInstance(service)
    const own = { origin: service.baseUrl, 'sec-fetch-site': 'same-origin' }
    expect((await withSession('GET', '/api/status', session)).status).toBe(200)
    expectRefusal(await withSession('POST', `/api/kill/${id}`, session, own, { reason: 'too far' }), 403)
  })

  test('is refused with a forged or altered cookie', async () => {
    const session = await openSession(service)
    const { cookie } = session
    const altered = cookie.slice(0, -1) + (cookie.endsWith('A') ? 'B' : 'A')
    for (const value of [
      altered,
      cookie.replace(/=.*/, '='),
      cookie.replace(/=.*/, '=../../etc'),
      cookie.toUpperCase(),
    ]) {
      expectRefusal(await withSession('GET', '/api/status', { ...session, cookie: value }), 401)
    }
  })

  // A hostile page whose name resolves to 127.0.0.1 (DNS rebinding) is same-origin to the browser, but its Host shows.
  test('answers no request whose Host is not a loopback name', async () => {
    for (const path of ['/api/status', '/api/events', '/api/stream', '/docs']) {
      for (const host of ['evil.example', `evil.example:${service.port}`, `127.0.0.1.evil.example:${service.port}`]) {
        const answer = await service.call('GET', path, { headers: { host } })
        expect([400, 403, 421], `${host} ${path}`).toContain(answer.status)
      }
    }
    for (const host of [`127.0.0.1:${service.port}`, `localhost:${service.port}`, `[::1]:${service.port}`]) {
      expect((await service.call('GET', '/api/status', { headers: { host } })).status, host).toBe(200)
    }
  })
})
