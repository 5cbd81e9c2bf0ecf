import { connect, type Socket } from 'node:net'
import type { EventRow } from '@wardline/contract'
import fc from 'fast-check'
import { describe, expect, it, vi } from 'vitest'
import type { EventFields } from '../../db/schema/events.ts'
import { adminKey, openTestService, type TestService } from '../../testing/service.ts'
import { eventRowJson, parseEventRow } from '../events/event-row.ts'
import { eventToStore } from '../events/new-event.ts'

type Message = { type: 'heartbeat' } | { type: 'event'; data: EventRow } | { type: 'stats'; data: object }

interface Listener extends AsyncDisposable {
  /** Reads until it has received an event with this seq, or severity counts. */
  until(wanted: number | 'stats'): Promise<void>
  /** Seqs of all events so far, in order of arrival. */
  seqs: number[]
  messages: Message[]
}

const urls = new WeakMap<TestService, Promise<string>>()
function urlOf(service: TestService): Promise<string> {
  const known = urls.get(service) ?? service.app.listen({ host: '127.0.0.1', port: 0 })
  urls.set(service, known)
  return known
}

/** Opens a stream and waits for its first heartbeat. */
async function listen(service: TestService, headers: Record<string, string> = {}): Promise<Listener> {
  const abort = new AbortController()
  const response = await fetch(`${await urlOf(service)}/api/stream`, { headers, signal: abort.signal })
  expect(response.status).toBe(200)
  expect(response.headers.get('content-type')).toContain('text/event-stream')
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader()
  const messages: Message[] = []
  const seqs: number[] = []
  let rest = ''
  async function readMore() {
    const { value, done } = await reader.read()
    if (done) throw new Error('The stream ended.')
    const frames = (rest + value).split('\n\n')
    rest = frames.pop()!
    for (const frame of frames) {
      const data = /^data: (.*)$/m.exec(frame)?.[1]
      if (data === undefined || frame.startsWith('event: gap')) continue
      const message = JSON.parse(data) as Message
      messages.push(message)
      if (message.type !== 'event') continue
      expect(frame).toContain(`\nid: ${message.data.seq}`)
      seqs.push(message.data.seq)
    }
  }
  while (messages.length === 0) await readMore()
  return {
    seqs,
    messages,
    async until(wanted) {
      const came = () => (wanted === 'stats' ? messages.some(({ type }) => type === 'stats') : seqs.includes(wanted))
      while (!came()) await readMore()
    },
    async [Symbol.asyncDispose]() {
      abort.abort()
    },
  }
}

const event = (service: TestService, severity: 'info' | 'warning' = 'info') =>
  eventToStore({ severity, source: 's', event_type: 'note', description: 'x' }, null, service.clock.now())

/** Stores events through another process, so that the service learns of them only when the test notifies it. */
async function storeElsewhere(service: TestService, count: number): Promise<EventFields[]> {
  await using other = await openTestService({ dataDir: service.deps.config.dataDir, clock: service.clock })
  const rows: EventFields[] = []
  other.deps.bus.onEvents((announced) => rows.push(...announced), parseEventRow)
  await other.services.ingest.store(Array.from({ length: count }, () => event(other)))
  return rows
}

const count = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, index) => from + index)

