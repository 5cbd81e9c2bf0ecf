import { readFileSync } from 'node:fs'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto'
import { resourceFromAttributes } from '@opentelemetry/resources'
import { BatchSpanProcessor, type ReadableSpan, type SpanExporter, TracerProvider } from '@opentelemetry/sdk-trace'
import type { Figure } from '../report.ts'
import { type Service, startService } from '../service.ts'

const batchSpans = 512
const connections = 4
const seconds = 8
const enoughPerSecond = 20_000
/** Clock ticks per second of /proc, which Linux shows to programs as 100. */
const ticksPerSecond = 100

/** CPU time of a process with its threads, in seconds. */
function cpuSeconds({ pid }: Service): number {
  const [, after] = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')
  const fields = after!.split(' ')
  return (Number(fields[11]) + Number(fields[12])) / ticksPerSecond
}

const agents = 50

/** What an instrumented agent sends: calls of tools, answers of models, and mostly spans of other libraries. */
function kindOf(index: number): Record<string, string | number> {
  if (index % 16 === 0) {
    return {
      ...{
        'gen_ai.operation.name': 'execute_tool',
        'gen_ai.tool.name': 'file-read',
        'gen_ai.tool.call.id': `c${index}`,
      },
      'gen_ai.tool.call.arguments': JSON.stringify({ path: '/srv/data', limit: 100 }),
    }
  }
  if (index % 20 === 1) {
    return {
      ...{ 'gen_ai.operation.name': 'chat', 'gen_ai.request.model': 'm-1', 'gen_ai.conversation.id': 's-1' },
      ...{ 'gen_ai.usage.input_tokens': 1_200, 'gen_ai.usage.output_tokens': 90 },
      'gen_ai.input.messages': JSON.stringify([
        { role: 'user', parts: [{ type: 'text', content: 'text '.repeat(60) }] },
      ]),
    }
  }
  return {
    ...{
      'http.request.method': 'GET',
      'url.full': 'https://example.com/items?page=2',
      'server.address': 'example.com',
    },
    ...{ 'http.response.status_code': 200, 'network.protocol.version': '1.1', 'user_agent.original': 'node' },
  }
}

/** Spans from the official exporter of OpenTelemetry. */
export async function measureOtlp(): Promise<Figure[]> {
  const service = await startService()
  const { text } = await service.call('POST', '/api/keys', [201], {
    name: 'otlp',
    scope: 'agent',
    instances: ['bench'],
  })
  const { key } = JSON.parse(text) as { key: string }
  const exporter = new OTLPTraceExporter({
    url: `http://127.0.0.1:${service.port}/v1/traces`,
    headers: { authorization: `Bearer ${key}` },
  })
  const ended: ReadableSpan[] = []
  const keep: SpanExporter = {
    export(spans, done) {
      ended.push(...spans)
      done({ code: 0 })
    },
    shutdown: async () => {},
  }
  const processor = new BatchSpanProcessor({ exporter: keep })
  const tracers = Array.from({ length: agents }, (_, n) => {
    const resource = resourceFromAttributes({ 'wardline.instance.id': `bench-${n}` })
    return new TracerProvider({ resource, spanProcessors: [processor] }).getTracer('bench')
  })
  let made = 0
  let batches = 0
  const nextBatch = async (): Promise<ReadableSpan[]> => {
    const tracer = tracers[batches++ % agents]!
    for (let count = 0; count < batchSpans; count++) tracer.startSpan('span', { attributes: kindOf(made++) }).end()
    await processor.forceFlush()
    return ended.splice(0, batchSpans)
  }
  const faults: string[] = []
  let sent = 0
  const send = async (until: number) => {
    while (performance.now() < until) {
      const spans = await nextBatch()
      const { error } = await new Promise<{ error?: Error }>((resolve) => exporter.export(spans, resolve))
      if (error) faults.push(error.message)
      else sent += spans.length
    }
  }
  await send(performance.now() + 1_000)
  const cpuBefore = cpuSeconds(service)
  const startedAt = performance.now()
  sent = 0
  await Promise.all(Array.from({ length: connections }, () => send(startedAt + seconds * 1_000)))
  const passed = (performance.now() - startedAt) / 1_000
  const cpu = cpuSeconds(service) - cpuBefore
  await exporter.shutdown()
  await service.stop()
  return [
    {
      name: 'spans/s by OTLP on one core',
      value: sent / cpu,
      unit: 'spans/s',
      min: enoughPerSecond,
      sides: [{ name: 'service and its database', perSecond: sent / passed }],
      notes: [
        `${Math.round(sent / passed)} spans/s arrived, one of nine an event, with ${(cpu / passed).toFixed(2)} cores of the service`,
      ],
      faults: [...new Set(faults)],
    },
  ]
}
