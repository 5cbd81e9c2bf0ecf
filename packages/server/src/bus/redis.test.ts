import { once } from 'node:events'
import { connect as connectTcp, createServer, type Server } from 'node:net'
import { createServer as createTlsServer, getCACertificates, setDefaultCACertificates } from 'node:tls'
import { RedisClient } from '@redis/client'
import { ControlMessage } from '@wardline/contract'
import { Compile } from 'typebox/schema'
import { afterAll, beforeAll, beforeEach, describe, expect, inject, it, vi } from 'vitest'
import { startRedis, type TestRedis } from '../../../../test-servers/redis.ts'
import type { EventFields } from '../db/schema/events.ts'
import { eventRowJson, parseEventRow } from '../features/events/event-row.ts'
import { createLog } from '../log.ts'
import { createMetrics } from '../metrics.ts'
import { manualClock } from '../testing/clock.ts'
import { storedEvent } from '../testing/events.ts'
import { signControl } from './control-signature.ts'
import { type Notice, noticeMessage } from './notice.ts'
import { RedisBus } from './redis.ts'
import { createMac, eventMessage } from './signed-event.ts'

const secrets = {
  controlKey: Buffer.alloc(32, 'control'),
  eventKey: Buffer.alloc(32, 'event'),
  decoyKey: Buffer.alloc(32, 'decoy'),
}
const startedAt = Date.UTC(2026, 0, 15)
/** Timeout for everything that is expected to happen. */
const deadline = { timeout: 60_000, interval: 10 }

interface Open extends AsyncDisposable {
  bus: RedisBus
  clock: ReturnType<typeof manualClock>
  events: EventFields[]
  control: ControlMessage[]
  notices: Notice[]
  outside: string[]
  reconnects: number[]
  logged: string[]
  /** Returns the values of a metric by its labels. */
  count(name: string, labels?: Record<string, string>): Promise<number>
}

async function openBus(url: string): Promise<Open> {
  const [events, control, notices, outside, reconnects, logged] = [[], [], [], [], [], []] as [
    EventFields[],
    ControlMessage[],
    Notice[],
    string[],
    number[],
    string[],
  ]
  const metrics = createMetrics()
  const log = createLog('debug', { write: (line) => void logged.push(line) })
  const clock = manualClock(startedAt)
  const channels = { eventsChannel: 'test:events', controlChannel: 'test:control' }
  const bus = new RedisBus({ url: () => url, ...channels, clock, log, metrics, secrets })
  bus.onEvents((rows) => events.push(...rows), parseEventRow)
  bus.onControl((message) => control.push(message))
  bus.onNotice((notice) => notices.push(notice))
  bus.onOutsideEvents((message) => outside.push(message.toString()))
  bus.onReconnect((missedSince) => reconnects.push(missedSince))
  await bus.open()
  return {
    bus,
    clock,
    events,
    control,
    notices,
    outside,
    reconnects,
    logged,
    async count(name, labels = {}) {
      const metric = await metrics.registry.getSingleMetric(`wardline_backplane_${name}`)!.get()
      const wanted = Object.entries(labels)
      const found = metric.values.find((value) => wanted.every(([label, text]) => value.labels[label] === text))
      return found?.value ?? 0
    },
    [Symbol.asyncDispose]: () => bus.close(),
  }
}

const event = (seq: number, description = 'x') =>
  storedEvent({
    seq,
    created_at: startedAt + seq,
    severity: 'warning',
    instance_id: 'bot',
    ip_address: '192.0.2.1',
    description,
    metadata: '{"a":[1,{"metadata":null}]}',
    by_service: 1,
  })

const isControlMessage = Compile(ControlMessage)
const approval = {
  action: 'approval' as const,
  instance_id: 'bot',
  id: '01980000-0000-7000-8000-000000000000',
  state: 'approved' as const,
}

function kill(version: number, instance_id = 'bot'): ControlMessage {
  const message = {
    instance_id,
    action: 'suspend' as const,
    reason: 'stop',
    version,
    issued_at: '2026-01-15T00:00:00.000Z',
  }
  return { ...message, signature: signControl(message, createMac(secrets.controlKey)) }
}

