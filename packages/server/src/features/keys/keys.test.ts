import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { isoTime } from '../../clock.ts'
import { adminKey, openTestService, type TestService } from '../../testing/service.ts'
import { localActor } from '../audit/audit.ts'
import { generateKey } from './key-format.ts'
import { createKey, revokeKey } from './keys.ts'

let service: TestService
beforeAll(async () => {
  service = await openTestService()
})
afterAll(() => service[Symbol.asyncDispose]())

const status = async (key: string | null) => (await service.call('GET', '/api/status', { key })).status
const create = (body: object) =>
  service.call<{ id: string; key: string; error?: string }>('POST', '/api/keys', { body })
const rotate = (id: string, body: object = {}) =>
  service.call<{ id: string; key: string }>('POST', `/api/keys/${id}/rotate`, { body })
const revoke = (id: string) => service.call('DELETE', `/api/keys/${id}`)
const list = async () =>
  (
    await service.call<{ keys: { id: string; last_used_at: string | null; expires_at: string | null }[] }>(
      'GET',
      '/api/keys',
    )
  ).body.keys

describe('a key', () => {
  it('authenticates requests as soon as it is created', async () => {
    const { body } = await create({ scope: 'viewer', name: 'dashboard' })
    expect(await status(body.key)).toBe(200)
  })

  // A leaked copy of the database or of a backup must not give access to the service.
  it('is shown once and is not stored or logged', async () => {
    const { body } = await create({ scope: 'viewer', name: 'dashboard' })
    const secret = body.key.slice('wl_viewer_'.length + 9)
    const tables = await service.tables()
    for (const name of tables) {
      expect(JSON.stringify(await service.rows(`select * from ${name}`)), name).not.toContain(secret)
    }
    expect((await service.call('GET', '/api/keys')).text).not.toContain(secret)
    expect((await service.call('GET', '/api/audit')).text).not.toContain(secret)
    expect(service.logged.join()).not.toContain(secret)
  })

  it('gets 401 if it is unknown or malformed, and the metrics count each failure', async () => {
    await using fresh = await openTestService()
    const { key } = generateKey('admin')
    const body = await fresh.createKey('viewer')
    const flipped = body.key.slice(0, -1) + (body.key.endsWith('a') ? 'b' : 'a')
    for (const bad of [null, '', 'x', key, flipped, `${body.key} `.trim().toLowerCase(), `${adminKey}x`]) {
      expect((await fresh.call('GET', '/api/status', { key: bad })).status, String(bad)).toBe(401)
    }
    const { text } = await fresh.call('GET', '/metrics')
    expect(text).toContain('wardline_auth_failures_total{reason="unknown"} 1')
    expect(text).toContain('wardline_auth_failures_total{reason="malformed"} 5')
  })

  // Requests with known keys must not wait for the database, and malformed keys must not reach it.
  it('is found in memory, without a query', async () => {
    const { key } = await service.createKey('viewer')
    const { keyring } = service.services
    expect(keyring.find(key)).toMatchObject({ scope: 'viewer', instances: null })
    expect(keyring.find(`${key.slice(0, -6)}000000`)).toBeUndefined()
  })

  it('created by another process works immediately and is not counted as a failure', async () => {
    await using fresh = await openTestService()
    const grant = { scope: 'viewer' as const, name: 'from elsewhere' }
    const { key } = await createKey(fresh.deps.database, grant, localActor('cli'), fresh.clock.now())
    expect(fresh.services.keyring.find(key, false)).toBeUndefined()
    expect((await fresh.call('GET', '/api/status', { key })).status).toBe(200)
    expect((await fresh.call('GET', '/metrics')).text).not.toMatch(/wardline_auth_failures_total\{/)
  })

  it('gets 503 if the look-up of an unknown key fails, and is never counted as a failed attempt', async () => {
    await using fresh = await openTestService()
    const { key } = await createKey(
      fresh.deps.database,
      { scope: 'viewer', name: 'from elsewhere' },
      localActor('cli'),
      fresh.clock.now(),
    )
    await fresh.execute('alter table api_keys rename to api_keys_away')
    for (let attempt = 0; attempt < 25; attempt++) {
      const { status, headers } = await fresh.call('GET', '/api/status', { key })
      expect([status, headers['retry-after']]).toEqual([503, '1'])
    }
    await fresh.execute('alter table api_keys_away rename to api_keys')
    expect((await fresh.call('GET', '/api/status', { key })).status).toBe(200)
  })

  // findStored must not accept a key that find rejects.
  it('is rejected by findStored if it is revoked, unknown or malformed', async () => {
    const { id, key } = await service.createKey('viewer')
    await revokeKey(service.deps.database, id, localActor('cli'), service.clock.now())
    await service.services.keyring.refresh()
    expect(await service.services.keyring.findStored(key)).toBeUndefined()
    expect(await service.services.keyring.findStored(generateKey('admin').key)).toBeUndefined()
    expect(await service.services.keyring.findStored('nonsense')).toBeUndefined()
  })

  it('expires to the millisecond', async () => {
    const { body } = await create({ scope: 'viewer', name: 'guest', expires_at: isoTime(service.clock.now() + 5_000) })
    service.clock.advance(4_999)
    expect(await status(body.key)).toBe(200)
    service.clock.advance(1)
    expect(await status(body.key)).toBe(401)
  })

  it('gets 400 on creation if expires_at is in the past or not a time', async () => {
    for (const expires_at of [isoTime(service.clock.now()), '2001-01-01T00:00:00Z', 'tomorrow']) {
      const { status: answered, body } = await create({ scope: 'viewer', name: 'guest', expires_at })
      expect(answered).toBe(400)
      expect(body.error).toContain('expires_at')
    }
  })

  it('is refused immediately after it is revoked, and by another process after its next refresh', async () => {
    await using other = await openTestService({ dataDir: service.deps.config.dataDir, clock: service.clock })
    const { id, key } = await service.createKey('viewer')
    await other.services.keyring.refresh()
    expect((await other.call('GET', '/api/status', { key })).status).toBe(200)
    expect((await revoke(id)).body).toEqual({ ok: true, id })
    expect(await status(key)).toBe(401)
    await other.services.keyring.refresh()
    expect((await other.call('GET', '/api/status', { key })).status).toBe(401)
    expect((await revoke(id)).status).toBe(404)
  })

  it('records its last use when usage is flushed', async () => {
    const { id, key } = await service.createKey('viewer')
    expect((await list()).find((view) => view.id === id)?.last_used_at).toBeNull()
    await status(key)
    service.clock.advance(7_000)
    await status(key)
    await service.services.keyring.flushUsage()
    expect((await list()).find((view) => view.id === id)?.last_used_at).toBe(isoTime(service.clock.now()))
  })

  it('records its last use once the database accepts writes again', async () => {
    const { id, key } = await service.createKey('viewer')
    await status(key)
    const usedAt = isoTime(service.clock.now())
    const allow = await service.refuse('update', 'api_keys')
    await expect(service.services.keyring.flushUsage()).rejects.toThrow()
    await allow()
    service.clock.advance(7_000)
    await service.services.keyring.flushUsage()
    expect((await list()).find((view) => view.id === id)?.last_used_at).toBe(usedAt)
  })
})

describe('the name of a key', () => {
  it('is the list of its instances if an agent key has none, truncated to the limit', async () => {
    const many = Array.from({ length: 20 }, (_, index) => `instance-${index}`)
    const ids = [(await create({ scope: 'agent', instances: ['a', 'b-*'] })).body.id]
    ids.push((await create({ scope: 'agent', instances: many })).body.id)
    const names = await service.rows<{ id: string; name: string }>('select id, name from api_keys')
    const nameOf = (id: string) => names.find((row) => row.id === id)!.name
    expect(nameOf(ids[0]!)).toBe('a, b-*')
    expect(nameOf(ids[1]!)).toBe(`${many.join(', ').slice(0, 99)}…`)
  })

  it('is required for every other scope', async () => {
    const { status: refused, body } = await create({ scope: 'viewer' })
    expect([refused, body.error]).toEqual([400, 'name is required for scope viewer.'])
  })
})

describe('rotation', () => {
  it('accepts both keys during the overlap, then only the new one', async () => {
    const { id, key } = await service.createKey('operator')
    const { body } = await rotate(id, { overlap_seconds: 60 })
    service.clock.advance(59_999)
    expect([await status(key), await status(body.key)]).toEqual([200, 200])
    service.clock.advance(1)
    expect([await status(key), await status(body.key)]).toEqual([401, 200])
  })

  it('ends the old key immediately without an overlap, and after a day by default', async () => {
    const first = await service.createKey('viewer')
    await rotate(first.id, { overlap_seconds: 0 })
    expect(await status(first.key)).toBe(401)
    const second = await service.createKey('viewer')
    await rotate(second.id)
    service.clock.advance(86_399_999)
    expect(await status(second.key)).toBe(200)
    service.clock.advance(1)
    expect(await status(second.key)).toBe(401)
  })

  it('keeps scope, binding and expiry, and never extends the old key', async () => {
    const expires = isoTime(service.clock.now() + 10_000)
    const { id, key } = await service.createKey('agent', ['bot-1'], expires)
    const { body } = await rotate(id, { overlap_seconds: 3_600 })
    const keys = await list()
    expect(keys.find((view) => view.id === body.id)).toMatchObject({
      scope: 'agent',
      instances: ['bot-1'],
      expires_at: expires,
    })
    expect(keys.find((view) => view.id === id)).toMatchObject({ expires_at: expires })
    service.clock.advance(10_000)
    expect(service.services.keyring.find(key)).toBeUndefined()
    expect(service.services.keyring.find(body.key)).toBeUndefined()
  })

  // A revoked key must not be replaced by a valid one.
  it('of a revoked or unknown key gets 404', async () => {
    const { id } = await service.createKey('viewer')
    await revoke(id)
    expect((await rotate(id)).status).toBe(404)
    expect((await rotate('00000000')).status).toBe(404)
  })

  // The same for a revocation during the rotation.
  it('creates no successor if a concurrent revocation comes first', async () => {
    for (let attempt = 0; attempt < 10; attempt++) {
      const { id } = await service.createKey('viewer')
      const [revoked, rotated] = await Promise.all([revoke(id), rotate(id)])
      expect(revoked.status).toBe(200)
      const recorded = await service.rows<{ action: string }>(
        `select action from audit_log where target = '${id}' order by seq`,
      )
      const actions = recorded.map(({ action }) => action)
      if (rotated.status === 201) expect(actions).toEqual(['key.create', 'key.rotate', 'key.revoke'])
      else expect(actions).toEqual(['key.create', 'key.revoke'])
    }
  })
})

describe('the binding of an agent key', () => {
  const beat = (key: string, instance_id: string) =>
    service.call('POST', '/api/heartbeat', { key, body: { instance_id, name: 'x' } })

  // Without the binding, an agent could hide that another one is offline, or report events in its name.
  it.each([
    [['bot-1'], 'bot-1', 200],
    [['bot-1'], 'bot-2', 403],
    [['bot-1'], 'bot-11', 403],
    [['bot-1'], 'bot-', 403],
    [['bot-*'], 'bot-2', 200],
    [['bot-*'], 'bot-', 200],
    [['bot-*'], 'bot', 403],
    [['bot-*'], 'robot-1', 403],
    [['a', 'b-*'], 'b-9', 200],
    [['a', 'b-*'], 'c', 403],
  ])('to %j answers a heartbeat of %s with %i', async (instances, instanceId, expected) => {
    const { key } = await service.createKey('agent', instances)
    expect((await beat(key, instanceId)).status).toBe(expected)
    const body = { severity: 'info', source: 'x', event_type: 'note', description: 'x', instance_id: instanceId }
    expect((await service.call('POST', '/api/events', { key, body })).status).toBe(expected === 200 ? 201 : 403)
    const batch = await service.call<{ ok: boolean }>('POST', '/api/events/batch', { key, body: [body] })
    expect(batch.body.ok).toBe(expected === 200)
    await beat(adminKey, instanceId)
    expect((await service.call('GET', `/api/instances/${instanceId}/status`, { key })).status).toBe(expected)
  })

  // Events without an instance would bypass the binding.
  it('requires an instance in every event', async () => {
    const { key } = await service.createKey('agent', ['bot-1'])
    const body = { severity: 'info', source: 'x', event_type: 'note', description: 'x' }
    expect((await service.call('POST', '/api/events', { key, body })).status).toBe(403)
    const batch = await service.call('POST', '/api/events/batch', { key, body: [body] })
    expect(batch.body).toMatchObject({ ok: false, ids: [null] })
    expect(await service.rows('select * from events where instance_id is null and by_service = 0')).toEqual([])
  })

  it('is required for scope agent and rejected for all other scopes', async () => {
    expect((await create({ scope: 'agent', name: 'x' })).status).toBe(400)
    expect((await create({ scope: 'agent', name: 'x', instances: [] })).status).toBe(400)
    expect((await create({ scope: 'admin', name: 'x', instances: ['bot-1'] })).status).toBe(400)
    expect((await create({ scope: 'agent', name: 'x', instances: ['*'] })).status).toBe(400)
    expect((await create({ scope: 'agent', name: 'x', instances: ['a*b'] })).status).toBe(400)
  })
})
