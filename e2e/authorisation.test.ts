import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Answer } from './call.ts'
import { expectRefusal } from './expectations.ts'
import { allEvents, anEvent, beat, createKey, createKeyDecoy, newInstance, postEvent, unique } from './fleet.ts'
import { keyedRoutes, openRoutes, pathWith, type Route, type Scope } from './routes.ts'
import { type Service, startService } from './service.ts'
import type { BatchAnswer, CreatedKey } from './shapes.ts'

let service: Service
let instanceId: string
const keys = {} as Record<Scope, string>
const noDecoy = '00000000-0000-4000-8000-000000000000'

beforeAll(async () => {
  service = await startService()
  instanceId = await newInstance(service, 'guarded')
  keys.agent = await createKey(service, { scope: 'agent', instances: [instanceId] })
  for (const scope of ['viewer', 'operator', 'admin'] as const) keys[scope] = await createKey(service, { scope })
})
afterAll(() => service?.stop())

const titled = (routes: Route[]) => routes.map((route) => [`${route.method} ${route.path}`, route] as const)
const send = (route: Route, key: string | null) => {
  const id = route.path.startsWith('/api/honeypots/:') ? noDecoy : instanceId
  return service.call(route.method, pathWith(route, id), { key, body: route.body?.(id) })
}
/** OTLP has its own form: a google.rpc.Status, here as JSON. */
const asRefusal = ({ path }: Route, answer: Answer): Answer => {
  if (!path.startsWith('/v1/')) return answer
  const { code, message, ...others } = answer.body as { code: number; message: string }
  expect(code).toBe({ 401: 16, 403: 7, 429: 8 }[answer.status])
  return { ...answer, body: { error: message, ...others } }
}
const isSuspended = async (id: string) =>
  (await service.call<{ suspended: boolean }>('GET', `/api/instances/${id}/status`)).body.suspended

describe('without a valid key', () => {
  test.each(titled(keyedRoutes))('%s answers 401, or 429 to too many', async (_title, route) => {
    const changed = keys.admin.slice(0, -1) + (keys.admin.endsWith('x') ? 'y' : 'x')
    for (const key of [
      null,
      '',
      ' ',
      'nonsense',
      changed,
      keys.admin.slice(0, -7),
      `${keys.admin} `.repeat(2),
      'wl_admin',
    ]) {
      // From the 21st invalid key of an address within a minute, over all routes, the response is 429.
      expectRefusal(asRefusal(route, await send(route, key)), key === null ? 401 : [401, 429])
    }
  })

  test('answers 401 before it validates the body, the id or the content type', async () => {
    const cases = [
      ['POST', '/api/events', { raw: '{', headers: { 'content-type': 'text/plain' } }],
      ['POST', '/api/heartbeat', { body: { instance_id: 7 } }],
      ['POST', `/api/kill/${unique('nobody')}`, { body: {} }],
      ['GET', `/api/instances/${unique('nobody')}/status`, {}],
      ['DELETE', '/api/honeypots/nonsense', {}],
      ['GET', '/api/events?limit=nonsense', {}],
    ] as const
    for (const [method, path, options] of cases) {
      expectRefusal(await service.call(method, path, { ...options, key: null }), 401)
    }
  })

  test('accepts the key only in its header', async () => {
    const headers = { authorization: `Bearer ${service.key}`, 'x-api-key': service.key, cookie: `key=${service.key}` }
    const query = `?key=${service.key}&x-monitor-key=${service.key}`
    expectRefusal(await service.call('GET', `/api/status${query}`, { key: null, headers }), 401)
  })

  const openPages = openRoutes.filter(({ method }) => method === 'GET')
  test.each(titled(openPages))('%s is public, even for a client with an invalid key', async (_title, route) => {
    // The only public id is that of a signed attestation.
    const path = route.path.replace(':id', `0x${'0'.repeat(64)}`)
    for (const key of [undefined, 'nonsense']) {
      const stream = await service.openStream(path, { key })
      expect(stream.status).toBe(path === route.path ? 200 : 404)
      stream.close()
    }
  })

  // A proxy and a server that parse a path differently can let unauthorized requests pass.
  test('answers no other spelling of a path, and no other method', async () => {
    const paths = [
      '//api/status',
      '/api//status',
      '/api/./status',
      '/api/status/',
      '/api/status/.',
      '/API/STATUS',
      '/api/%73tatus',
      '/api%2Fstatus',
      '/api/status%2F',
      '/api/status;x',
      '/api/status%00',
      '/api/public/../status',
      '/api/public/trust/../../status',
      '/api/public/%2e%2e/status',
      '/api/stream/../status',
    ]
    for (const path of paths) {
      for (const method of ['GET', 'HEAD', 'POST']) {
        const answer = await service.call(method, path, { key: null })
        expect(answer.status, `${method} ${path}: ${answer.text}`).toBeGreaterThanOrEqual(400)
        expect(answer.status, `${method} ${path}: ${answer.text}`).toBeLessThan(500)
      }
    }
    for (const method of ['HEAD', 'PUT', 'PATCH', 'DELETE', 'TRACE', 'PROPFIND']) {
      const answer = await service.call(method, '/api/status', { key: null })
      expect(answer.status, method).toBeGreaterThanOrEqual(400)
      expect(answer.status, method).toBeLessThan(500)
    }
  })

  test('ignores headers that claim another method or an internal address', async () => {
    const headers = {
      'x-forwarded-for': '127.0.0.1',
      'x-original-url': '/api/public/trust',
      'x-rewrite-url': '/api/public/trust',
      'x-http-method-override': 'GET',
    }
    expectRefusal(await service.call('GET', '/api/status', { key: null, headers }), 401)
  })
})

