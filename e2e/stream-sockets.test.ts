import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createKey, newInstance, postEvent, unique } from './fleet.ts'
import { play, type Step, statuses } from './raw-socket.ts'
import { isExternal, type Service, startService, until } from './service.ts'
import type { StreamBody } from './shapes.ts'

let service: Service
let instanceId: string
let agentKey: string
beforeAll(async () => {
  service = await startService()
  instanceId = await newInstance(service, 'streaming')
  agentKey = await createKey(service, { scope: 'agent', instances: [instanceId] })
})
afterAll(() => service?.stop())

const request = (line: string, headers = '') => `${line} HTTP/1.1\r\nhost: 127.0.0.1\r\n${headers}\r\n`
const health = request('GET /healthz')
const streams = {
  '/api/stream': () => request('GET /api/stream'),
  'the control stream': () => request(`GET /api/instances/${instanceId}/control`, `x-monitor-key: ${agentKey}\r\n`),
}
const openStreams = async () => {
  const { text } = await service.call('GET', '/metrics', { key: null })
  return [...text.matchAll(/wardline_stream_clients\{.*\} (\d+)/g)].reduce((sum, match) => sum + Number(match[1]), 0)
}

// A second request on the connection of a stream once crashed the process, even without a key.
describe.skipIf(isExternal).each(Object.entries(streams))('the connection of %s', (_name, stream) => {
  const cases: [string, () => Step[]][] = [
    ['a request in the same packet', () => [{ write: stream() + health }]],
    ['the same request in the same packet', () => [{ write: stream() + stream() }]],
    [
      'a request without Host in the same packet',
      () => [{ write: `${stream()}GET / HTTP/1.1\r\n\r\n` }, { write: health }],
    ],
    [
      'a body and a request without Host in the same packet',
      () => [
        { write: stream().replace('\r\n\r\n', '\r\ncontent-length: 4\r\n\r\nbodyGET / HTTP/1.1\r\n\r\n') },
        { write: health },
      ],
    ],
    [
      'an expectation that Node refuses itself',
      () => [{ write: stream() + request('GET /', 'expect: x\r\n') }, { write: health }],
    ],
    ['a request in the next packet', () => [{ write: stream() }, { write: health }]],
    ['a late request', () => [{ write: stream() }, { waitMs: 300 }, { write: health }]],
    [
      'the rest of a request',
      () => [{ write: `${stream()}GET /hea` }, { waitMs: 50 }, { write: 'lthz HTTP/1.1\r\nhost: x\r\n\r\n' }],
    ],
    ['late garbage', () => [{ write: stream() }, { waitMs: 50 }, { write: '\u0000\u0001\r\n\r\n' }]],
    ['garbage in the same packet', () => [{ write: `${stream()}\u0000\u0001\r\n\r\n` }]],
    [
      'an upgrade',
      () => [{ write: stream() + request('GET /', 'connection: upgrade\r\nupgrade: h2c\r\n') }, { write: health }],
    ],
    ['a CONNECT', () => [{ write: stream() + request('CONNECT example.com:443') }]],
    ['a late end of its side', () => [{ write: stream() }, { waitMs: 50 }, 'half-close']],
    ['the end of its side with the request', () => [{ write: stream() }, 'half-close']],
  ]

  test.each(cases)('is closed after %s, and no other connection is', async (_what, steps) => {
    const pid = service.pid()
    const witness = await service.openStream('/api/stream')
    const { text, closed } = await play(service.port, steps(), 20_000)
    expect(closed, text).toBe(true)
    // At most one response: requests after a stream get none.
    expect(statuses(text).length, text).toBeLessThanOrEqual(1)
    expect(service.pid()).toBe(pid)
    const description = unique('after-all-that')
    await postEvent(service, { description })
    await witness.next<StreamBody>((body) => body.type === 'event' && body.data.description === description)
    witness.close()
    await until('the end of the streams', openStreams, (count) => count === 0)
  })

  test('is refused behind another request, whose answer comes first', async () => {
    const status = request(`GET /api/instances/${instanceId}/status`, `x-monitor-key: ${agentKey}\r\n`)
    const readiness = request('GET /readyz')
    const { text } = await play(service.port, [{ write: status + readiness + stream() }], 500)
    expect(statuses(text).slice(0, 2)).toEqual([200, 200])
    expect(text).not.toContain('text/event-stream')
    expect(await openStreams()).toBe(0)
  })

  test('may follow an answer on the same connection', async () => {
    const { text, closed } = await play(
      service.port,
      [{ write: health }, { until: '"ok":true' }, { write: stream() }],
      300,
      30_000,
    )
    expect(statuses(text)).toEqual([200, 200])
    expect(text).toContain('text/event-stream')
    expect(closed).toBe(false)
  })
})

test.skipIf(isExternal)('a connection whose stream was refused serves further requests', async () => {
  const refused = request(`GET /api/instances/${instanceId}/control`)
  const { text } = await play(service.port, [{ write: refused }, { waitMs: 100 }, { write: health }], 300)
  expect(statuses(text)).toEqual([401, 200])
})

test.skipIf(isExternal)(
  'SIGTERM ends the process although clients of streams read nothing and never close',
  async () => {
    const own = await startService()
    const silent = play(own.port, [{ write: request('GET /api/stream') }], 20_000)
    await until(
      'the stream',
      async () => (await own.call('GET', '/metrics')).text,
      (text) => text.includes('wardline_stream_clients{kind="events"} 1'),
    )
    expect(await own.terminate(6_000)).toEqual({ code: 0, signal: null })
    expect((await silent).closed).toBe(true)
    await own.stop()
  },
)