/** Connects another client that can publish and subscribe. */
async function connectOutsider(url: string) {
  const client = new RedisClient({ url })
  client.on('error', () => {})
  await client.connect()
  return {
    publish: (channel: string, message: string) => client.sendCommand(['PUBLISH', channel, message]),
    async listen(channel: string): Promise<string[]> {
      const heard: string[] = []
      await client.subscribe(channel, (message) => heard.push(message))
      return heard
    },
    async processId(): Promise<number> {
      return Number(/process_id:(\d+)/.exec(String(await client.sendCommand(['INFO', 'server'])))![1])
    },
    [Symbol.asyncDispose]: async () => client.destroy(),
  }
}

const messagesIn = (logged: string[]): string[] => logged.map((line) => JSON.parse(line).msg.split(':')[0])

const missing = inject('redisMissing')
let redis: TestRedis
beforeAll(async () => {
  if (!missing) redis = await startRedis()
})
afterAll(() => redis?.stop())
beforeEach(({ skip }) => {
  if (missing) skip(missing)
})

describe('two processes', () => {
  it('both receive all events, each event once', async () => {
    await using one = await openBus(redis.url)
    await using other = await openBus(redis.url)
    const rows = Array.from({ length: 300 }, (_, index) =>
      event(index + 1, `"quoted", {braced} \u2028 \ud83d\ude00 ${index}`),
    )
    one.bus.publishEvents(rows, eventRowJson)
    expect(one.events).toEqual(rows)
    await vi.waitFor(() => expect(other.events).toHaveLength(300), deadline)
    expect(other.events).toEqual(rows)
    other.bus.publishEvents([event(301)], eventRowJson)
    await vi.waitFor(() => expect(one.events).toHaveLength(301), deadline)
    expect([one.events.length, other.events.length]).toEqual([301, 301])
    expect([one.outside, other.outside]).toEqual([[], []])
  })

  it('both receive the kills of either one', async () => {
    await using one = await openBus(redis.url)
    await using other = await openBus(redis.url)
    one.bus.publishControl(kill(1))
    expect(one.control).toEqual([kill(1)])
    await vi.waitFor(() => expect(other.control).toEqual([kill(1)]), deadline)
  })

  // Every process looks for missed kills each second; if all of them repeated every kill, they would fill the channel.
  it('repeat a kill only until it appears on the channel', async () => {
    await using one = await openBus(redis.url)
    await using other = await openBus(redis.url)
    await using outsider = await connectOutsider(redis.url)
    const heard = await outsider.listen('test:control')
    one.bus.publishControl(kill(1))
    await vi.waitFor(() => expect([one.control.length, other.control.length]).toEqual([2, 1]), deadline)
    one.bus.publishControl(kill(1))
    other.bus.publishControl(kill(1))
    other.bus.publishControl(kill(2))
    await vi.waitFor(() => expect(heard).toHaveLength(2), deadline)
    expect(heard.map((text) => JSON.parse(text).version)).toEqual([1, 2])
  })

  it('both receive each notice once', async () => {
    await using one = await openBus(redis.url)
    await using other = await openBus(redis.url)
    one.bus.publishNotice(approval)
    other.bus.publishNotice({ action: 'policy', version: 7 })
    await vi.waitFor(() => expect([one.notices.length, other.notices.length]).toEqual([2, 2]), deadline)
    one.bus.publishControl(kill(1))
    await vi.waitFor(() => expect(one.control.length + other.control.length).toBe(3), deadline)
    for (const { notices } of [one, other]) {
      expect(notices.toSorted((a, b) => (a.action < b.action ? -1 : 1))).toEqual([
        approval,
        { action: 'policy', version: 7 },
      ])
    }
  })

  it('send a stored event as its signed row', async () => {
    await using one = await openBus(redis.url)
    await using outsider = await connectOutsider(redis.url)
    const heard = await outsider.listen('test:events')
    one.bus.publishEvents([event(7)], eventRowJson)
    await vi.waitFor(() => expect(heard).toHaveLength(1), deadline)
    const { metadata, created_at, by_service, ...fields } = event(7)
    expect(JSON.parse(heard[0]!)).toEqual({
      ...fields,
      observed_ip_address: fields.ip_address,
      by_service: by_service === 1,
      created_at: new Date(created_at).toISOString(),
      metadata: JSON.parse(metadata!),
      signature: expect.stringMatching(/^[0-9a-f]{64}$/),
    })
  })
})

