import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { OTLPLogExporter } from '@opentelemetry/exporter-logs-otlp-proto'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto'
import { resourceFromAttributes } from '@opentelemetry/resources'
import { BatchLogRecordProcessor, LoggerProvider } from '@opentelemetry/sdk-logs'
import { BatchSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace'
import { expect, it } from 'vitest'
import { effort } from '../../../../../test-servers/effort.ts'
import { mutator } from '../../../../../test-servers/mutated-bodies.ts'
import { seededDraws } from '../../../../../test-servers/seeded-draws.ts'
import { listenOnFreePort } from '../../testing/control-stream.ts'
import { openTestService } from '../../testing/service.ts'
import { WorkBudget } from '../../work-turns.ts'
import { wantedKeys } from './conventions.ts'
import { readJson } from './otlp-json.ts'
import { readProtobuf } from './protobuf.ts'
import { maxRecords, type Signal, signals, tooMany } from './records.ts'

const attributes = {
  ...{ 'gen_ai.operation.name': 'execute_tool', 'gen_ai.tool.name': 'file-read', 'gen_ai.tool.call.id': 'c-1' },
  ...{ 'gen_ai.usage.input_tokens': 5, list: ['a', 'b'], isOk: true, ratio: 0.5, long: 'x'.repeat(500) },
}

/** Returns what the official exporters send for a span and a log record. */
async function exported(): Promise<Record<'traces' | 'logs', Buffer>> {
  const bodies: Record<string, Buffer> = {}
  const receiver = createServer(async (request, response) => {
    bodies[request.url!] = Buffer.concat(await request.toArray())
    response.writeHead(200, { 'content-type': 'application/x-protobuf' }).end()
  })
  await once(receiver.listen(0, '127.0.0.1'), 'listening')
  const url = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}`
  const resource = resourceFromAttributes({ 'wardline.instance.id': 'bot' })
  const spans = new TracerProvider({
    resource,
    spanProcessors: [new BatchSpanProcessor({ exporter: new OTLPTraceExporter({ url: `${url}/traces` }) })],
  })
  spans.getTracer('test').startSpan('one', { attributes }).end()
  const logs = new LoggerProvider({
    resource,
    processors: [new BatchLogRecordProcessor({ exporter: new OTLPLogExporter({ url: `${url}/logs` }) })],
  })
  logs.getLogger('test').emit({ body: 'claude_code.tool_result', attributes: { tool_name: 'Bash', success: 'true' } })
  await Promise.all([spans.shutdown(), logs.shutdown()])
  receiver.closeAllConnections()
  receiver.close()
  return { traces: bodies['/traces']!, logs: bodies['/logs']! }
}

const valid: Record<Signal, object> = {
  traces: {
    resourceSpans: [
      {
        resource: { attributes: [{ key: 'service.name', value: { stringValue: 'bot' } }] },
        scopeSpans: [
          {
            spans: [
              {
                ...{ traceId: '5b8efff798038103d269b633813fc60c', spanId: 'eee19b7ec3c1b174', name: 'x', kind: 3 },
                ...{ startTimeUnixNano: '1544712660000000000', endTimeUnixNano: '1544712661000000000' },
                attributes: [
                  { key: 'gen_ai.tool.name', value: { stringValue: 'file-read' } },
                  { key: 'gen_ai.operation.name', value: { stringValue: 'execute_tool' } },
                ],
                status: { code: 2 },
              },
            ],
          },
        ],
      },
    ],
  },
  logs: {
    resourceLogs: [
      {
        scopeLogs: [
          {
            logRecords: [
              {
                ...{ timeUnixNano: '1544712660300000000', body: { stringValue: 'codex.tool_result' } },
                attributes: [{ key: 'tool_name', value: { stringValue: 'shell' } }],
              },
            ],
          },
        ],
      },
    ],
  },
  metrics: {
    resourceMetrics: [{ scopeMetrics: [{ metrics: [{ name: 'm', sum: { dataPoints: [{ asInt: '5' }] } }] }] }],
  },
}

const requests = effort(800, 200_000)

it(
  'no mutation of a request is answered with a fault of the service',
  async () => {
    const seed = Date.now() >>> 0
    console.log(`seed ${seed}`)
    const draw = seededDraws(seed)
    const below = (bound: number) => Math.floor(draw() * bound)
    const mutated = mutator(draw)
    await using service = await openTestService()
    const url = await listenOnFreePort(service.app)
    const { key } = await service.createKey('agent', ['bot', 'bot-2'])
    const bytes = await exported()
    /** Changes, cuts, repeats or inserts bytes. */
    const broken = (body: Buffer): Buffer => {
      let changed = Buffer.from(body)
      for (let count = 1 + below(6); count > 0; count--) {
        const place = below(changed.length)
        const kind = below(4)
        if (kind === 0) changed[place] = below(256)
        else if (kind === 1) changed = changed.subarray(0, place + 1)
        else if (kind === 2) changed = Buffer.concat([changed, changed.subarray(place, place + below(200))])
        else changed = Buffer.concat([changed.subarray(0, place), Buffer.from([below(256)]), changed.subarray(place)])
      }
      return changed
    }
    const counts = new Map<number, number>()
    for (let sent = 0; sent < requests; sent += 20) {
      await Promise.all(
        Array.from({ length: 20 }, async () => {
          const signal = signals[below(signals.length)]!
          const isJson = draw() < 0.5
          const body = isJson ? mutated(valid[signal]) : broken(bytes[draw() < 0.5 ? 'traces' : 'logs'])
          const reply = await fetch(`${url}/v1/${signal}`, {
            method: 'POST',
            headers: {
              ...{ authorization: `Bearer ${key}` },
              'content-type': isJson ? 'application/json' : 'application/x-protobuf',
            },
            body: new Uint8Array(body),
          })
          await reply.arrayBuffer()
          counts.set(reply.status, (counts.get(reply.status) ?? 0) + 1)
        }),
      )
    }
    const others = [...counts.keys()].filter((status) => ![200, 400, 413, 415, 429].includes(status))
    expect(others).toEqual([])
    expect(counts.get(200)).toBeGreaterThan(requests / 20)
    expect(counts.get(400)).toBeGreaterThan(requests / 20)
  },
  effort(120_000, 3_600_000),
)

/** What a field holds in place of its value. */
const values = [null, true, -1, 2 ** 60, 1e308, '', '\ud800', 'x'.repeat(5_000), [], [[[[]]]], {}, { a: { a: {} } }]

/** Returns a copy for each field and value, with that value in that field. */
function replaced(value: unknown): unknown[] {
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([name, inner]) => {
    const copyWith = (other: unknown) =>
      Array.isArray(value) ? value.with(Number(name), other) : { ...value, [name]: other }
    return [...values, ...replaced(inner)].map(copyWith)
  })
}

const kindsOfWire = [0, 1, 2, 3, 4, 5, 6, 7]
/** A field of any number and kind, whose bytes are random, at each depth: from the request to a value of an attribute. */
const fieldFamilies = [0, 1, 2, 3, 4].flatMap((depth) =>
  Array.from({ length: 20 }, (_, id) => id).flatMap((id) => kindsOfWire.map((kind) => ({ depth, id, kind }))),
)

it('100 families of broken requests on each endpoint, as JSON and as protobuf, leave the service serving', async () => {
  const seed = Date.now() >>> 0
  console.log(`seed ${seed}`)
  const draw = seededDraws(seed)
  const below = (bound: number) => Math.floor(draw() * bound)
  const some = <Item>(items: Item[]): Item[] => {
    const left = [...items]
    return Array.from({ length: 100 }, () => left.splice(below(left.length), 1)[0]!)
  }
  await using service = await openTestService()
  const { key } = await service.createKey('agent', ['bot'])
  const post = async (signal: Signal, type: string, payload: Buffer): Promise<number> => {
    const headers = { authorization: `Bearer ${key}`, 'content-type': type }
    return (await service.app.inject({ method: 'POST', url: `/v1/${signal}`, headers, payload })).statusCode
  }
  for (const signal of signals) {
    const statuses = new Set<number>()
    for (const body of some(replaced(valid[signal]))) {
      statuses.add(await post(signal, 'application/json', Buffer.from(JSON.stringify(body))))
    }
    for (const { depth, id, kind } of some(fieldFamilies)) {
      const bytes = Buffer.from(Array.from({ length: below(40) }, () => below(256)))
      let body = Buffer.concat([Buffer.from([id * 8 + kind]), bytes])
      // A request, its resource, scope, record and attribute.
      for (const outer of [9, 2, 2, 1].slice(4 - depth)) body = within(outer, body)
      statuses.add(await post(signal, 'application/x-protobuf', body))
    }
    expect([...statuses].filter((status) => status !== 200 && status !== 400)).toEqual([])
    expect(await post(signal, 'application/json', Buffer.from(JSON.stringify(valid[signal])))).toBe(200)
  }
})

const bodyBytes = 4 * 1024 * 1024
const filled = (unit: string) => unit.repeat(Math.ceil(bodyBytes / unit.length)).slice(0, bodyBytes)
const tag = (id: number, length: number) => {
  const head = [id * 8 + 2]
  for (let rest = length; ; rest = Math.floor(rest / 128)) {
    if (rest < 128) return Buffer.from([...head, rest])
    head.push((rest % 128) + 128)
  }
}
const within = (id: number, inner: Buffer): Buffer<ArrayBuffer> => Buffer.concat([tag(id, inner.length), inner])
const many = (unit: number[]) => Buffer.alloc(bodyBytes, Buffer.from(unit))
const inSpan = (inner: Buffer) => within(1, within(2, within(2, inner)))
const key = Buffer.from('gen_ai.tool.name')

/** Requests that are as expensive as their bytes allow. */
const hostile: [string, 'JSON' | 'protobuf', Buffer][] = [
  ['empty resources', 'protobuf', many([0x0a, 0])],
  ['empty scopes', 'protobuf', within(1, many([0x12, 0]))],
  ['unknown fields of a resource', 'protobuf', within(1, many([0x18, 0]))],
  ['empty spans', 'protobuf', within(1, within(2, many([0x12, 0])))],
  ['empty attributes', 'protobuf', inSpan(many([0x4a, 0]))],
  ['fields of one attribute', 'protobuf', inSpan(within(9, many([0x18, 0])))],
  ['names of one attribute', 'protobuf', inSpan(within(9, many([0x0a, 1, 97])))],
  [
    'values of one attribute',
    'protobuf',
    inSpan(within(9, Buffer.concat([tag(1, key.length), key, within(2, many([0x10, 1]))]))),
  ],
  [
    'a long value',
    'protobuf',
    inSpan(within(9, Buffer.concat([tag(1, key.length), key, within(2, within(1, many([97])))]))),
  ],
  ['statuses', 'protobuf', inSpan(within(15, many([0x18, 1])))],
  ['data points', 'protobuf', inSpan(within(5, many([0x0a, 0])))],
  ['long tags', 'protobuf', inSpan(many([0xff, 0xff, 0xff, 0xff, 0x7f]))],
  ['brackets', 'JSON', Buffer.from(`{"resourceSpans":${filled('[')}`)],
  ['braces', 'JSON', Buffer.from(filled('{"a":'))],
  ['commas', 'JSON', Buffer.from(`{"resourceSpans":[${filled(',')}`)],
  ['members', 'JSON', Buffer.from(`{${filled('"a":1,')}`)],
  ['quotes', 'JSON', Buffer.from(`{${filled('"')}`)],
  ['escapes', 'JSON', Buffer.from(`{"${filled('\\')}`)],
  ['escaped quotes', 'JSON', Buffer.from(`{"${filled('\\"')}`)],
  ['signs within a text', 'JSON', Buffer.from(`{"${filled('[{,:')}`)],
  ['spaces', 'JSON', Buffer.from(filled(' '))],
  ['empty groups', 'JSON', Buffer.from(`{"resourceSpans":[${filled('{},')}`)],
  ['empty spans', 'JSON', Buffer.from(`{"resourceSpans":[{"scopeSpans":[{"spans":[${filled('{},')}`)],
  [
    'many attributes',
    'JSON',
    Buffer.from(`{"resourceSpans":[{"scopeSpans":[{"spans":[{"attributes":[${filled('{"key":"a"},')}`),
  ],
  [
    'one large span',
    'JSON',
    Buffer.from(`{"resourceSpans":[{"scopeSpans":[{"spans":[{"name":"${'x'.repeat(bodyBytes - 100)}"}]}]}]}`),
  ],
]

/** CPU time of this thread, which excludes other work of the machine. */
const threadMs = (): number => {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1000
}
/** The service guarantees 20 ms of CPU time. The guard leaves room for a loaded machine. */
const guardMs = 250

it.each(hostile)('%s as %s hold the event loop no longer than a slice', (name, form, body) => {
  for (const signal of signals) {
    let records = 0
    const visitor = {
      wanted: wantedKeys(['arguments', 'results']),
      resource: () => {},
      refuse: () => {},
      record: () => {
        if (++records > maxRecords) throw tooMany
      },
    }
    const steps = (form === 'JSON' ? readJson : readProtobuf)(
      signal,
      body,
      visitor,
      new WorkBudget(Number.MAX_SAFE_INTEGER),
    )
    let longest = 0
    for (let isDone = false; !isDone; ) {
      const startedAt = threadMs()
      try {
        isDone = steps.next().done === true
      } catch (fault) {
        expect(['invalid', 'too_large']).toContain((fault as { code?: string }).code)
        isDone = true
      }
      longest = Math.max(longest, threadMs() - startedAt)
    }
    if (longest > 15) console.log(`${name} as ${form}, ${signal}: a slice of ${longest.toFixed(1)} ms`)
    expect(longest).toBeLessThan(guardMs)
  }
})
