import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openSession } from './browser-headers.ts'
import { expectRefusal } from './expectations.ts'
import { createKey, createKeyDecoy, newInstance, postEvent } from './fleet.ts'
import { keyedRoutes, openRoutes, pathWith } from './routes.ts'
import { isExternal, type Service, startService } from './service.ts'

let service: Service
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service?.stop())

const open = (path: string) => service.call('GET', path, { key: null })

interface OpenApi {
  openapi: string
  info: { title: string; version: string }
  paths: Record<string, Record<string, { responses?: Record<string, unknown> }>>
}

const methods = ['get', 'post', 'put', 'patch', 'delete']
const withoutNames = (path: string) => path.replaceAll(/\{[^}]+\}|:[A-Za-z]+/g, '{}')

describe('health', () => {
  test('reports that the service is alive and ready, without a key', async () => {
    expect((await open('/healthz')).status).toBe(200)
    expect((await open('/readyz')).status).toBe(200)
  })
})

describe('GET /metrics', () => {
  const label = '[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\\\\n]|\\\\["\\\\n])*"'
  const sample = new RegExp(
    `^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\\{(?:${label}(?:,${label})*,?)?\\})? (?:NaN|[+-]Inf|[+-]?[0-9.]+(?:e[+-]?[0-9]+)?)(?: -?[0-9]+)?$`,
  )

  test('is Prometheus text, each sample with its type, none of them twice', async () => {
    await postEvent(service)
    const answer = await open('/metrics')
    expect(answer.status).toBe(200)
    expect(answer.headers['content-type']).toMatch(/^text\/plain/)
    expect(answer.text.endsWith('\n')).toBe(true)
    const types = new Map<string, string>()
    const seen = new Set<string>()
    for (const line of answer.text.split('\n').filter((text) => text !== '')) {
      const type = /^# TYPE (\S+) (counter|gauge|histogram|summary|untyped)$/.exec(line)
      if (type !== null) types.set(type[1]!, type[2]!)
      if (line.startsWith('#')) {
        expect(line).toMatch(/^# (HELP|TYPE) [a-zA-Z_:][a-zA-Z0-9_:]* /)
        continue
      }
      const name = sample.exec(line)?.[1]
      expect(name, line).toBeDefined()
      const base = name!.replace(/_(bucket|sum|count)$/, '')
      expect(types.has(name!) || types.has(base), line).toBe(true)
      const series = line.slice(0, line.lastIndexOf(' '))
      expect(seen.has(series), line).toBe(false)
      seen.add(series)
    }
    expect(seen.size).toBeGreaterThan(5)
  })

  // With a label per instance, a large fleet or an agent that forges ids would grow the page without limit.
  test('does not grow with the number of instances', async () => {
    const series = async () => (await open('/metrics')).text.split('\n').length
    await newInstance(service)
    const before = await series()
    const instances = 50
    for (let index = 0; index < instances; index++) await newInstance(service)
    // Jobs add a few series when they first run.
    expect(await series()).toBeLessThan(before + instances)
  })
})

describe('GET /openapi.json', () => {
  const read = async () => (await service.call<OpenApi>('GET', '/openapi.json', { key: null })).body
  const listed = async () =>
    Object.entries((await read()).paths).flatMap(([path, operations]) =>
      methods.filter((method) => method in operations).map((method) => `${method.toUpperCase()} ${path}`),
    )

  test('is OpenAPI 3.1 about Wardline', async () => {
    const document = await read()
    expect(document.openapi).toMatch(/^3\.1\.\d+$/)
    expect(document.info.title).toMatch(/Wardline/)
    expect(document.info.version).toMatch(/\S/)
  })

  test('lists every route of the contract', async () => {
    const known = (await listed()).map(withoutNames)
    const expected = [...keyedRoutes, ...openRoutes].map((route) => `${route.method} ${withoutNames(route.path)}`)
    const undocumented = ['GET /openapi.json', 'GET /docs']
    expect(expected.filter((route) => !known.includes(route) && !undocumented.includes(route))).toEqual([])
  })

  test('lists only existing routes, and a key for each that is not public', async () => {
    const openPaths = openRoutes.map((route) => withoutNames(route.path))
    for (const route of await listed()) {
      const [method = '', template = ''] = route.split(' ')
      const path = template.replaceAll(/\{[^}]+\}/g, '00000000-0000-4000-8000-000000000000')
      if (method === 'GET' && openPaths.includes(withoutNames(template))) continue
      // Signing in and out also works without a key in the header; a button in a message has a token in the body.
      const isOpen = [
        '/api/session',
        '/api/login',
        '/api/login/preview',
        '/api/sign-in',
        '/api/sign-in/start',
        '/api/sign-in/finish',
        '/api/sign-in/passkey/start',
        '/api/sign-in/passkey/finish',
        '/api/approvals/{id}/press',
        '/api/command-logins',
        '/api/command-logins/finish',
        '/api/command-logins/renew',
      ].includes(template)
      // 409: no provider is configured, at which people could sign in.
      const expected = isOpen ? [200, 204, 400, 401, 409] : [401]
      const answer = await service.call(method, path, { key: null })
      if (!template.startsWith('/api/')) expect([404, 405], route).not.toContain(answer.status)
      else expect(expected, `${route}: ${answer.text}`).toContain(answer.status)
    }
  })

  test('routes that it does not list get 404', async () => {
    const paths = [
      '/api',
      '/api/debug',
      '/api/admin',
      '/api/config',
      '/admin',
      '/debug',
      '/.env',
      '/.git/config',
      '/package.json',
      '/api/kill',
    ]
    for (const path of paths) {
      const answer = await service.call('GET', path)
      expect(answer.status, path).toBe(404)
    }
    expectRefusal(await service.call('GET', '/api/nothing'), 404)
  })

  test('resolves every reference within itself', async () => {
    const document = await read()
    const references = JSON.stringify(document).matchAll(/"\$ref":"([^"]+)"/g)
    for (const [, reference = ''] of references) {
      expect(reference).toMatch(/^#\//)
      let value: unknown = document
      for (const part of reference.slice(2).split('/')) {
        value = (value as Record<string, unknown>)?.[part.replaceAll('~1', '/').replaceAll('~0', '~')]
      }
      expect(value, reference).toBeDefined()
    }
  })
})