describe('a program that may publish', () => {
  // A forged resume would release a suspended agent; an edited reason would misquote the operator.
  it('cannot forge or change a kill or resume', async () => {
    await using open = await openBus(redis.url)
    await using outsider = await connectOutsider(redis.url)
    const resume = { instance_id: 'bot', action: 'resume', version: 2, issued_at: '2026-01-15T00:00:00.000Z' }
    const forged = [
      { ...resume, signature: signControl(resume as ControlMessage, createMac(Buffer.alloc(32, 'guess'))) },
      { ...kill(1), action: 'resume' },
      { ...kill(1), version: 2 },
      { ...kill(1), reason: 'other' },
      { ...kill(1), instance_id: 'other' },
      { ...kill(1), signature: kill(2).signature },
      { ...kill(1), signature: kill(1).signature.toUpperCase() },
      { ...kill(1), signature: '' },
    ]
    const unsafe = { ...resume, version: 2 ** 53 } as ControlMessage
    const malformed = [
      'no JSON',
      '[]',
      'null',
      '{"instance_id":{"toString":1}}',
      JSON.stringify({ ...resume }),
      JSON.stringify({ ...unsafe, signature: signControl(unsafe, createMac(secrets.controlKey)) }),
    ]
    for (const message of forged) await outsider.publish('test:control', JSON.stringify(message))
    for (const message of malformed) await outsider.publish('test:control', message)
    await outsider.publish('test:control', JSON.stringify({ ...kill(1), more: 'x'.repeat(17_000) }))
    await outsider.publish('test:control', JSON.stringify(kill(9)))
    await vi.waitFor(() => expect(open.control).toHaveLength(1), deadline)
    expect(open.control).toEqual([kill(9)])
    const refused = (reason: string) => open.count('messages_refused_total', { channel: 'control', reason })
    expect(await refused('unsigned')).toBe(forged.length)
    expect(await refused('malformed')).toBe(malformed.length)
    expect(await refused('too_large')).toBe(1)
  })

  // Otherwise unsigned fields would reach agents in the name of the service.
  it('cannot add fields to a kill', async () => {
    await using open = await openBus(redis.url)
    await using outsider = await connectOutsider(redis.url)
    await outsider.publish('test:control', JSON.stringify({ ...kill(1), run: 'rm -rf /' }))
    await vi.waitFor(() => expect(open.control).toEqual([kill(1)]), deadline)
  })

  it('cannot forge, change or replay a notice', async () => {
    await using open = await openBus(redis.url)
    await using outsider = await connectOutsider(redis.url)
    const mac = createMac(secrets.controlKey)
    const genuine = noticeMessage(approval, startedAt, mac)
    const { notice, issued_at, signature } = JSON.parse(genuine.text)
    const forged = [
      noticeMessage(approval, startedAt, createMac(Buffer.alloc(32, 'guess'))).text,
      genuine.text.replace('bot', 'dot'),
      genuine.text.replace('approved', 'denied'),
      JSON.stringify({ notice, issued_at: new Date(startedAt + 1).toISOString(), signature }),
      JSON.stringify({ notice, issued_at, signature: kill(1).signature }),
    ]
    const stale = [-60_001, 60_001].map((offset) => noticeMessage(approval, startedAt + offset, mac).text)
    const malformed = [
      JSON.stringify({ notice: { action: 'policy', version: 1 }, issued_at, signature }),
      JSON.stringify({ notice, signature }),
      noticeMessage({ ...approval, id: 'x' }, startedAt, mac).text,
      noticeMessage({ action: 'resume' } as never, startedAt, mac).text,
    ]
    for (const text of [...forged, ...stale, ...malformed]) await outsider.publish('test:control', text)
    for (let replay = 0; replay < 3; replay++) await outsider.publish('test:control', genuine.text)
    await outsider.publish('test:control', JSON.stringify(kill(1)))
    await vi.waitFor(() => expect(open.control).toHaveLength(1), deadline)
    expect(open.notices).toEqual([approval])
    const refused = (reason: string) => open.count('messages_refused_total', { channel: 'control', reason })
    expect([await refused('unsigned'), await refused('stale'), await refused('malformed')]).toEqual([5, 2, 4])
  })

  // Agents that listen on the channel themselves know only kills and resumes, and may ask for less than they should.
  it('gets notices without the fields by which it knows a kill or resume', async () => {
    await using open = await openBus(redis.url)
    await using outsider = await connectOutsider(redis.url)
    const heard = await outsider.listen('test:control')
    open.bus.publishNotice(approval)
    await vi.waitFor(() => expect(heard).toHaveLength(1), deadline)
    expect(Object.keys(JSON.parse(heard[0]!))).toEqual(['notice', 'issued_at', 'signature'])
    expect(isControlMessage.Check(JSON.parse(heard[0]!))).toBe(false)
  })

  // A forged row with the next seq would replace the breach that is stored next.
  it('cannot forge an event that counts as stored', async () => {
    await using open = await openBus(redis.url)
    await using outsider = await connectOutsider(redis.url)
    const { text } = eventMessage(eventRowJson(event(1)), createMac(secrets.eventKey))
    const forged = [
      JSON.stringify(event(1)),
      text.replace('"seq":1', '"seq":2'),
      text.replace('192.0.2.1', '192.0.2.2'),
      eventMessage(eventRowJson(event(1)), createMac(Buffer.alloc(32, 'guess'))).text,
      eventMessage(eventRowJson(event(1)), createMac(secrets.controlKey)).text,
      `${text} `,
      '{"signature":"',
      '',
    ]
    for (const message of forged) await outsider.publish('test:events', message)
    await outsider.publish('test:events', `{"description":"${'x'.repeat(256 * 1024)}"}`)
    await outsider.publish('test:events', text)
    await vi.waitFor(() => expect(open.events).toHaveLength(1), deadline)
    expect(open.events).toEqual([event(1)])
    expect(open.outside).toEqual(forged)
    expect(await open.count('messages_refused_total', { channel: 'events', reason: 'too_large' })).toBe(1)
  })

  it('with the same secret but invalid rows is refused without harm', async () => {
    await using open = await openBus(redis.url)
    await using outsider = await connectOutsider(redis.url)
    const unreadable = eventMessage(eventRowJson({ ...event(1), seq: 1.5 }), createMac(secrets.eventKey)).text
    await outsider.publish('test:events', unreadable)
    await vi.waitFor(async () => {
      expect(await open.count('messages_refused_total', { channel: 'events', reason: 'malformed' })).toBe(1)
    }, deadline)
    expect(open.bus.state).toBe('ok')
  })
})

