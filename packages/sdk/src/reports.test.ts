import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createMonitorWith } from './agent-monitor.ts'
import type { NewEvent } from './events.ts'
import type { Report } from './monitor.ts'
import { ReportQueue } from './report-queue.ts'
import { answerPlainly, sendJson, startHostileService } from './testing/hostile-service.ts'
import { agentId, eventually, fastPace, TestFleet } from './testing/service.ts'

let fleet: TestFleet
beforeAll(async () => {
  fleet = await TestFleet.open()
})
afterAll(() => fleet[Symbol.asyncDispose]())

const batch = /\/batch$/
let types = 0
/** Returns a new event type, so that each test finds only its own events. */
const newType = () => `type_${++types}`
const report = (eventType: string, more: Partial<Report> = {}): Report => ({
  severity: 'info',
  eventType,
  description: 'what happened',
  ...more,
})

test('stores reported events', async () => {
  const eventType = newType()
  const { monitor } = fleet.monitor()
  const metadata = { amount: 3, to: ['a', 'b'] }
  expect(await monitor.report(report(eventType, { severity: 'warning', sessionId: 's-81', metadata }))).toBe(true)
  expect(await monitor.flush()).toBe(true)
  expect(await fleet.events(eventType)).toMatchObject([
    {
      severity: 'warning',
      source: agentId,
      instance_id: agentId,
      session_id: 's-81',
      description: 'what happened',
      metadata,
    },
  ])
})

test('stores a tool call with its duration and its parameters', async () => {
  const { monitor } = fleet.monitor()
  await monitor.reportToolCall({ toolName: 'file-read', durationMs: 12.3456, params: { path: 'a.txt', password: 'b' } })
  await monitor.reportToolCall({ toolName: 'http-request', ok: false })
  await monitor.flush()
  const found = await fleet.events('tool_call')
  expect(found.map(({ severity, description, metadata }) => ({ severity, description, metadata })).reverse()).toEqual([
    {
      severity: 'info',
      description: 'file-read',
      metadata: {
        toolName: 'file-read',
        durationMs: 12.346,
        ok: true,
        action: 'read',
        paths: ['a.txt'],
        params: { path: 'a.txt', password: '[redacted]' },
      },
    },
    {
      severity: 'info',
      description: 'http-request failed',
      metadata: { toolName: 'http-request', ok: false, action: 'request' },
    },
  ])
})

test('sends an urgent event immediately, together with waiting events', async () => {
  const eventType = newType()
  const { monitor } = fleet.monitor({}, { batch: 600_000 })
  for (let count = 0; count < 3; count++) await monitor.report(report(eventType))
  expect(monitor.health.queuedEvents).toBe(3)
  await monitor.report(report(eventType, { severity: 'critical' }))
  await eventually(async () => expect(await fleet.events(eventType)).toHaveLength(4))
})

test('sends a batch immediately once a hundred events wait', async () => {
  const eventType = newType()
  const { monitor } = fleet.monitor({}, { batch: 600_000 })
  for (let count = 0; count < 100; count++) await monitor.report(report(eventType))
  await eventually(async () => expect(await fleet.events(eventType)).toHaveLength(100))
})

test('sends few events after the batch interval', async () => {
  const eventType = newType()
  const { monitor } = fleet.monitor()
  await monitor.report(report(eventType))
  await eventually(async () => expect(await fleet.events(eventType)).toHaveLength(1))
})

// A lost answer does not show whether the events were stored.
test('stores a batch once even if its answers are lost and it is resent', async () => {
  const eventType = newType()
  const { monitor, heard } = fleet.monitor()
  const asked = fleet.wire.asked(batch).length
  fleet.wire.cutAnswer = batch
  await monitor.report(report(eventType))
  await monitor.report(report(eventType, { severity: 'breach' }))
  await eventually(() => expect(fleet.wire.asked(batch).length).toBeGreaterThan(asked + 2))
  fleet.wire.cutAnswer = /(?!)/
  expect(await monitor.flush(20_000)).toBe(true)
  expect(await fleet.events(eventType)).toHaveLength(2)
  expect(heard.error).toEqual([])
  const keys = [...fleet.wire.sent.matchAll(/^idempotency-key: (.*)\r$/gim)].map(([, key]) => key).slice(asked)
  expect(new Set(keys).size).toBe(1)
})

test('keeps events while the service is unreachable and stores each once afterwards', async () => {
  const eventType = newType()
  const { monitor } = fleet.monitor()
  fleet.wire.mode = 'refuse'
  fleet.wire.cutAll()
  for (let count = 0; count < 1_200; count++) await monitor.report(report(eventType, { description: `${count}` }))
  expect(await monitor.flush(100)).toBe(false)
  expect(monitor.health).toMatchObject({ queuedEvents: 1_200, droppedEvents: 0 })
  fleet.wire.mode = 'pass'
  expect(await monitor.flush(20_000)).toBe(true)
  expect(await fleet.events(eventType)).toHaveLength(1_200)
  expect(monitor.health.queuedEvents).toBe(0)
})