describe('the event stream', () => {
  it('sends a heartbeat first, then every event as the list returns it', async () => {
    await using service = await openTestService()
    await service.services.ingest.store([event(service)])
    await using listener = await listen(service)
    expect(listener.messages).toEqual([{ type: 'heartbeat' }])
    await service.services.ingest.store([event(service), event(service)])
    await listener.until(3)
    const { body } = await service.call<{ events: EventRow[] }>('GET', '/api/events?limit=2')
    expect(listener.messages.slice(1).map((message) => message.type === 'event' && message.data)).toEqual(
      body.events.toReversed(),
    )
  })

  it('sends a resuming client the events that it missed', async () => {
    await using service = await openTestService()
    const { eventStream, ingest } = service.services
    {
      await using first = await listen(service)
      await ingest.store([event(service), event(service)])
      await first.until(2)
    }
    await vi.waitFor(() => expect([...eventStream.holders()]).toEqual([]), 60_000)
    service.clock.advance(61_000)
    await ingest.store([event(service), event(service), event(service)])
    await using second = await listen(service)
    await ingest.store([event(service)])
    await second.until(6)
    await using resumed = await listen(service, { 'last-event-id': '1' })
    await resumed.until(6)
    expect(resumed.seqs).toEqual(count(2, 6))
  })

  it('sends each event once and in order, even if the bus loses, duplicates and reorders announcements', async () => {
    await using service = await openTestService()
    await using listener = await listen(service)
    const rows = await storeElsewhere(service, 300)
    let published = 0
    const piece = fc.record({
      skip: fc.nat(4),
      take: fc.integer({ min: 1, max: 8 }),
      back: fc.nat(6),
      shuffle: fc.boolean(),
    })
    await fc.assert(
      fc.asyncProperty(fc.array(piece, { minLength: 1, maxLength: 6 }), async (pieces) => {
        for (const { skip, take, back, shuffle } of pieces) {
          const from = Math.max(0, published + skip - back)
          const announced = rows.slice(from, from + take)
          if (announced.length === 0) return
          published = Math.max(published, from + announced.length)
          service.deps.bus.publishEvents(shuffle ? announced.toReversed() : announced, eventRowJson)
        }
        await listener.until(published)
      }),
      { numRuns: 20 },
    )
    service.deps.bus.publishEvents(rows.slice(-1), eventRowJson)
    await listener.until(300)
    expect(listener.seqs).toEqual(count(1, 300))
  })

  it('sends each event once to a client that caught up past the last announced event', async () => {
    await using service = await openTestService()
    await storeElsewhere(service, 2)
    await using restarted = await openTestService({ dataDir: service.deps.config.dataDir, clock: service.clock })
    const rows = await storeElsewhere(restarted, 8)
    // Reads 1 to 10 from the database, while only 2 have been announced to the service.
    await using listener = await listen(restarted, { 'last-event-id': '0' })
    await listener.until(10)
    for (const row of rows) {
      restarted.deps.bus.publishEvents([row], eventRowJson)
      await new Promise((resolve) => setImmediate(() => setImmediate(resolve)))
    }
    await restarted.services.ingest.store([event(restarted)])
    await listener.until(11)
    expect(listener.seqs).toEqual(count(1, 11))
  })

  it('resumes after Last-Event-ID, from memory or from the database', async () => {
    await using service = await openTestService()
    await service.services.ingest.store(Array.from({ length: 600 }, () => event(service)))
    await using restarted = await openTestService({ dataDir: service.deps.config.dataDir, clock: service.clock })
    for (const after of [0, 1, 299, 599]) {
      await using fromMemory = await listen(service, { 'last-event-id': String(after) })
      await using fromDatabase = await listen(restarted, { 'last-event-id': String(after) })
      await Promise.all([fromMemory.until(600), fromDatabase.until(600)])
      expect(fromMemory.seqs).toEqual(count(after + 1, 600))
      expect(fromDatabase.seqs).toEqual(count(after + 1, 600))
    }
  })

  it('starts at the newest event when Last-Event-ID is not a valid seq', async () => {
    await using service = await openTestService()
    await service.services.ingest.store([event(service)])
    let last = 1
    for (const place of ['601', '99999999', 'x', '-1', '1e3']) {
      await using listener = await listen(service, { 'last-event-id': place })
      await service.services.ingest.store([event(service)])
      last += 1
      await listener.until(last)
      expect(listener.seqs, place).toEqual([last])
    }
  })

  it('waits briefly for out-of-order announcements before reading the database', async () => {
    await using service = await openTestService()
    await using listener = await listen(service)
    // The database has none of these rows, so reading it would lose them.
    for (const seq of [3, 2, 5, 4, 1]) service.deps.bus.publishEvents([{ ...event(service), seq }], eventRowJson)
    await listener.until(5)
    expect(listener.seqs).toEqual(count(1, 5))
  })

  // A forged announcement must neither appear nor stop the stream.
  it('does not send events that are not in the database', async () => {
    await using service = await openTestService()
    await using listener = await listen(service)
    await service.services.ingest.store([event(service)])
    service.deps.bus.publishEvents([{ ...event(service), seq: 500, description: 'forged' }], eventRowJson)
    await service.services.ingest.store([event(service)])
    await service.services.ingest.store([event(service)])
    await listener.until(3)
    expect(listener.seqs).toEqual([1, 2, 3])
  })

  it('sends severity counts after an event above info', async () => {
    await using service = await openTestService()
    await using listener = await listen(service)
    await service.services.ingest.store([event(service)])
    await service.services.ingest.store([event(service, 'warning')])
    await listener.until('stats')
    const stats = listener.messages.filter(({ type }) => type === 'stats')
    expect(stats).toEqual([{ type: 'stats', data: { critical: 0, warning: 1, info: 1, breach: 0 } }])
  })

  // The stream needs no key, so one address could otherwise occupy all places.
  it.each([
    ['one address', () => '192.0.2.7'],
    ['one /64 of IPv6', (host: number) => `2001:db8::${host.toString(16)}`],
  ])('allows at most 100 connections from %s, and frees them when they close', async (_whose, address) => {
    await using service = await openTestService({
      env: { WARDLINE_TRUSTED_PROXIES: '127.0.0.1', WARDLINE_STREAM_AUTH: 'none' },
    })
    const { hostname, port } = new URL(await urlOf(service))
    const open = (host: number) =>
      new Promise<Socket>((resolve, reject) => {
        const socket = connect(Number(port), hostname).on('error', reject)
        const head = `GET /api/stream HTTP/1.1\r\nhost: ${hostname}\r\nx-forwarded-for: ${address(host)}\r\n\r\n`
        socket.once('data', () => resolve(socket)).write(head)
      })
    const sockets = await Promise.all(count(1, 100).map(open))
    const refused = await fetch(`${await urlOf(service)}/api/stream`, { headers: { 'x-forwarded-for': address(101) } })
    expect(refused.status).toBe(503)
    expect(refused.headers.get('retry-after')).toBe('5')
    expect(await refused.json()).toEqual({ error: 'Too many streams are open.' })
    expect((await service.call('GET', '/metrics')).text).toContain('wardline_stream_clients{kind="events"} 100')
    for (const socket of sockets) socket.destroy()
    await expect
      .poll(async () => (await service.call('GET', '/metrics')).text)
      .toContain('wardline_stream_clients{kind="events"} 0')
    await using again = await listen(service)
    expect(again.messages).toEqual([{ type: 'heartbeat' }])
  })

  // A revoked key must not read on over an open connection.
  it('ends when its key is revoked', async () => {
    await using service = await openTestService({ env: { WARDLINE_STREAM_AUTH: 'session' } })
    const { id, key } = await service.createKey('viewer')
    await using cut = await listen(service, { 'x-monitor-key': key })
    await using kept = await listen(service, { 'x-monitor-key': adminKey })
    await service.call('DELETE', `/api/keys/${id}`)
    const { keyring, eventStream } = service.services
    eventStream.endInvalid(({ keyId }) => keyring.isValid(keyId))
    eventStream.keepAlive()
    await expect(cut.until(1)).rejects.toThrow('The stream ended.')
    await service.services.ingest.store([event(service)])
    await kept.until(1)
    expect(kept.messages.map(({ type }) => type)).toEqual(['heartbeat', 'heartbeat', 'event'])
  })
})