describe('a Redis that is killed', () => {
  it('is reconnected to, and subscribers get the time since which messages may be missing', async () => {
    await using own = await startRedis()
    await using one = await openBus(own.url)
    await using other = await openBus(own.url)
    expect([one.bus.state, one.bus.receivesAll, one.reconnects]).toEqual(['ok', true, [startedAt]])
    one.clock.advance(5_000)
    await own.kill()
    await vi.waitFor(() => expect([one.bus.state, other.bus.state]).toEqual(['unavailable', 'unavailable']), deadline)
    expect(one.bus.receivesAll).toBe(false)
    expect(await one.count('up')).toBe(0)
    one.clock.advance(60_000)
    // Many attempts must be logged only once.
    await refuseConnections(own.port, 6)
    await own.start()
    await vi.waitFor(() => expect([one.bus.state, other.bus.state]).toEqual(['ok', 'ok']), deadline)
    expect(one.reconnects).toEqual([startedAt, startedAt + 5_000])
    expect(await one.count('up')).toBe(1)
    expect(await one.count('reconnects_total')).toBe(1)
    one.bus.publishEvents([event(1)], eventRowJson)
    other.bus.publishControl(kill(1))
    await vi.waitFor(() => expect([other.events.length, one.control.length]).toEqual([1, 1]), deadline)
    expect(messagesIn(one.logged)).toEqual(['backplane connected', 'backplane unavailable', 'backplane back'])
  })

  // An unbounded queue of unsent messages would exhaust the memory.
  it('gets no messages that were published during the outage, and each is counted', async () => {
    await using own = await startRedis()
    await using one = await openBus(own.url)
    await using other = await openBus(own.url)
    await own.kill()
    await vi.waitFor(() => expect(one.bus.state).toBe('unavailable'), deadline)
    one.bus.publishEvents(
      Array.from({ length: 1_000 }, (_, index) => event(index + 1)),
      eventRowJson,
    )
    one.bus.publishControl(kill(1))
    expect([one.events.length, one.control.length]).toEqual([1_000, 1])
    await vi.waitFor(async () => {
      expect(await one.count('publishes_dropped_total', { channel: 'events' })).toBe(1_000)
    }, deadline)
    expect(await one.count('publishes_dropped_total', { channel: 'control' })).toBe(1)
    await own.start()
    await vi.waitFor(() => expect([one.bus.state, other.bus.state]).toEqual(['ok', 'ok']), deadline)
    one.bus.publishEvents([event(1_001)], eventRowJson)
    await vi.waitFor(() => expect(other.events).toEqual([event(1_001)]), deadline)
    // The kill was not on the channel, so the next database read publishes it.
    one.bus.publishControl(kill(1))
    await vi.waitFor(() => expect(other.control).toEqual([kill(1)]), deadline)
  })

  it('may start after the service', async () => {
    const own = await startRedis()
    await own.kill()
    await using open = await openBus(own.url)
    expect([open.bus.state, open.reconnects, await open.count('up')]).toEqual(['unavailable', [], 0])
    open.bus.publishEvents([event(1)], eventRowJson)
    expect(open.events).toEqual([event(1)])
    await own.start()
    await vi.waitFor(() => expect(open.reconnects).toEqual([startedAt]), deadline)
    expect(messagesIn(open.logged)).toEqual(['backplane unavailable', 'backplane back'])
    await own.stop()
  })
})