describe('with a key of a scope', () => {
  for (const scope of ['agent', 'viewer', 'operator'] as const) {
    const forbidden = keyedRoutes.filter((route) => !route.scopes?.includes(scope))
    // The contract leaves open whether operators may confirm for an agent or check decoys, so only other limits are
    // checked.
    const held = forbidden.filter((route) => scope !== 'operator' || !/\/(ack|check)/.test(route.path))
    test.each(titled(held))(`${scope}: %s answers 403`, async (_title, route) => {
      expectRefusal(asRefusal(route, await send(route, keys[scope])), 403)
      expect(await isSuspended(instanceId)).toBe(false)
    })
  }

  test.each(titled(keyedRoutes))('%s accepts each allowed scope', async (_title, route) => {
    // No key has role approver; packages/server/src/features/people/approver.test.ts has its endpoints.
    for (const scope of (route.scopes ?? []).filter((allowed) => allowed in keys)) {
      if (route.path.endsWith('/control')) {
        const stream = await service.openStream(pathWith(route, instanceId), { key: keys[scope] })
        expect(stream.status, scope).toBe(200)
        stream.close()
        continue
      }
      // Repeated kills and resumes, unknown decoys and odd versions may be refused, but not with 403.
      const answer = await send(route, keys[scope])
      expect([200, 201, 207, 400, 404], `${scope}: ${answer.text}`).toContain(answer.status)
      expect(answer.headers['cache-control']).toBe('no-store')
      if (route.path.includes('/kill/')) await service.call('POST', `/api/resume/${instanceId}`)
      if (route.method === 'DELETE') await beat(service, instanceId)
    }
    expect(await isSuspended(instanceId)).toBe(false)
  })

  test('the key given by the operator works everywhere', async () => {
    for (const route of keyedRoutes) {
      if (route.path.endsWith('/control')) continue
      const answer = await send(route, service.key)
      expect([200, 201, 207, 400, 404], `${route.path}: ${answer.text}`).toContain(answer.status)
      if (route.path.includes('/kill/')) await service.call('POST', `/api/resume/${instanceId}`)
    }
  })
})

describe('POST /api/keys', () => {
  const create = (body: unknown) => service.call<CreatedKey>('POST', '/api/keys', { body })

  test('answers { ok, id, key } with a unique key that contains its scope', async () => {
    for (const scope of ['agent', 'viewer', 'operator', 'admin'] as const) {
      const body = { scope, name: 'named', ...(scope === 'agent' ? { instances: ['some-*'] } : {}) }
      const [first, second] = [await create(body), await create(body)]
      expect(first.status, first.text).toBe(201)
      expect(first.body).toMatchObject({ ok: true, id: expect.any(String) })
      expect(first.body.key).toMatch(new RegExp(`^wl_${scope}_[A-Za-z0-9]+_[A-Za-z0-9_-]{22,}_[A-Za-z0-9]+$`))
      expect(second.body.key).not.toBe(first.body.key)
      expect(first.headers['cache-control']).toBe('no-store')
    }
  })

  test.each([
    ['an unknown scope', { scope: 'root', name: 'x' }, 'scope'],
    ['no scope', { name: 'x' }, 'scope'],
    ['a list of scopes', { scope: ['admin'], name: 'x' }, 'scope'],
    ['instances that are no list', { scope: 'agent', instances: 'a-1', name: 'x' }, 'instances'],
    ['an instance that is no text', { scope: 'agent', instances: [7], name: 'x' }, 'instances'],
    ['a name that is no text', { scope: 'viewer', name: 7 }, 'name'],
  ])('refuses %s', async (_title, body, field) => {
    expectRefusal(await create(body), 400, field)
  })
})

