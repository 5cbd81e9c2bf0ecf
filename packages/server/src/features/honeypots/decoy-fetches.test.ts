import { once } from 'node:events'
import { connect } from 'node:net'
import type { Alert, HoneypotCreated, HoneypotDetail } from '@wardline/contract'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { type DecoyListener, openDecoyListener } from '../../http/decoy-listener.ts'
import { openTestService, type TestService } from '../../testing/service.ts'

let service: TestService
let listener: DecoyListener
let url: string
let id: string

async function open(env: Record<string, string> = {}): Promise<void> {
  service = await openTestService({
    env: { WARDLINE_DECOY_PORT: '0', WARDLINE_DECOY_URL: 'https://files.example.com/', ...env },
  })
  listener = await openDecoyListener(service.deps, service.services.decoyFetches)
  const { body } = await service.call<HoneypotCreated>('POST', '/api/honeypots', {
    body: { instanceId: 'wiki-bot', type: 'api_key', keyType: 'url', label: 'Runbook' },
  })
  url = body.key!
  id = body.id
  await service.services.decoyFetches.refresh()
}
async function close(): Promise<void> {
  await listener.close()
  await service[Symbol.asyncDispose]()
}
beforeEach(() => open())
afterEach(close)

const pathOf = (address: string) => new URL(address).pathname

/** Returns the raw response without its date. */
async function exchange(request: string): Promise<string> {
  const socket = connect(listener.port, '127.0.0.1')
  const chunks: Buffer[] = []
  socket.on('data', (chunk: Buffer) => chunks.push(chunk))
  socket.on('error', () => {})
  socket.write(request)
  await once(socket, 'close')
  return Buffer.concat(chunks)
    .toString('latin1')
    .replace(/^date: .*$/im, 'date')
}
const fetchPath = (path: string, { method = 'GET', headers = '' } = {}) =>
  exchange(`${method} ${path} HTTP/1.1\r\nHost: files.example.com\r\n${headers}\r\n`)

async function hits(): Promise<HoneypotDetail> {
  await service.services.decoyFetches.whenIdle()
  return (await service.call<HoneypotDetail>('GET', `/api/honeypots/${id}`)).body
}
const events = () =>
  service.rows<{
    instance_id: string | null
    ip_address: string
    severity: string
    metadata: string
    description: string
  }>(
    "select instance_id, ip_address, severity, metadata, description from events where event_type = 'honeypot_triggered' order by seq",
  )

it('records who fetches a decoy URL, with address and harmless headers', async () => {
  expect(url).toMatch(/^https:\/\/files\.example\.com\/d\/[A-Za-z0-9]{32}$/)
  const headers = [
    'User-Agent: curl/8.5 \u009b31m',
    'Accept-Language: de',
    'Authorization: Bearer very-secret-token',
    'Cookie: session=another-secret',
    'X-Api-Key: third-secret',
    'Referer: https://mail.example/?token=fourth-secret',
  ]
  await fetchPath(`${pathOf(url)}/codes.csv`, { headers: headers.map((line) => `${line}\r\n`).join('') })
  expect(await hits()).toMatchObject({ hit_count: 1, hits: [{ ip_address: '127.0.0.1', reporter: null }] })
  const [event, ...others] = await events()
  expect(others).toEqual([])
  expect(event).toMatchObject({ instance_id: null, ip_address: '127.0.0.1', severity: 'breach' })
  const metadata = JSON.parse(event!.metadata)
  expect(metadata).toMatchObject({
    honeypot_id: id,
    keyType: 'url',
    fetched: {
      method: 'GET',
      headers: {
        'user-agent': expect.stringMatching(/^curl\/8\.5[^\u007f-\u009f]* 31m$/),
        'accept-language': 'de',
        host: 'files.example.com',
      },
      other_headers: ['authorization', 'cookie', 'x-api-key', 'referer'],
    },
  })
  const everything = [event!.metadata, ...service.logged].join('\n')
  expect(everything).not.toMatch(/secret/)
  expect(everything).not.toContain(pathOf(url).slice('/d/'.length))
})