test('drops less severe and older events first when the queue is full, and reports the number', async () => {
  const eventType = newType()
  const { monitor, heard } = fleet.monitor()
  fleet.wire.mode = 'refuse'
  fleet.wire.cutAll()
  // The first event is already in flight when the queue fills.
  await monitor.report(report(eventType, { severity: 'breach' }))
  await eventually(() => expect(fleet.wire.sent).not.toBe(''))
  expect(await monitor.flush(50)).toBe(false)
  const taken: boolean[] = []
  for (let count = 0; count < 10_050; count++) taken.push(await monitor.report(report(eventType)))
  await monitor.report(report(eventType, { severity: 'breach' }))
  expect(new Set(taken)).toEqual(new Set([true]))
  expect(monitor.health).toMatchObject({ queuedEvents: 10_001, droppedEvents: 51 })
  expect(heard.error.map(({ code }) => code)).toEqual(['dropped'])

  fleet.wire.mode = 'pass'
  expect(await monitor.flush(60_000)).toBe(true)
  const dropped = await fleet.events('sdk_events_dropped')
  expect(dropped).toMatchObject([{ severity: 'warning', instance_id: agentId, metadata: { count: 51 } }])
  expect(await fleet.events(eventType, 'breach')).toHaveLength(2)
}, 90_000)

// Above its quota, a flooding agent must lose neither breaches nor other events, and must not send extra requests.
test('respects Retry-After above the quota, still sends urgent events, and loses nothing', async () => {
  const batches: string[][] = []
  let isOpen = false
  const url = await startHostileService((request, response, body) => {
    if (!request.url?.endsWith('/batch')) return answerPlainly(request, response, body)
    const events = JSON.parse(body) as NewEvent[]
    batches.push(events.map(({ description }) => description))
    if (isOpen || events.some(({ severity }) => severity === 'breach')) {
      return sendJson(response, 200, { ok: true, ids: events.map(() => 'id'), errors: [] })
    }
    sendJson(response, 429, { error: 'no' }, { 'retry-after': '2', 'x-error-code': 'quota_exceeded' })
  })
  const monitor = createMonitorWith({ url, key: 'key', instanceId: agentId }, { ...fastPace, maxReconnect: 40 })
  const startedAt = performance.now()
  const report = (severity: Report['severity'], description: string) =>
    monitor.report({ severity, eventType: 'note', description })
  await report('info', 'one')
  await eventually(() => expect(batches).toHaveLength(1))
  for (let count = 0; count < 20; count++) {
    await report('info', `more ${count}`)
    expect(await monitor.flush(1)).toBe(false)
  }
  const isEarly = performance.now() - startedAt < 1_900
  if (isEarly) expect(batches).toHaveLength(1)
  await report('breach', 'stolen')
  await eventually(() => expect(batches.at(-1)).toContain('stolen'))
  if (isEarly) expect(batches).toHaveLength(2)
  isOpen = true
  await report('info', 'last')
  expect(await monitor.flush(20_000)).toBe(true)
  const all = ['one', ...Array.from({ length: 20 }, (_, count) => `more ${count}`), 'last', 'stolen']
  expect([...batches.slice(1).flat()].sort()).toEqual(all.sort())
  expect(monitor.health).toMatchObject({ queuedEvents: 0, droppedEvents: 0 })
  await monitor.stop()
})

test('reports and counts events that the service refused', async () => {
  const { monitor, heard } = fleet.monitor({ key: await fleet.createKey(['another']) })
  await monitor.report(report(newType()))
  await monitor.report(report(newType()))
  expect(await monitor.flush()).toBe(true)
  expect(heard.error).toMatchObject([{ code: 'dropped' }])
  expect(heard.error[0]?.message).toMatch(/^2 of 2 events were dropped.*bound to other instances/)
  expect(monitor.health.droppedEvents).toBe(2)
})

// A permanently refused batch must neither be retried nor block later events.
test('drops a permanently refused batch without a retry', async () => {
  const bodies: string[] = []
  const elsewhere = createServer((request, response) => {
    let body = ''
    request.on('data', (bytes) => {
      body += bytes
    })
    request.on('end', () => {
      bodies.push(body)
      response.writeHead(404, { 'content-type': 'application/json' })
      // Simulates another server at the url, which repeats the key in its error.
      response.end(JSON.stringify({ error: `no such page for ${request.headers['x-monitor-key']}` }))
    })
  })
  await new Promise<void>((resolve) => elsewhere.listen(0, '127.0.0.1', resolve))
  const { monitor, heard } = fleet.monitor({ url: `http://127.0.0.1:${(elsewhere.address() as AddressInfo).port}` })
  await monitor.report(report(newType()))
  expect(await monitor.flush()).toBe(true)
  await monitor.report(report(newType()))
  expect(await monitor.flush()).toBe(true)
  elsewhere.close()
  expect(bodies).toHaveLength(2)
  expect(JSON.parse(bodies[1]!)).toMatchObject([{ event_type: 'sdk_events_dropped', metadata: { count: 1 } }, {}])
  expect(monitor.health).toMatchObject({ queuedEvents: 0, droppedEvents: 2 })
  expect(heard.error.map(({ code }) => code)).toEqual(['dropped', 'dropped'])
  expect(heard.error[0]?.message).toContain('404: no such page for [key]')
})

