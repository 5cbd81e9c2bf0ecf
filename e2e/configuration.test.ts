import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openSession } from './browser-headers.ts'
import { runCommand } from './command.ts'
import { expectRefusal } from './expectations.ts'
import { createKey, newInstance } from './fleet.ts'
import { isExternal, needsOwnProcess, newDataDir, type Service, startService } from './service.ts'
import type { StreamBody } from './shapes.ts'

if (isExternal) process.stdout.write(`The configuration tests are left out: ${needsOwnProcess}\n`)

describe.skipIf(isExternal)('a service without public pages', () => {
  let service: Service
  beforeAll(async () => {
    service = await startService({ env: { WARDLINE_METRICS_AUTH: 'key', WARDLINE_STREAM_AUTH: 'session' } })
  })
  afterAll(() => service?.stop())

  test('requires a key for its metrics', async () => {
    expectRefusal(await service.call('GET', '/metrics', { key: null }), 401)
    expectRefusal(await service.call('GET', '/metrics', { key: 'nonsense' }), 401)
    expect((await service.call('GET', '/metrics')).status).toBe(200)
  })

  test('requires a key or a session for the stream', async () => {
    expectRefusal(await service.call('GET', '/api/stream', { key: null }), 401)
    expectRefusal(await service.call('GET', '/api/stream', { key: 'nonsense' }), 401)
    const byKey = await service.openStream('/api/stream', { key: service.key })
    await byKey.next<StreamBody>((body) => body.type === 'heartbeat')
    byKey.close()
    const headers = await openSession(service)
    const bySession = await service.openStream('/api/stream', { headers })
    await bySession.next<StreamBody>((body) => body.type === 'heartbeat')
    bySession.close()
    expectRefusal(await service.call('GET', '/api/stream', { key: null, headers: { cookie: headers.cookie } }), 401)
  })

  // The live feed has the events of the whole fleet, which an agent's key must not read.
  test('refuses the stream to the key of an agent', async () => {
    const id = await newInstance(service)
    const key = await createKey(service, { scope: 'agent', instances: [id] })
    expectRefusal(await service.call('GET', '/api/stream', { key }), 403)
  })
})

describe.skipIf(isExternal)('a service whose public URL says that others reach it', () => {
  interface Report {
    checks: { name: string; status: string; detail: string; fix?: string }[]
  }
  const because = 'because WARDLINE_PUBLIC_URL is https://w.example.com'
  const open = { WARDLINE_STREAM_AUTH: 'none', WARDLINE_METRICS_AUTH: 'none' }

  test.each<[string, Record<string, string>, number, string]>([
    ['asks for a key', {}, 401, `/api/stream needs a key, ${because}. /metrics needs a key, ${because}.`],
    [
      'is open on request',
      open,
      200,
      '/api/stream needs no key, because WARDLINE_STREAM_AUTH is none. /metrics needs no key, because WARDLINE_METRICS_AUTH is none.',
    ],
  ])('%s, and says so at startup and by doctor', async (_what, env, status, says) => {
    const service = await startService({ env: { WARDLINE_PUBLIC_URL: 'https://w.example.com', ...env } })
    try {
      expect((await service.call('GET', '/metrics', { key: null })).status).toBe(status)
      for (const sentence of says.split(/(?<=\.) (?=\/)/)) {
        expect(service.logs()).toContain(`"msg":"${sentence.slice(0, -1)}"`)
      }
      const { stdout } = await runCommand(['doctor', '--json'], {
        WARDLINE_URL: service.baseUrl,
        WARDLINE_KEY: service.key,
      })
      const { checks } = JSON.parse(stdout) as Report
      expect(checks.find(({ name }) => name === 'without a key')).toMatchObject({ status: 'ok', detail: says })
    } finally {
      await service.stop()
    }
  })
})

test.skipIf(isExternal)(
  'a stream without a key beside keys of teams is warned of at startup and by doctor',
  async () => {
    const env = { WARDLINE_STREAM_AUTH: 'none', WARDLINE_DATA_DIR: newDataDir() }
    const first = await startService({ env })
    const body = { scope: 'viewer', name: 'Payments', tags_scope: ['team:payments'] }
    expect((await first.call('POST', '/api/keys', { body })).status).toBe(201)
    await first.stop()
    const service = await startService({ env })
    try {
      const warning = '/api/stream needs no key and shows the events of all agents'
      const { stdout } = await runCommand(['doctor', '--json'], {
        WARDLINE_URL: service.baseUrl,
        WARDLINE_KEY: service.key,
      })
      expect(service.logs()).toContain(warning)
      const { checks } = JSON.parse(stdout) as { checks: { name: string }[] }
      expect(checks.find(({ name }) => name === 'without a key')).toMatchObject({
        status: 'warn',
        detail: expect.stringContaining(warning),
      })
    } finally {
      await service.stop()
    }
  },
)
