import { type Endpoint, endpoints, type KeyScope, keyScopes } from '@wardline/contract'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { isoTime } from '../../clock.ts'
import { openTestService, type TestService } from '../../testing/service.ts'

const table = Object.entries(endpoints as Record<string, Endpoint>)
/** Whether the endpoint requires no key by default. */
const isOpen = ({ access }: Endpoint) => !Array.isArray(access)

describe('authorization', () => {
  let service: TestService
  let guarded: TestService
  let keys: Record<KeyScope | 'expired' | 'revoked', string>

  beforeAll(async () => {
    service = await openTestService()
    const expires = isoTime(service.clock.now() + 1_000)
    const expired = await service.createKey('admin', undefined, expires)
    const revoked = await service.createKey('admin')
    await service.call('DELETE', `/api/keys/${revoked.id}`)
    service.clock.advance(2_000)
    const found = await Promise.all(keyScopes.map(async (scope) => [scope, (await service.createKey(scope)).key]))
    keys = { ...(Object.fromEntries(found) as Record<KeyScope, string>), expired: expired.key, revoked: revoked.key }
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

  const call = ({ method, path }: Endpoint, key: string | null) => guarded.call(method, path, { key })

  it('requires no key for the listed endpoints only', () => {
    expect(
      table
        .filter(([, endpoint]) => isOpen(endpoint))
        .map(([name]) => name)
        .toSorted(),
    ).toEqual([
      // The token that the provider signed is its own proof, as is its answer to a browser.
      'backchannelLogout',
      // What a command line asks for is allowed by a person, and fetched with a secret.
      'finishCommandLogin',
      // What a passkey signs is its own proof.
      'finishPasskeySignIn',
      'finishSignIn',
      'getAgentRegistration',
      'getAttestation',
      'getControlKeys',
      'getHealth',
      'getMetrics',
      'getPythonClient',
      'getReadiness',
      'getSdk',
      'getSignIn',
      'getTrust',
      'getTrustBadge',
      'getTrustBadgeData',
      // The token of the button is a secret.
      'pressApproval',
      // The code of the link is its own secret.
      'previewLoginLink',
      'redeemLoginLink',
      'renewCommandLogin',
      'startCommandLogin',
      'startPasskeySignIn',
      'startSignIn',
      'streamEvents',
    ])
  })

  it('requires a key for the event stream and the metrics if configured', async () => {
    for (const name of ['streamEvents', 'getMetrics'] as const) {
      for (const key of [null, 'bad', keys.expired, keys.revoked]) {
        expect((await call(endpoints[name], key)).status, name).toBe(401)
      }
      expect((await call(endpoints[name], keys.agent)).status, name).toBe(403)
    }
    expect((await call(endpoints.getMetrics, keys.viewer)).status).toBe(200)
    expect((await call(endpoints.getTrust, null)).status).toBe(200)
  })

  // A spelling that the router matches but the authorization rules do not would bypass them.
  it('is not bypassed by another spelling of a path', async () => {
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

  // The binding to instances also applies to reads of the kill switch.
  it('refuses an agent key that reads the kill switch of another instance', async () => {
    await service.call('POST', '/api/heartbeat', { body: { instance_id: 'other', name: 'other' } })
    for (const path of ['/api/instances/other/status', '/api/instances/other/control']) {
      expect((await service.call('GET', path, { key: keys.agent })).status).toBe(403)
    }
    expect((await service.call('GET', '/api/instances/other/status', { key: keys.viewer })).status).toBe(200)
  })
})
