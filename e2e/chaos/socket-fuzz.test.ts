import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { effort } from '../../test-servers/effort.ts'
import { seededDraws } from '../../test-servers/seeded-draws.ts'
import { createKey, newInstance } from '../fleet.ts'
import { eachOf, play, type Step, statuses } from '../raw-socket.ts'
import { isExternal, type Service, startService, until } from '../service.ts'

const runMs = effort(8_000, 20 * 60_000)
const socketsPerRound = 240
const socketsAtATime = 32

let service: Service
let instanceId: string
let agentKey: string
beforeAll(async () => {
  service = await startService()
  instanceId = await newInstance(service, 'fuzzed')
  agentKey = await createKey(service, { scope: 'agent', instances: [instanceId] })
})
afterAll(() => service?.stop())

/** Complete requests for the scripts. Streams are frequent, because they outlast their request. */
function requestTexts(): { streams: string[]; others: string[] } {
  const key = `x-monitor-key: ${agentKey}`
  const request = (line: string, ...headers: string[]) =>
    `${[`${line} HTTP/1.1`, 'host: 127.0.0.1', ...headers].join('\r\n')}\r\n\r\n`
  const event = JSON.stringify({
    severity: 'info',
    source: 'fuzz',
    event_type: 'fuzz_note',
    description: 'd',
    instance_id: instanceId,
  })
  const chunked = `${event.length.toString(16)}\r\n${event}\r\n0\r\n\r\n`
  const control = `GET /api/instances/${instanceId}/control`
  const json = 'content-type: application/json'
  return {
    streams: [
      request('GET /api/stream'),
      request('GET /api/stream', 'last-event-id: 1'),
      request('GET /api/stream', 'connection: keep-alive', 'expect: 100-continue'),
      request('GET /api/stream', 'content-length: 4'),
      request('GET /api/stream', 'connection: upgrade', 'upgrade: websocket'),
      request('GET /api/stream', 'cookie: wardline=nonsense'),
      'GET /api/stream HTTP/1.0\r\n\r\n',
      request(control, key),
      request(control, key, 'transfer-encoding: chunked'),
      request(control, 'x-monitor-key: wrong'),
      request(control),
      request('GET /api/instances/nobody/control', key),
    ],
    others: [
      request('GET /healthz'),
      request('GET /docs'),
      request('GET /docs/static/../x'),
      request('GET /openapi.json'),
      request('HEAD /api/stream'),
      request('OPTIONS *'),
      request('GET /nowhere'),
      request(`GET /api/instances/${instanceId}/status`, key),
      request('POST /api/events', key, json, `content-length: ${event.length}`) + event,
      request('POST /api/events', key, json, 'transfer-encoding: chunked') + chunked,
      request('POST /api/events', key, json, 'transfer-encoding: chunked', 'expect: 100-continue') + chunked,
      `${request('POST /api/events', key, json, 'transfer-encoding: chunked')}zz\r\nnot a chunk\r\n`,
      request('POST /api/events', key, json, `content-length: ${event.length + 40}`) + event,
      request('POST /api/events', key, json, 'content-length: 5', 'transfer-encoding: chunked') + chunked,
      `${request('POST /api/events', key, json, 'expect: the-unexpected', 'content-length: 2')}{}`,
      request('CONNECT example.com:443'),
      request(
        'GET /healthz',
        'connection: upgrade, http2-settings',
        'upgrade: h2c',
        'http2-settings: AAMAAABkAAQAAP__',
      ),
      'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
      'GET /healthz HTTP/1.1\r\n\r\n',
      'GET /healthz\r\n',
      request('GET /healthz', `x-long: ${'y'.repeat(9_000)}`),
      '\r\n\r\n',
      '\u0000\u0016\u0003\u0001\u00ff',
    ],
  }
}