describe('GET /docs', () => {
  test('is an HTML page that describes the routes', async () => {
    const answer = await open('/docs')
    expect(answer.status).toBe(200)
    expect(answer.headers['content-type']).toMatch(/^text\/html/)
    expect(answer.text).toMatch(/<html[\s>]/i)
    expect(answer.text).toContain('Wardline')
  })

  // A page that loads third-party content reveals its readers and runs foreign code.
  test('refers to no other host, and neither do its resources', async () => {
    const page = await open('/docs')
    const references = [...page.text.matchAll(/\s(?:src|href|srcset|action|data|poster)\s*=\s*["']?([^"'\s>]+)/gi)].map(
      (match) => match[1]!,
    )
    const texts = [page.text]
    for (const reference of references) {
      expect(reference, 'a reference of the page').not.toMatch(/^(?:[a-z][a-z0-9+.-]*:)?\/\//i)
      if (/^(#|data:|mailto:)/.test(reference)) continue
      const loaded = await open(new URL(reference, `${service.baseUrl}/docs`).pathname)
      if (/\.(css|js|mjs)$/.test(reference)) {
        expect(loaded.status, reference).toBe(200)
        texts.push(loaded.text)
      }
    }
    for (const text of texts) {
      expect(text).not.toMatch(
        /@import\s+["'(]|url\(\s*["']?(?:https?:)?\/\/|(?:fetch|import)\(\s*["'`](?:https?:)?\/\//i,
      )
    }
  })

  test('forbids content sniffing, framing and third-party content', async () => {
    const { headers } = await open('/docs')
    const policy = String(headers['content-security-policy'] ?? '')
    expect(policy).toMatch(/default-src 'none'|default-src 'self'/)
    expect(policy).toMatch(/frame-ancestors 'none'/)
    expect(policy).not.toMatch(/https?:|\*|'unsafe-eval'/)
    expect(headers['x-content-type-options']).toBe('nosniff')
    expect((await service.call('GET', '/api/status')).headers['x-content-type-options']).toBe('nosniff')
  })
})

describe.skipIf(isExternal)('the log', () => {
  test('warns at startup of what an agent with the full-access key could do', () => {
    expect(service.logs()).toMatch(/WARDLINE_API_KEY/)
    expect(service.logs()).toMatch(/resume/i)
  })

  test('and the data folder contain no key, no cookie, no session secret and no decoy', async () => {
    const id = await newInstance(service)
    const created = [
      await createKey(service, { scope: 'agent', instances: [id] }),
      await createKey(service, { scope: 'admin' }),
    ]
    const bad = `wl_admin_${randomBytes(24).toString('hex')}`
    const decoy = await createKeyDecoy(service, id)
    const session = await openSession(service)
    await service.call('GET', '/api/status', { key: null, headers: session })
    const [cookie, secret] = [session.cookie.split('=').slice(1).join('='), session['wardline-session']]
    for (const part of [cookie, secret]) expect(part.length).toBeGreaterThan(16)
    for (const key of [...created, bad]) {
      for (const route of keyedRoutes) {
        if (route.path.endsWith('/control')) continue
        await service.call(route.method, pathWith(route, id), { key, body: route.body?.(id) })
      }
      await service.call('GET', `/api/status?key=${key}`, { key })
      await service.call('GET', `/api/nothing/${key}`, { key })
    }
    await service.call('POST', '/api/honeypots/check/key', { body: { key: decoy.key } })
    const stored = service.storedBytes().toString('latin1')
    for (const text of [service.key, ...created, cookie, secret, decoy.key]) {
      expect(service.logs().includes(text), `${text} in the log`).toBe(false)
      expect(stored.includes(text), `${text} in the data folder`).toBe(false)
    }
    expect(service.logs().includes(bad), 'a refused key in the log').toBe(false)
  })

  // An agent that could break or colour a log line could hide or forge another one.
  test('has one record per line and no control characters', async () => {
    const hostile = 'x\u001b[2K\u001b[1A\r\n{"level":50,"msg":"forged-line"}\u0007\u202e'
    await service.call('POST', '/api/heartbeat', { body: { instance_id: hostile, name: hostile } })
    const id = await newInstance(service)
    await service.call('POST', '/api/heartbeat', { body: { instance_id: id, name: hostile } })
    await service.call('POST', `/api/kill/${id}`, { body: { reason: hostile } })
    await postEvent(service, { severity: 'breach', source: hostile, description: hostile, instance_id: id })
    await service.call('GET', `/api/instances/${encodeURIComponent(hostile)}/status`)
    await service.call('GET', '/api/nothing/%0a%1b%5b31m', {
      headers: { 'user-agent': 'a\tb', 'x-request-id': '"}\t{' },
    })
    expect(service.logs()).not.toMatch(/[\u0000-\u0008\u000b-\u001f\u007f]/)
    expect(service.logs()).not.toMatch(/^\{"level":50,"msg":"forged-line"\}/m)
  })
})