describe('a Redis that hangs', () => {
  // It accepts connections and bytes but never responds. Without a limit, published messages would pile up in memory.
  it('is disconnected without blocking the service or filling its memory', async () => {
    await using own = await startRedis()
    await using outsider = await connectOutsider(own.url)
    await using one = await openBus(own.url)
    await using other = await openBus(own.url)
    const processId = await outsider.processId()
    const text = 'x'.repeat(1_000)
    const total = 20_000
    process.kill(processId, 'SIGSTOP')
    try {
      for (let seq = 1; seq <= total; seq += 100) {
        one.bus.publishEvents(
          Array.from({ length: 100 }, (_, index) => event(seq + index, text)),
          eventRowJson,
        )
        await new Promise((resolve) => setImmediate(resolve))
      }
      expect(one.events).toHaveLength(total)
      expect(one.bus.state).toBe('ok')
      // 4 MiB of rows with their fields, and the one that exceeded the limit.
      const taken = total - (await one.count('publishes_dropped_total', { channel: 'events' }))
      expect(taken).toBeGreaterThan(2_000)
      expect(taken).toBeLessThan(4_300)
      one.bus.publishControl(kill(1))
      expect(await one.count('publishes_dropped_total', { channel: 'control' })).toBe(0)
      await vi.waitFor(() => expect([one.bus.state, other.bus.state]).toEqual(['unavailable', 'unavailable']), deadline)
      expect(await one.count('publishes_dropped_total', { channel: 'events' })).toBe(total)
      expect(await one.count('publishes_dropped_total', { channel: 'control' })).toBe(1)
    } finally {
      process.kill(processId, 'SIGCONT')
    }
    await vi.waitFor(() => expect([one.bus.state, other.bus.state]).toEqual(['ok', 'ok']), deadline)
    one.bus.publishControl(kill(2))
    await vi.waitFor(() => expect(other.control.at(-1)).toEqual(kill(2)), deadline)
    expect(messagesIn(one.logged)).toEqual(['backplane connected', 'backplane unavailable', 'backplane back'])
  })

  it('does not prevent the service from starting or stopping', async () => {
    await using own = await startRedis()
    await using outsider = await connectOutsider(own.url)
    const processId = await outsider.processId()
    const before = await openBus(own.url)
    process.kill(processId, 'SIGSTOP')
    try {
      before.bus.publishEvents([event(1)], eventRowJson)
      await before.bus.close()
      const meanwhile = await openBus(own.url)
      expect(meanwhile.bus.state).toBe('unavailable')
      await meanwhile.bus.close()
      expect(messagesIn(meanwhile.logged)).toEqual(['backplane unavailable'])
    } finally {
      process.kill(processId, 'SIGCONT')
    }
    expect(messagesIn(before.logged)).toEqual(['backplane connected'])
  })
})