// Otherwise an attacker could recognise decoys among the links they found without using one.
it('returns the same bytes for a decoy URL as for any other path', async () => {
  const usual = await fetchPath('/')
  expect(usual).toMatch(/^HTTP\/1\.1 404 Not Found\r\n/)
  const unknown = `/d/${'a'.repeat(32)}`
  const paths = [
    pathOf(url),
    `${pathOf(url)}?a=b`,
    unknown,
    '/d/',
    '/api/status',
    '/%',
    '/d/%ff',
    '//',
    '/../etc/passwd',
  ]
  for (const path of paths) expect(await fetchPath(path), path).toBe(usual)
  for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS']) {
    expect(await fetchPath(pathOf(url), { method }), method).toBe(await fetchPath(unknown, { method }))
  }
  const answers = await Promise.all([
    fetchPath(pathOf(url), { method: 'HEAD' }),
    fetchPath(unknown, { method: 'HEAD' }),
  ])
  expect(answers[0]).toBe(answers[1])
  expect((await hits()).hit_count).toBe(7)
})

it('serves no other page of the service', async () => {
  for (const path of ['/api/public/trust', '/healthz', '/metrics', '/login', '/trust']) {
    expect(await fetchPath(path, { headers: `X-Monitor-Key: ${service.deps.config.apiKey}\r\n` })).toMatch(/ 404 /)
  }
})

it('survives invalid HTTP, endless bodies and endless headers', async () => {
  for (const garbage of ['\x00\x01\r\n\r\n', 'GET\r\n\r\n', `GET / HTTP/1.1\r\nA: ${'a'.repeat(20_000)}\r\n\r\n`])
    await exchange(garbage)
  const endless = `Content-Length: 999999999\r\n`
  expect(await fetchPath(pathOf(url), { method: 'POST', headers: endless })).toMatch(/ 404 /)
  expect(await fetchPath('/')).toMatch(/ 404 /)
  expect((await hits()).hit_count).toBe(1)
})

it('stores at most 30 hits per decoy and minute', async () => {
  const { decoyFetches } = service.services
  const fetched = { target: pathOf(url), method: 'GET', address: '203.0.113.7', headers: {} }
  for (let n = 0; n < 50; n++) decoyFetches.take(fetched)
  expect((await hits()).hit_count).toBe(30)
  service.clock.advance(60_000)
  decoyFetches.take(fetched)
  expect((await hits()).hit_count).toBe(31)
})

it('matches a decoy URL in agent checks, and records no fetch after its deletion', async () => {
  const body = { key: `curl -s ${url}/codes.csv` }
  expect((await service.call('POST', '/api/honeypots/check/key', { body })).body).toEqual({ matched: true })
  await service.call('DELETE', `/api/honeypots/${id}`)
  await service.services.decoyFetches.refresh()
  await fetchPath(pathOf(url))
  expect((await hits()).hit_count).toBe(1)
})

it('suspends no agent, because nothing proves who fetched the URL', async () => {
  await close()
  await open({ WARDLINE_AUTO_SUSPEND: 'decoy,breach', ALERT_WEBHOOK_URL: 'http://127.0.0.1:9/hook' })
  await service.call('POST', '/api/heartbeat', { body: { instance_id: 'wiki-bot', name: 'Wiki' } })
  await fetchPath(pathOf(url))
  expect((await hits()).hit_count).toBe(1)
  const { body } = await service.call<{ status: string }>('GET', '/api/instances/wiki-bot')
  expect(body.status).toBe('active')
  const { alerts } = (await service.call<{ alerts: Alert[] }>('GET', '/api/alerts')).body
  expect(alerts.map(({ event_type }) => event_type)).toContain('honeypot_triggered')
})

it('rejects a new decoy URL without WARDLINE_DECOY_PORT', async () => {
  await using plain = await openTestService()
  const { status, body } = await plain.call('POST', '/api/honeypots', {
    body: { instanceId: 'wiki-bot', type: 'api_key', keyType: 'url' },
  })
  expect(status).toBe(400)
  expect(body).toEqual({
    error: 'keyType url needs a listener: set WARDLINE_DECOY_PORT and restart the service.',
  })
})
