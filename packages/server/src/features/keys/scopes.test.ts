import { type Endpoint, endpoints, type Scope, scopes } from '@wardline/contract'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { isoTime } from '../../clock.ts'
import { openTestService, type TestService } from '../../test-service.ts'
import { generateKey } from './key-format.ts'

/** Bodies that are refused after the caller was let in: the table is about who is let in. */
const harmless = (endpoint: Endpoint) => {
  const path = endpoint.path
    .replace(':instanceId', 'agent-nobody')
    .replace(':id', endpoint.path.includes('keys') ? '00000000' : '00000000-0000-0000-0000-000000000000')
  return { path, body: endpoint.body || endpoint.rawBody ? '"no object"' : undefined }
}

const table = Object.entries(endpoints as Record<string, Endpoint>)
/** Open in the default configuration. */
const isOpen = ({ access }: Endpoint) => !Array.isArray(access)

describe('who may call what', () => {
  let service: TestService
  let guarded: TestService
  let keys: Record<Scope | 'expired' | 'revoked', string>

  beforeAll(async () => {
    service = await openTestService()
    const expires = isoTime(service.clock.now() + 1_000)
    const expired = await service.createKey('admin', undefined, expires)
    const revoked = await service.createKey('admin')
    await service.call('DELETE', `/api/keys/${revoked.id}`)
    service.clock.advance(2_000)
    const found = await Promise.all(scopes.map(async (scope) => [scope, (await service.createKey(scope)).key]))
    keys = { ...(Object.fromEntries(found) as Record<Scope, string>), expired: expired.key, revoked: revoked.key }
    guarded = await openTestService({
      dataDir: service.deps.config.dataDir,
      clock: service.clock,
      env: { WARDLINE_STREAM_AUTH: 'session', WARDLINE_METRICS_AUTH: 'key' },
    })
  })
  afterAll(async () => {
    await guarded[Symbol.asyncDispose]()
    await service[Symbol.asyncDispose]()
  })

  const call = (endpoint: Endpoint, key: string | null, on = service) => {
    const { path, body } = harmless(endpoint)
    return on.call<{ error: string }>(endpoint.method, path, { key, ...(body ? { body } : {}) })
  }

  // The matrix is made from the endpoint table: an endpoint that is added without a rule cannot be missed here.
  it.each(table.filter(([, endpoint]) => !isOpen(endpoint)))('%s is for its scopes only', async (_name, endpoint) => {
    for (const scope of scopes) {
      const { status } = await call(endpoint, keys[scope])
      const allowed = (endpoint.access as readonly Scope[]).includes(scope)
      if (allowed) expect([401, 403, 500, 503], scope).not.toContain(status)
      else expect(status, scope).toBe(403)
    }
  })

  it.each(table.filter(([, endpoint]) => !isOpen(endpoint)))(
    '%s is refused without a valid key',
    async (_name, endpoint) => {
      // Invalid keys of the endpoints before are forgotten by now.
      service.clock.advance(60_000)
      const attempts = {
        none: null,
        empty: '',
        bad: 'bad',
        unknown: generateKey('admin').key,
        expired: keys.expired,
        revoked: keys.revoked,
      }
      for (const [title, key] of Object.entries(attempts)) {
        const answer = await call(endpoint, key)
        expect(answer.status, title).toBe(401)
        expect(Object.keys(answer.body), title).toEqual(['error'])
        expect(answer.headers['x-error-code'], title).toBe('unauthorized')
      }
    },
  )

  it('leaves open only what is meant to be', () => {
    expect(
      table
        .filter(([, endpoint]) => isOpen(endpoint))
        .map(([name]) => name)
        .toSorted(),
    ).toEqual([
      'getAgentRegistration',
      'getControlKeys',
      'getHealth',
      'getMetrics',
      'getPythonClient',
      'getReadiness',
      'getSdk',
      'getTrust',
      'getTrustBadge',
      'getTrustBadgeData',
      // The code of the link is its own secret.
      'redeemLoginLink',
      'streamEvents',
    ])
  })

  it('closes the stream and the metrics when configured', async () => {
    for (const name of ['streamEvents', 'getMetrics'] as const) {
      for (const key of [null, 'bad', keys.expired, keys.revoked]) {
        expect((await call(endpoints[name], key, guarded)).status, name).toBe(401)
      }
      expect((await call(endpoints[name], keys.agent, guarded)).status, name).toBe(403)
    }
    expect((await call(endpoints.getMetrics, keys.viewer, guarded)).status).toBe(200)
    expect((await call(endpoints.getTrust, null, guarded)).status).toBe(200)
  })

  // A second spelling of a path that the router takes for the first, but the rules do not, would be a way in.
  it('knows every path under one spelling only', async () => {
    const spellings = [
      '/API/status',
      '/api/status/',
      '//api/status',
      '/api//status',
      '/api/%73tatus/',
      '/api/./status/x',
      '/api/status%00',
      '/api/status;x',
    ]
    for (const path of spellings) {
      const { status } = await service.call('GET', path, { key: null })
      expect([401, 404], path).toContain(status)
    }
    expect((await service.call('GET', '/api/%73tatus', { key: null })).status).not.toBe(200)
    for (const method of ['HEAD', 'OPTIONS', 'PUT'] as const) {
      expect((await service.call(method, '/api/status')).status, method).toBe(404)
    }
  })

  // Agents are bound to their own instances in what they read about the kill switch, too.
  it('keeps an agent from following the kill switch of another instance', async () => {
    await service.call('POST', '/api/heartbeat', { body: { instance_id: 'other', name: 'other' } })
    for (const path of ['/api/instances/other/status', '/api/instances/other/control']) {
      expect((await service.call('GET', path, { key: keys.agent })).status).toBe(403)
    }
    expect((await service.call('GET', '/api/instances/other/status', { key: keys.viewer })).status).toBe(200)
  })
})