describe('a process that stops', () => {
  it('sends its last messages and receives no more', async () => {
    await using other = await openBus(redis.url)
    const one = await openBus(redis.url)
    one.bus.publishEvents([event(1), event(2)], eventRowJson)
    one.bus.publishControl(kill(1))
    await one.bus.close()
    await vi.waitFor(() => expect([other.events.length, other.control.length]).toEqual([2, 1]), deadline)
    const heard = one.control.length
    other.bus.publishControl(kill(2))
    await vi.waitFor(() => expect(other.control).toHaveLength(3), deadline)
    expect([one.bus.state, one.control.length]).toEqual(['unavailable', heard])
  })
})

describe('the connection', () => {
  // Logs leave the machine; a password in them would give their readers access to the channel.
  it('never logs the password, whether it is right or wrong', async () => {
    for (const user of ['default', 'nobody']) {
      await using open = await openBus(`redis://${user}:hunter2%40secret@127.0.0.1:${redis.port}/0`)
      expect(open.bus.state).toBe(user === 'default' ? 'ok' : 'unavailable')
      expect(open.logged.join('\n')).toContain(user === 'default' ? 'backplane connected' : 'WRONGPASS')
      expect(open.logged.join('\n')).not.toMatch(/hunter2|secret/)
      expect(open.logged.join('\n')).toContain(`127.0.0.1:${redis.port}`)
    }
  })

  it('uses TLS and only accepts servers with a trusted certificate', async () => {
    const server: Server = createTlsServer({ key: testKey, cert: testCertificate }, (socket) => {
      const inner = connectTcp(redis.port, '127.0.0.1')
      socket.on('error', () => inner.destroy())
      inner.on('error', () => socket.destroy())
      socket.pipe(inner).pipe(socket)
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as { port: number }
    const trusted = getCACertificates('default')
    try {
      for (const host of ['127.0.0.1', 'localhost']) {
        await using refused = await openBus(`rediss://${host}:${port}`)
        expect([refused.bus.state, refused.logged[0]]).toEqual(['unavailable', expect.stringContaining('self-signed')])
      }
      setDefaultCACertificates([...trusted, testCertificate])
      for (const host of ['127.0.0.1', 'localhost']) {
        await using open = await openBus(`rediss://${host}:${port}`)
        open.bus.publishControl(kill(1))
        await vi.waitFor(() => expect(open.control).toHaveLength(2), deadline)
      }
    } finally {
      setDefaultCACertificates(trusted)
      server.close()
    }
  })
})

/** Listens in place of a stopped server and closes the first connections. */
async function refuseConnections(port: number, count: number): Promise<void> {
  const server = createServer((socket) => socket.destroy()).listen(port, '127.0.0.1')
  for (let came = 0; came < count; came++) await once(server, 'connection')
  server.close()
  await once(server, 'close')
}

// Self-signed for localhost and 127.0.0.1, used by this test only.
const testKey = `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgJKQXi8MwbhaNieW9
oKeQD2imWbxumiSQeiNrQvz+/cKhRANCAAQ+1q+WVYJH5lF8tzK+bGq/9A4iZ70f
XCV0z8byNn+JMlGrzQO0Z7rFj9AZVG7pbvMLyVR4A1+gBp9i0D0h8c4N
-----END PRIVATE KEY-----`
const testCertificate = `-----BEGIN CERTIFICATE-----
MIIBmzCCAUGgAwIBAgIUN0T5eVuKlu4eEQVv9SR+/2GEpvMwCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTEyMTExNTQzN1oYDzIxMjYxMDI4
MTE1NDM3WjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAAQ+1q+WVYJH5lF8tzK+bGq/9A4iZ70fXCV0z8byNn+JMlGrzQO0Z7rF
j9AZVG7pbvMLyVR4A1+gBp9i0D0h8c4No28wbTAdBgNVHQ4EFgQUpw7hbVMLsWUG
zfDNxgkFphC8avowHwYDVR0jBBgwFoAUpw7hbVMLsWUGzfDNxgkFphC8avowDwYD
VR0TAQH/BAUwAwEB/zAaBgNVHREEEzARgglsb2NhbGhvc3SHBH8AAAEwCgYIKoZI
zj0EAwIDSAAwRQIgc9vFqn2/2GHMX4zLX136R9fByxzFelE2sFCbtzcfEWYCIQC2
+IjWBOpPGYUtr2f/iuH6zJFcfAhJjDN1ORp4/SuGiA==
-----END CERTIFICATE-----`