// If a compromised agent could resume itself, the kill switch would be useless.
describe('a compromised agent', () => {
  test('cannot resume itself or suspend another', async () => {
    const [mine, other] = [await newInstance(service), await newInstance(service)]
    const key = await createKey(service, { scope: 'agent', instances: [mine] })
    await service.call('POST', `/api/kill/${mine}`, { body: { reason: 'caught' } })
    expectRefusal(await service.call('POST', `/api/resume/${mine}`, { key }), 403)
    expectRefusal(await service.call('POST', `/api/kill/${other}`, { key, body: { reason: 'framed' } }), 403)
    expect(await isSuspended(mine)).toBe(true)
    expect(await isSuspended(other)).toBe(false)
  })

  test('cannot delete, list or plant decoys or create keys', async () => {
    const decoy = await createKeyDecoy(service, instanceId)
    const key = keys.agent
    expectRefusal(await service.call('DELETE', `/api/honeypots/${decoy.id}`, { key }), 403)
    expectRefusal(await service.call('GET', '/api/honeypots', { key }), 403)
    expectRefusal(await service.call('POST', '/api/keys', { key, body: { scope: 'admin', name: 'mine' } }), 403)
    const check = await service.call('POST', '/api/honeypots/check/key', { key, body: { key: decoy.key } })
    expect(check.body).toEqual({ matched: true })
  })

  test('cannot report for or read any other instance, whether it exists or not', async () => {
    const ids = await Promise.all(Array.from({ length: 8 }, () => newInstance(service, 'cross')))
    const mark = unique('forged')
    const owners: [string, string][] = []
    for (const id of ids) owners.push([id, await createKey(service, { scope: 'agent', instances: [id] })])
    let pairs = 0
    for (const [owner, key] of owners) {
      for (const other of [...ids, unique('nobody')]) {
        if (other === owner) continue
        pairs++
        const heartbeat = { instance_id: other, name: mark }
        const event = anEvent({ instance_id: other, description: mark })
        expectRefusal(await service.call('POST', '/api/heartbeat', { key, body: heartbeat }), 403)
        expectRefusal(await service.call('POST', '/api/events', { key, body: event }), 403)
        expectRefusal(await service.call('GET', `/api/instances/${other}/status`, { key }), 403)
        expectRefusal(await service.call('POST', `/api/instances/${other}/ack`, { key, body: { version: 0 } }), 403)
      }
      await beat(service, owner, { key })
      await postEvent(service, { instance_id: owner }, { key })
      expect((await service.call('GET', `/api/instances/${owner}/status`, { key })).status).toBe(200)
    }
    expect(pairs).toBeGreaterThanOrEqual(50)
    expect((await service.call('GET', '/api/status')).text).not.toContain(mark)
    expect(JSON.stringify(await allEvents(service))).not.toContain(mark)
  })

  test('cannot include an event of another instance in a batch', async () => {
    const other = await newInstance(service)
    const mark = unique('smuggled')
    const events = [anEvent({ instance_id: instanceId }), anEvent({ instance_id: other, description: mark })]
    const answer = await service.call<BatchAnswer>('POST', '/api/events/batch', { key: keys.agent, body: events })
    if (answer.status === 403) expectRefusal(answer, 403)
    else expect(answer.body.errors.map((error) => error.index)).toEqual([1])
    expect(JSON.stringify(await allEvents(service))).not.toContain(mark)
  })

  test('cannot listen to the control stream of another', async () => {
    const other = await newInstance(service)
    expectRefusal(await service.call('GET', `/api/instances/${other}/control`, { key: keys.agent }), 403)
  })

  test('is limited to the prefix of its key', async () => {
    const team = unique('team')
    const key = await createKey(service, { scope: 'agent', instances: [`${team}-*`] })
    await beat(service, `${team}-1`, { key })
    await beat(service, `${team}-long-name`, { key })
    for (const other of [`${team}x`, `x${team}-1`, `other-${team}-1`]) {
      const answer = await service.call('POST', '/api/heartbeat', { key, body: { instance_id: other, name: 'x' } })
      expectRefusal(answer, 403)
    }
    for (const pattern of [`${team}-*`, '*', '%2a', `${team}-%2a`]) {
      const answer = await service.call('GET', `/api/instances/${pattern}/status`, { key })
      expect([400, 403, 404], answer.text).toContain(answer.status)
    }
  })
})