test('keeps events while the key is refused', async () => {
  const { monitor, heard } = fleet.monitor({ key: 'not-a-key-at-all' })
  await monitor.report(report(newType()))
  expect(await monitor.flush(200)).toBe(false)
  expect(monitor.health).toMatchObject({ queuedEvents: 1, droppedEvents: 0 })
  expect(heard.error.map(({ code }) => code)).toEqual(['unauthorized'])
})

test.each<[string, unknown]>([
  ['nothing', undefined],
  ['null', null],
  ['another severity', report('a', { severity: 'fatal' as never })],
  ['a type in camel case', report('eventType')],
  ['an empty description', report('a', { description: '' })],
  ['a number for a session', report('a', { sessionId: 7 as never })],
  ['a list for metadata', report('a', { metadata: [] as never })],
  [
    'an object that throws',
    {
      get severity() {
        throw new RangeError('mine')
      },
    },
  ],
])('refuses %s with an error event, without throwing', async (_fault, invalidReport) => {
  const { monitor, heard } = fleet.monitor()
  expect(await monitor.report(invalidReport as Report)).toBe(false)
  expect(heard.error).toMatchObject([{ code: 'invalid' }])
  expect(heard.error[0]?.message).toMatch(/^A report was not sent: .+\.$/)
})

test('replaces characters that cannot be stored', async () => {
  const eventType = newType()
  const { monitor, heard } = fleet.monitor()
  const metadata = { 'a\0b': 'c\0d', lone: '\ud800', deep: [[[[[[[[[[1]]]]]]]]]], infinite: Number.POSITIVE_INFINITY }
  const hostile = JSON.parse('{"__proto__":{"a":1}}')
  await monitor.report(report(eventType, { description: `\0\ud800${'x'.repeat(2_000)}`, metadata }))
  await monitor.report(report(eventType, { metadata: hostile, sessionId: 's'.repeat(300) }))
  await monitor.flush()
  expect(heard.error).toEqual([])
  expect(await fleet.events(eventType)).toHaveLength(2)
})

test('reports sums of metrics at the end of each window and on stop', async () => {
  const { monitor, heard } = fleet.monitor({}, { metricsWindow: 50 })
  await monitor.start()
  monitor.metrics.add('tool_calls_per_5min', 1)
  monitor.metrics.add('tool_calls_per_5min', 2)
  monitor.metrics.add('own.metric', 0.5)
  await eventually(async () => expect(await fleet.events('session_metrics')).toHaveLength(1))
  monitor.metrics.add('tool_calls_per_5min', 4)
  await monitor.stop()
  const found = (await fleet.events('session_metrics')).map(({ description }) => JSON.parse(description))
  expect(found).toEqual([{ tool_calls_per_5min: 4 }, { tool_calls_per_5min: 3, 'own.metric': 0.5 }])
  monitor.metrics.add('__proto__', 1)
  monitor.metrics.add('a', Number.NaN)
  monitor.metrics.add('a', '1' as never)
  expect(heard.error.map(({ code }) => code)).toEqual(['invalid', 'invalid', 'invalid'])
})

test('does not redact metrics with names that look like secrets', async () => {
  const { monitor, heard } = fleet.monitor()
  const description = JSON.stringify({ token_count: 5, api_key_uses: 1 })
  await monitor.report(report('session_metrics', { description }))
  await monitor.flush()
  expect(heard.error).toEqual([])
  expect((await fleet.events('session_metrics'))[0]?.description).toBe(description)
})

const event = (severity: NewEvent['severity'], description: string): NewEvent => ({
  severity,
  source: 's',
  event_type: 'e',
  description,
  instance_id: 'i',
})

test('limits the queue by bytes as well as by events', () => {
  const queue = new ReportQueue()
  for (let count = 0; count < 2_000; count++) queue.add(event('info', 'x'.repeat(10_000)))
  expect(queue.length).toBeLessThan(900)
  expect(queue.takeDropped()).toBe(2_000 - queue.length)
})

test('never drops an urgent event for a less severe one', () => {
  const queue = new ReportQueue()
  for (let count = 0; count < 10_000; count++) queue.add(event('breach', `${count}`))
  expect(queue.add(event('info', 'late'))).toBe(false)
  expect(queue.add(event('critical', 'last'))).toBe(true)
  expect(queue.takeDropped()).toBe(2)
  const first = queue.takeBatch([])
  expect(JSON.parse(first!.body)).toHaveLength(500)
  expect(JSON.parse(first!.body)[0].description).toBe('1')
})
