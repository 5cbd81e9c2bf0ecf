import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Stream } from './event-stream.ts'
import { expectCount, fields } from './expectations.ts'
import { newInstance, postEvent, storedEvent, unique } from './fleet.ts'
import { isExternal, type Service, startService } from './service.ts'
import type { EventRow, StatusView, StreamBody } from './shapes.ts'

let service: Service
beforeAll(async () => {
  service = await startService({ env: { WARDLINE_STREAM_KEEPALIVE_SECONDS: '5' } })
})
afterAll(() => service?.stop())

const isEvent = (body: StreamBody) => body.type === 'event'
const describes = (description: string) => (body: StreamBody) =>
  body.type === 'event' && body.data.description === description
const eventRows = (stream: Stream): EventRow[] =>
  stream.messages.flatMap(({ json }) =>
    (json as StreamBody).type === 'event' ? [(json as { data: EventRow }).data] : [],
  )

describe('GET /api/stream', () => {
  test('needs no key and declares an event stream that no cache may keep', async () => {
    const stream = await service.openStream('/api/stream')
    expect(stream.status).toBe(200)
    expect(stream.headers['content-type']).toMatch(/^text\/event-stream/)
    expect(stream.headers['cache-control']).toBe('no-store')
    expect(stream.headers['content-length']).toBeUndefined()
    stream.close()
  })

  test('begins with a heartbeat that carries nothing else', async () => {
    const stream = await service.openStream('/api/stream')
    await stream.next<StreamBody>(() => true)
    expect(stream.messages[0]?.json).toEqual({ type: 'heartbeat' })
    stream.close()
  })

  test('sends a stored event as its row, the same as the list shows it, with its number as id', async () => {
    const stream = await service.openStream('/api/stream')
    await stream.next<StreamBody>((body) => body.type === 'heartbeat')
    const description = unique('row')
    const metadata = { toolName: 'web-search', depth: { a: [1] } }
    const instanceId = await newInstance(service)
    const id = await postEvent(service, { description, metadata, instance_id: instanceId, session_id: 's-1' })
    const message = await stream.next<StreamBody>(describes(description))
    expect(fields(message.json)).toEqual(['data', 'type'])
    const { data } = message.json as { data: EventRow }
    expect(data).toEqual(await storedEvent(service, id))
    expect(message.id).toBe(String(data.seq))
    stream.close()
  })

  test('puts each message on one data line of the default event type, as EventSource.onmessage expects', async () => {
    const stream = await service.openStream('/api/stream')
    const description = `${unique('lines')}\nsecond line\r\n\r\ndata: {"type":"stats"}\n\nid: 999999`
    await postEvent(service, { description, severity: 'warning' })
    await stream.next<StreamBody>(describes(description))
    await stream.next<StreamBody>((body) => body.type === 'stats')
    for (const message of stream.messages) {
      expect(message.dataLines).toBe(1)
      expect(message.event).toBeUndefined()
      expect(['heartbeat', 'event', 'stats']).toContain((message.json as StreamBody).type)
    }
    stream.close()
  })

  test.each(['critical', 'warning', 'breach'] as const)(
    'follows a %s event with the counts that the status shows',
    async (severity) => {
      const stream = await service.openStream('/api/stream')
      await stream.next<StreamBody>((body) => body.type === 'heartbeat')
      const before = (await service.call<StatusView>('GET', '/api/status')).body.stats[severity]
      const description = unique(severity)
      await postEvent(service, { severity, description })
      await stream.next<StreamBody>(describes(description))
      const stats = await stream.next<StreamBody>((body) => body.type === 'stats' && body.data[severity] > before)
      const { data } = stats.json as { data: Record<string, number> }
      expect(fields(data)).toEqual(['breach', 'critical', 'info', 'warning'])
      for (const count of Object.values(data)) expectCount(count)
      if (!isExternal) expect(data).toEqual((await service.call<StatusView>('GET', '/api/status')).body.stats)
      stream.close()
    },
  )

  test.skipIf(isExternal)('sends no counts after an info event', async () => {
    const stream = await service.openStream('/api/stream')
    await stream.next<StreamBody>((body) => body.type === 'heartbeat')
    const position = stream.messages.length
    for (let index = 0; index < 3; index++) {
      const description = unique('quiet')
      await postEvent(service, { severity: 'info', description })
      await stream.next<StreamBody>(describes(description))
    }
    // The warning triggers the next counts; counts triggered by the info events would come before them.
    const loud = unique('loud')
    await postEvent(service, { severity: 'warning', description: loud })
    await stream.next<StreamBody>((body) => body.type === 'stats')
    const received = stream.messages.slice(position).map((message) => message.json as StreamBody)
    const warning = received.findIndex(describes(loud))
    expect(received.slice(0, warning).filter((body) => body.type === 'stats')).toEqual([])
    stream.close()
  })

  test('reaches twenty clients, each once and in the same order', async () => {
    const streams = await Promise.all(Array.from({ length: 20 }, () => service.openStream('/api/stream')))
    await Promise.all(streams.map((stream) => stream.next<StreamBody>((body) => body.type === 'heartbeat')))
    const marks = Array.from({ length: 30 }, () => unique('fan'))
    await Promise.all(marks.map((description) => postEvent(service, { description })))
    const last = unique('fan-last')
    await postEvent(service, { description: last })
    await Promise.all(streams.map((stream) => stream.next<StreamBody>(describes(last))))
    const orders = streams.map((stream) =>
      eventRows(stream)
        .map((row) => row.description)
        .filter((text) => text.startsWith('fan-')),
    )
    expect(new Set(orders.map((order) => order.join())).size).toBe(1)
    expect([...orders[0]!].sort()).toEqual([...marks, last].sort())
    for (const stream of streams) stream.close()
  })

  test('keeps the order of the numbers while many writers store at once', async () => {
    const stream = await service.openStream('/api/stream')
    await stream.next<StreamBody>((body) => body.type === 'heartbeat')
    await Promise.all(Array.from({ length: 300 }, () => postEvent(service)))
    const last = unique('last')
    await postEvent(service, { description: last })
    await stream.next<StreamBody>(describes(last))
    const numbers = eventRows(stream).map((row) => row.seq)
    expect(numbers).toHaveLength(301)
    expect(numbers).toEqual([...numbers].sort((left, right) => left - right))
    stream.close()
  })

  test('loses nothing and doubles nothing for a reader that is cut again and again while events arrive', async () => {
    const first = await service.openStream('/api/stream')
    const start = unique('start')
    await postEvent(service, { description: start })
    let lastEventId = (await first.next<StreamBody>(describes(start))).id
    first.close()

    const marks = Array.from({ length: 200 }, () => unique('churn'))
    const writing = (async () => {
      for (const description of marks) await postEvent(service, { description })
    })()
    const received: string[] = []
    while (received.length < marks.length) {
      const stream = await service.openStream('/api/stream', { lastEventId })
      for (let count = 0; count < 17 && received.length < marks.length; count++) {
        const message = await stream.next<StreamBody>(isEvent)
        lastEventId = message.id
        const { description } = (message.json as { data: EventRow }).data
        if (description.startsWith('churn-')) received.push(description)
      }
      stream.close()
    }
    await writing
    expect(received).toEqual(marks)
  })

  test.skipIf(isExternal)(
    'resumes after Last-Event-ID across a restart, heartbeat first, then each missed event once',
    async () => {
      const stream = await service.openStream('/api/stream')
      const before = Array.from({ length: 5 }, () => unique('before'))
      for (const description of before) await postEvent(service, { description })
      const third = await stream.next<StreamBody>(describes(before[2]!))
      stream.close()
      const missed = Array.from({ length: 5 }, () => unique('missed'))
      for (const description of missed) await postEvent(service, { description })
      await service.restart()

      const resumed = await service.openStream('/api/stream', { lastEventId: third.id })
      await resumed.next<StreamBody>(describes(missed[4]!))
      const live = unique('live')
      await postEvent(service, { description: live })
      await resumed.next<StreamBody>(describes(live))
      expect((resumed.messages[0]!.json as StreamBody).type).toBe('heartbeat')
      const expected = [...before.slice(3), ...missed, live]
      const texts = eventRows(resumed)
        .filter((row) => row.source === 'e2e')
        .map((row) => row.description)
      expect(texts).toEqual(expected)
      resumed.close()
    },
  )

  test.each(['nonsense', '-1', '1e9', '99999999999999999999', '%00'])(
    'stays open for a Last-Event-ID of %s',
    async (lastEventId) => {
      const stream = await service.openStream('/api/stream', { lastEventId })
      expect([200, 400]).toContain(stream.status)
      if (stream.status === 200) {
        const description = unique('after-odd-id')
        await postEvent(service, { description })
        await stream.next<StreamBody>(describes(description))
      }
      stream.close()
    },
  )

  test('forgets a client that goes away and goes on serving the others', async () => {
    const streams = await Promise.all(Array.from({ length: 30 }, () => service.openStream('/api/stream')))
    for (const stream of streams.slice(1)) stream.close()
    const description = unique('survivor')
    await postEvent(service, { description })
    await streams[0]!.next<StreamBody>(describes(description))
    streams[0]!.close()
  })

  test.skipIf(isExternal)('sends a second heartbeat after the time of a keep-alive', async () => {
    const stream = await service.openStream('/api/stream')
    const isHeartbeat = ({ type }: StreamBody) => type === 'heartbeat'
    await stream.next(isHeartbeat)
    await stream.next(isHeartbeat)
    stream.close()
  })
})