/** Generates the steps of one client. */
function scriptMaker(random: () => number): () => Step[] {
  const { streams, others } = requestTexts()
  const upTo = (count: number) => Math.floor(random() * count)
  const oneOf = <T>(values: readonly T[]): T => values[upTo(values.length)]!
  const happens = (share: number) => random() < share

  function bytes(): Buffer {
    const texts = Array.from({ length: 1 + upTo(4) }, () => oneOf(happens(0.5) ? streams : others))
    let all = Buffer.from(texts.join(''), 'latin1')
    if (happens(0.25)) all = all.subarray(0, upTo(all.length + 1))
    for (let count = happens(0.3) ? 1 + upTo(4) : 0; count > 0; count--) {
      const at = upTo(all.length)
      const noise = Buffer.from(Array.from({ length: upTo(4) }, () => upTo(256)))
      all = Buffer.concat([all.subarray(0, at), noise, all.subarray(at + upTo(3))])
    }
    return all
  }

  function pieces(all: Buffer): Buffer[] {
    const everyByte = happens(0.08)
    const cuts = everyByte
      ? Array.from({ length: all.length }, (_, index) => index)
      : Array.from({ length: upTo(5) }, () => upTo(all.length + 1)).sort((left, right) => left - right)
    return [0, ...cuts].map((from, index) => all.subarray(from, cuts[index] ?? all.length))
  }

  return () => {
    const steps: Step[] = []
    const writes = pieces(bytes())
    for (const write of writes) {
      steps.push({ write })
      if (happens(0.7 / writes.length)) steps.push({ waitMs: upTo(8) })
    }
    if (happens(0.15)) steps.push('half-close')
    if (happens(0.2)) steps.push({ waitMs: upTo(20) }, { write: oneOf(happens(0.5) ? streams : others) })
    if (happens(0.25)) steps.push('abort')
    return steps
  }
}

const readable = (steps: Step[]) =>
  JSON.stringify(
    steps.map((step) => (typeof step === 'object' && 'write' in step ? step.write.toString('latin1') : step)),
  )

// A connection that crashes the process disables the kill switch of the whole fleet, and some need no key.
describe.skipIf(isExternal)('bytes on sockets', () => {
  test(
    'never end the process, whatever they are and however they are cut',
    async () => {
      const seed = Number(process.env.SEED ?? Date.now() % 1_000_000)
      console.log(`seed ${seed}`)
      const makeScript = scriptMaker(seededDraws(seed))
      const pid = service.pid()
      expect(pid).toBeGreaterThan(0)
      const deadline = performance.now() + runMs
      const tally = new Map<number, number>()
      let sockets = 0
      let quietMs = 15
      // A slow machine continues until it has enough responses.
      const enoughAnswers = 100
      while (performance.now() < deadline || (tally.get(200) ?? 0) <= enoughAnswers) {
        const scripts = Array.from({ length: socketsPerRound }, makeScript)
        const heard = await eachOf(scripts, socketsAtATime, (steps) => play(service.port, steps, quietMs, 10 * quietMs))
        const askedAt = performance.now()
        const health = await service.call('GET', '/healthz', { key: null }).catch((fault: Error) => fault)
        const survived = service.pid() === pid && 'status' in health && health.status === 200
        if (!survived) {
          const suspects = scripts.map(readable).join('\n')
          expect.fail(
            `seed ${seed}: the process ended after ${sockets} sockets; it said:\n${service.logs().slice(-4_000)}\nOne of:\n${suspects}`,
          )
        }
        // On a busy machine responses are late.
        quietMs = Math.max(15, Math.min(1_000, 2 * (performance.now() - askedAt)))
        sockets += heard.length
        for (const [index, { text }] of heard.entries()) {
          for (const status of statuses(text)) {
            tally.set(status, (tally.get(status) ?? 0) + 1)
            const allowed = status < 500 || status === 503
            if (!allowed) expect.fail(`seed ${seed}: ${status} after ${readable(scripts[index]!)}`)
          }
        }
      }
      console.log(`seed ${seed}: ${sockets} sockets; answers ${JSON.stringify(Object.fromEntries(tally))}`)
      await until(
        'the end of all streams',
        async () => (await service.call('GET', '/metrics', { key: null })).text,
        (text) => ['events', 'control'].every((kind) => text.includes(`wardline_stream_clients{kind="${kind}"} 0`)),
      )
      expect(service.logs()).not.toMatch(/"level":"?(error|fatal|50|60)/)
    },
    runMs + 300_000,
  )
})
