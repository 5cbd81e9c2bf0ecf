import { gzipSync } from 'node:zlib'
import { OpenTelemetry } from '@ai-sdk/otel'
import { SpanKind, SpanStatusCode } from '@opentelemetry/api'
import { OTLPLogExporter as LogsAsJson } from '@opentelemetry/exporter-logs-otlp-http'
import { OTLPLogExporter as LogsAsProtobuf } from '@opentelemetry/exporter-logs-otlp-proto'
import { OTLPMetricExporter } from '@opentelemetry/exporter-metrics-otlp-proto'
import { OTLPTraceExporter as SpansAsJson } from '@opentelemetry/exporter-trace-otlp-http'
import { OTLPTraceExporter as SpansAsProtobuf } from '@opentelemetry/exporter-trace-otlp-proto'
import { resourceFromAttributes } from '@opentelemetry/resources'
import { BatchLogRecordProcessor, LoggerProvider } from '@opentelemetry/sdk-logs'
import { MeterProvider, PeriodicExportingMetricReader } from '@opentelemetry/sdk-metrics'
import { BatchSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace'
import type { EventRow, InstanceDetail, KeyCreated, Lever } from '@wardline/contract'
import { generateText, isStepCount, tool } from 'ai-v7'
import { MockLanguageModelV4 } from 'ai-v7/test'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { listenOnFreePort } from '../../testing/control-stream.ts'
import { adminKey, openTestService, type TestService } from '../../testing/service.ts'

let service: TestService
let url: string
beforeEach(async () => {
  service = await openTestService()
  url = await listenOnFreePort(service.app)
})
afterEach(() => service[Symbol.asyncDispose]())

interface Sent {
  path: string
  headers: Record<string, string>
  body: Buffer
}

const forms = ['protobuf', 'protobuf with gzip', 'JSON', 'JSON with gzip'] as const
type Form = (typeof forms)[number]

const optionsOf = (form: Form, path: string, key: string) => ({
  url: `${url}/v1/${path}`,
  headers: { authorization: `Bearer ${key}` },
  ...(form.includes('gzip') ? { compression: 'gzip' as never } : {}),
})

/** An agent with the official exporter of spans. */
function openTracer(key: string, resource: Record<string, string>, form: Form = 'protobuf', batch = 512) {
  const options = optionsOf(form, 'traces', key)
  const exporter = form.startsWith('JSON') ? new SpansAsJson(options) : new SpansAsProtobuf(options)
  const processor = new BatchSpanProcessor({ exporter, maxExportBatchSize: batch, scheduledDelayMillis: 3_600_000 })
  const provider = new TracerProvider({ resource: resourceFromAttributes(resource), spanProcessors: [processor] })
  return { tracer: provider.getTracer('test'), flush: () => provider.forceFlush() }
}

const events = async (query = '') => {
  const { body } = await service.call<{ events: EventRow[] }>('GET', `/api/events?limit=1000${query}`)
  const own = body.events.filter(({ by_service }) => !by_service)
  // Those of one request are stored in any order.
  return own.toSorted((one, other) => (one.event_type < other.event_type ? 1 : -1))
}
const instanceIds = async () =>
  (await service.call<{ instances: { id: string }[] }>('GET', '/api/instances')).body.instances.map(({ id }) => id)
const agentKey = async (...instances: string[]) => (await service.createKey('agent', instances)).key

const toolSpan = { 'gen_ai.operation.name': 'execute_tool', 'gen_ai.tool.name': 'file-read' }
const chatSpan = {
  ...{ 'gen_ai.operation.name': 'chat', 'gen_ai.response.model': 'm-1', 'gen_ai.conversation.id': 's-1' },
  ...{ 'gen_ai.usage.input_tokens': 120, 'gen_ai.usage.output_tokens': 30 },
}

/** Sends bytes of a request, whose answer is read in its form. */
async function send({ path, headers, body }: Sent): Promise<{ status: number; text: string; headers: Headers }> {
  const reply = await fetch(`${url}${path}`, { method: 'POST', headers, body: new Uint8Array(body) })
  return {
    status: reply.status,
    text: Buffer.from(await reply.arrayBuffer()).toString('latin1'),
    headers: reply.headers,
  }
}
const json = (key: string, signal: string, body: unknown): Sent => ({
  path: `/v1/${signal}`,
  headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
  body: Buffer.from(typeof body === 'string' ? body : JSON.stringify(body)),
})

const attribute = (key: string, value: string) => ({ key, value: { stringValue: value } })
const attributesOf = (values: Record<string, string>) =>
  Object.entries(values).map(([key, value]) => attribute(key, value))
const spansOf = (resource: Record<string, string>, ...spans: object[]) => ({
  resourceSpans: [{ scopeSpans: [{ spans }], resource: { attributes: attributesOf(resource) } }],
})
const traceId = '5b8efff798038103d269b633813fc60c'
const span = (spanId: string, attributes: Record<string, string>, more: object = {}) => ({
  ...{ traceId, spanId, name: 'x', startTimeUnixNano: '1767225600000000000', endTimeUnixNano: 1767225600250000000 },
  ...{ attributes: attributesOf(attributes), ...more },
})

describe('spans of the official exporters', () => {
  it.each(forms)('as %s become events and a heartbeat', async (form) => {
    const { tracer, flush } = openTracer(await agentKey('bot'), { 'service.name': 'other' }, form)
    const chat = tracer.startSpan('chat m-1', { kind: SpanKind.CLIENT, attributes: chatSpan, startTime: 1_000 })
    chat.end(2_000)
    const failed = tracer.startSpan('execute_tool', {
      attributes: { ...toolSpan, 'gen_ai.tool.call.id': 'c-1', 'gen_ai.tool.call.arguments': '{"path":"/secret"}' },
      startTime: 3_000,
    })
    failed.setStatus({ code: SpanStatusCode.ERROR })
    failed.end(3_250)
    tracer.startSpan('GET /', { attributes: { 'http.request.method': 'GET' } }).end()
    await flush()
    const [call, metrics, ...rest] = await events()
    expect(rest).toEqual([])
    expect(metrics).toMatchObject({
      ...{ severity: 'info', source: 'otlp', event_type: 'session_metrics', instance_id: 'bot', session_id: 's-1' },
      description: '{"input_tokens":120,"output_tokens":30}',
      metadata: { via: 'otlp', trace_id: chat.spanContext().traceId, model: 'm-1' },
    })
    expect(call).toMatchObject({
      ...{ event_type: 'tool_call', instance_id: 'bot', description: 'Called the tool file-read' },
      metadata: {
        ...{ via: 'otlp', trace_id: failed.spanContext().traceId },
        ...{ toolName: 'file-read', callId: 'c-1', durationMs: 250, ok: false },
      },
    })
    // Content stays outside.
    expect(JSON.stringify(call)).not.toContain('/secret')
    const { body } = await service.call<InstanceDetail & { levers: Lever[]; agent_type: string }>(
      'GET',
      '/api/instances/bot',
    )
    expect(body).toMatchObject({ status: 'active', levers: [] })
  })

  it('are counted once, however often and in whatever batches they arrive', async () => {
    const key = await agentKey('bot')
    const calls = ['01', '02', '03', '04'].map((n) => span(`00000000000000${n}`, toolSpan))
    const batches = [calls.slice(0, 2), calls.slice(0, 2), [...calls, ...calls], calls.slice(1), calls.toReversed()]
    for (const batch of batches) expect((await send(json(key, 'traces', spansOf({}, ...batch)))).status).toBe(200)
    expect(await events()).toHaveLength(4)
  })

  it('with tokens are counted once, however often their request is sent', async () => {
    const key = await agentKey('bot')
    const answer = { 'gen_ai.operation.name': 'chat', 'gen_ai.usage.input_tokens': '5' }
    const spans = Array.from({ length: 450 }, (_, n) => span((n + 1).toString(16).padStart(16, '0'), answer))
    for (let n = 0; n < 3; n++) expect((await send(json(key, 'traces', spansOf({}, ...spans)))).status).toBe(200)
    await send(json(key, 'traces', spansOf({}, span('0000000000001000', answer))))
    expect(await events()).toHaveLength(451)
  })

  it.each([
    ['the call before its parts', [0, 1, 2]],
    ['the parts before the call', [2, 1, 0]],
    ['in the middle first', [1, 0, 2]],
  ])('of one call, as client and server of a tool server send them, are one event: %s', async (_, order) => {
    const key = await agentKey('bot')
    const mcp = { 'mcp.method.name': 'tools/call', 'gen_ai.tool.name': 'file-read' }
    const own = [
      span('00000000000000aa', toolSpan, { parentSpanId: '0000000000000001' }),
      span('00000000000000bb', mcp, { parentSpanId: '00000000000000aa' }),
      span('00000000000000cc', mcp, { parentSpanId: '00000000000000bb' }),
    ]
    for (const index of order) await send(json(key, 'traces', spansOf({}, own[index]!)))
    expect(await events()).toHaveLength(1)
    // Two calls of one agent are two, and one of another tool within a call is another.
    const second = span('00000000000000dd', toolSpan, { parentSpanId: '0000000000000001' })
    const inner = span(
      '00000000000000ee',
      { ...toolSpan, 'gen_ai.tool.name': 'shell-exec' },
      { parentSpanId: '00000000000000aa' },
    )
    await send(json(key, 'traces', spansOf({}, second, inner)))
    expect(await events()).toHaveLength(3)
  })

  it('are refused beyond the quota of the key, until Retry-After', async () => {
    const { key } = (
      await service.call<KeyCreated>('POST', '/api/keys', {
        body: { scope: 'agent', instances: ['bot'], quotas: { events_per_second: 20 } },
      })
    ).body
    let sent = 0
    const batch = () => {
      const next = Array.from({ length: 100 }, () => span((++sent).toString(16).padStart(16, '0'), toolSpan))
      return json(key, 'traces', spansOf({}, ...next))
    }
    let request = batch()
    let reply = await send(request)
    for (; reply.status === 200; reply = await send(request)) request = batch()
    expect([reply.status, JSON.parse(reply.text).code]).toEqual([429, 8])
    service.clock.advance(Number(reply.headers.get('retry-after')) * 1_000)
    expect((await send(request)).status).toBe(200)
    expect(await events()).toHaveLength(sent)
  })
})

describe('the conventions', () => {
  it.each<[string, Record<string, string>, object]>([
    ['GenAI', { ...toolSpan, 'gen_ai.tool.call.id': 'c' }, { toolName: 'file-read', callId: 'c' }],
    [
      'GenAI, refined',
      { 'gen_ai.operation.name': 'execute_tool_command', 'gen_ai.tool.name': 'ls' },
      { toolName: 'ls' },
    ],
    ['MCP', { 'mcp.method.name': 'tools/call', 'gen_ai.tool.name': 'search' }, { toolName: 'search' }],
    ['OpenInference', { 'openinference.span.kind': 'TOOL', 'tool.name': 'ls', 'session.id': 's' }, { toolName: 'ls' }],
    ['OpenLLMetry', { 'traceloop.span.kind': 'tool', 'traceloop.entity.name': 'ls' }, { toolName: 'ls' }],
    [
      'AI SDK 5 and 6',
      { 'ai.operationId': 'ai.toolCall', 'ai.toolCall.name': 'ls', 'ai.toolCall.id': 'c' },
      { toolName: 'ls', callId: 'c' },
    ],
  ])('of %s name a tool call', async (_, attributes, metadata) => {
    await send(json(await agentKey('bot'), 'traces', spansOf({}, span('00000000000000aa', attributes))))
    expect(await events()).toMatchObject([
      { event_type: 'tool_call', metadata: { ...metadata, durationMs: 250, ok: true } },
    ])
  })

  it.each<[string, Record<string, string>, object | undefined]>([
    ['GenAI', { 'gen_ai.operation.name': 'chat', 'gen_ai.usage.input_tokens': '5' }, { input_tokens: 5 }],
    [
      'GenAI, before 1.27',
      { 'gen_ai.operation.name': 'chat', 'gen_ai.usage.completion_tokens': '5' },
      { output_tokens: 5 },
    ],
    [
      'an agent with the sum of its answers',
      { 'gen_ai.operation.name': 'invoke_agent', 'gen_ai.usage.input_tokens': '5' },
      undefined,
    ],
    [
      'OpenInference',
      { 'openinference.span.kind': 'LLM', 'llm.token_count.prompt': '7', 'llm.cost.total': '0.5' },
      { input_tokens: 7, cost_usd: 0.5 },
    ],
    ['OpenInference, a chain', { 'openinference.span.kind': 'CHAIN', 'llm.token_count.prompt': '7' }, undefined],
    [
      'AI SDK 6, inner',
      { 'ai.operationId': 'ai.generateText.doGenerate', 'gen_ai.usage.input_tokens': '9' },
      { input_tokens: 9 },
    ],
    ['AI SDK 6, outer', { 'ai.operationId': 'ai.generateText', 'gen_ai.usage.input_tokens': '9' }, undefined],
    ['a number that is none', { 'gen_ai.operation.name': 'chat', 'gen_ai.usage.input_tokens': 'many' }, undefined],
    ['a negative one', { 'gen_ai.operation.name': 'chat', 'gen_ai.usage.input_tokens': '-5' }, undefined],
  ])('of %s have tokens and cost', async (_, attributes, metrics) => {
    await send(json(await agentKey('bot'), 'traces', spansOf({}, span('00000000000000aa', attributes))))
    const found = await events()
    expect(found.map(({ description }) => JSON.parse(description))).toEqual(metrics ? [metrics] : [])
  })
})

it('texts that no database stores are stored without what it refuses', async () => {
  const hostile = {
    ...toolSpan,
    'gen_ai.tool.name': 'a\u0000b\ud800',
    'gen_ai.conversation.id': `${'x'.repeat(199)}🦊`,
  }
  const reply = await send(json(await agentKey('bot'), 'traces', spansOf({}, span('00000000000000aa', hostile))))
  expect(reply.status).toBe(200)
  expect(await events()).toMatchObject([{ session_id: `${'x'.repeat(199)}\ufffd`, metadata: { toolName: 'ab\ufffd' } }])
})

describe('logs of coding agents', () => {
  const sendLogs = async (form: Form, records: { body?: string; attributes: Record<string, string | number> }[]) => {
    const options = optionsOf(form, 'logs', await agentKey('bot'))
    const exporter = form.startsWith('JSON') ? new LogsAsJson(options) : new LogsAsProtobuf(options)
    const provider = new LoggerProvider({ processors: [new BatchLogRecordProcessor({ exporter })] })
    for (const record of records) provider.getLogger('test').emit({ ...record, timestamp: 1_767_225_600_000 })
    await provider.forceFlush()
    return events()
  }

  it.each(forms)('of Claude Code as %s are calls, denials, tokens and cost', async (form) => {
    const session = { 'session.id': 's-1', 'user.email': 'who@example.com' }
    const found = await sendLogs(form, [
      { body: 'claude_code.user_prompt', attributes: { ...session, 'event.name': 'user_prompt', prompt: 'secret' } },
      {
        body: 'claude_code.tool_result',
        attributes: {
          ...session,
          ...{ 'event.name': 'tool_result', tool_name: 'Bash', tool_use_id: 't-1', success: 'true', duration_ms: 12 },
        },
      },
      {
        body: 'claude_code.tool_decision',
        attributes: { ...session, ...{ 'event.name': 'tool_decision', tool_name: 'Write', decision: 'reject' } },
      },
      {
        body: 'claude_code.tool_decision',
        attributes: { ...session, ...{ 'event.name': 'tool_decision', tool_name: 'Bash', decision: 'accept' } },
      },
      {
        body: 'claude_code.api_request',
        attributes: {
          ...session,
          ...{ 'event.name': 'api_request', model: 'm', cost_usd: 0.25, input_tokens: 9, output_tokens: 4 },
        },
      },
    ])
    expect(found).toMatchObject([
      {
        event_type: 'tool_call',
        session_id: 's-1',
        metadata: { toolName: 'Bash', callId: 't-1', durationMs: 12, ok: true },
      },
      { event_type: 'tool_blocked', description: 'Denied the tool Write', metadata: { toolName: 'Write' } },
      { event_type: 'session_metrics', description: '{"input_tokens":9,"output_tokens":4,"cost_usd":0.25}' },
    ])
    expect(found).toHaveLength(3)
    expect(JSON.stringify(found)).not.toMatch(/secret|example\.com/)
  })

  it('of Codex are calls, denials and tokens', async () => {
    const common = { 'conversation.id': 's-2', model: 'm' }
    const found = await sendLogs('protobuf', [
      {
        attributes: {
          ...common,
          'event.name': 'codex.tool_decision',
          tool_name: 'shell',
          call_id: 'a',
          decision: 'denied',
        },
      },
      {
        attributes: {
          ...common,
          'event.name': 'codex.tool_decision',
          tool_name: 'shell',
          call_id: 'b',
          decision: 'approved',
        },
      },
      {
        attributes: {
          ...common,
          'event.name': 'codex.tool_result',
          tool_name: 'shell',
          call_id: 'b',
          success: 'false',
          duration_ms: '7',
        },
      },
      { attributes: { ...common, 'event.name': 'codex.sse_event', 'event.kind': 'response.created' } },
      {
        attributes: {
          ...{ ...common, 'event.name': 'codex.sse_event', 'event.kind': 'response.completed' },
          ...{ input_token_count: '50', output_token_count: '6' },
        },
      },
    ])
    expect(found).toMatchObject([
      { event_type: 'tool_call', metadata: { toolName: 'shell', callId: 'b', ok: false, durationMs: 7 } },
      { event_type: 'tool_blocked', session_id: 's-2', metadata: { toolName: 'shell', callId: 'a' } },
      { event_type: 'session_metrics', description: '{"input_tokens":50,"output_tokens":6}' },
    ])
  })
})

describe('refusals, errors and changes of settings', () => {
  const sendLog = async (name: string, attributes: Record<string, string>, at = '1767225600000000000') => {
    const record = {
      timeUnixNano: at,
      body: { stringValue: `claude_code.${name}` },
      attributes: attributesOf({ 'session.id': 's-1', 'event.name': name, ...attributes }),
    }
    const body = { resourceLogs: [{ scopeLogs: [{ logRecords: [record] }] }] }
    expect((await send(json(key, 'logs', body))).status).toBe(200)
  }
  let key: string
  beforeEach(async () => {
    key = await agentKey('bot')
  })

  it.each<[string, Record<string, string>, object | undefined]>([
    [
      'api_refusal',
      { model: 'm', request_id: 'r-1', server_fallback_hop: 'false', category: 'cyber' },
      { event_type: 'model_refused', severity: 'warning', metadata: { model: 'm', reason: 'cyber' } },
    ],
    ['api_refusal', { model: 'm', server_fallback_hop: 'true' }, undefined],
    [
      'api_error',
      { model: 'm', status_code: '403', error: 'secret' },
      { event_type: 'model_failed', severity: 'info', metadata: { model: 'm', status: '403' } },
    ],
    [
      'permission_mode_changed',
      { from_mode: 'default', to_mode: 'bypassPermissions', trigger: 'shift_tab' },
      {
        ...{ event_type: 'permission_mode_changed', severity: 'warning' },
        metadata: { from_mode: 'default', to_mode: 'bypassPermissions', trigger: 'shift_tab' },
      },
    ],
    [
      'permission_mode_changed',
      { from_mode: 'bypassPermissions', to_mode: 'plan' },
      { severity: 'info', description: 'The permission mode is now plan' },
    ],
    [
      'mcp_server_connection',
      { status: 'failed', transport_type: 'stdio', server_scope: 'project', server_name: 'files', error: 'secret' },
      {
        ...{ event_type: 'tool_server_connection', severity: 'info', description: 'Tool server files: failed' },
        metadata: { status: 'failed', server: 'files', scope: 'project', transport: 'stdio' },
      },
    ],
    ['hook_registered', { hook_event: 'PreToolUse' }, undefined],
  ])('of Claude Code: %s with %o', async (name, attributes, expected) => {
    for (let count = 0; count < 2; count++) await sendLog(name, attributes)
    const found = await events()
    expect(found).toMatchObject(expected ? [{ session_id: 's-1', ...expected }] : [])
    expect(JSON.stringify(found)).not.toContain('secret')
  })

  const chat = { 'gen_ai.operation.name': 'chat', 'gen_ai.usage.input_tokens': '5' }
  it.each<[string, Record<string, string>, string[]]>([
    ['GenAI', { ...chat, 'gen_ai.response.finish_reasons': 'content_filter' }, ['session_metrics', 'model_refused']],
    ['GenAI, of an ordinary answer', { ...chat, 'gen_ai.response.finish_reasons': 'stop' }, ['session_metrics']],
    ['OpenInference', { 'openinference.span.kind': 'LLM', 'llm.finish_reason': 'SAFETY' }, ['model_refused']],
    [
      'AI SDK 6',
      { 'ai.operationId': 'ai.streamText.doStream', 'ai.response.finishReason': 'content-filter' },
      ['model_refused'],
    ],
    ['a guardrail of OpenLLMetry', { 'gen_ai.guardrail.status': 'FAILED' }, ['policy_violation']],
    ['a guardrail of OpenLLMetry that passed', { 'gen_ai.guardrail.status': 'PASSED' }, []],
    ['a guardrail of OpenInference that passed', { 'openinference.span.kind': 'GUARDRAIL' }, []],
  ])('of spans: %s', async (_, attributes, types) => {
    await send(json(key, 'traces', spansOf({}, span('00000000000000aa', attributes))))
    expect((await events()).map(({ event_type }) => event_type)).toEqual(types)
  })

  it('of spans: a guardrail of OpenInference that threw', async () => {
    const guard = span('00000000000000aa', { 'openinference.span.kind': 'GUARDRAIL' }, { status: { code: 2 } })
    await send(json(key, 'traces', spansOf({}, guard)))
    expect(await events()).toMatchObject([{ event_type: 'policy_violation', severity: 'warning' }])
  })

  it.each(['protobuf', 'JSON'] as const)('a list of finish reasons is read from %s', async (form) => {
    const { tracer, flush } = openTracer(key, {}, form)
    const attributes = { ...chatSpan, 'gen_ai.response.finish_reasons': ['stop', 'content_filter'] }
    tracer.startSpan('chat', { attributes }).end()
    await flush()
    expect(await events()).toMatchObject([
      { event_type: 'session_metrics' },
      { event_type: 'model_refused', metadata: { reason: 'content_filter', model: 'm-1' } },
    ])
  })

  it('the spans of Claude Code repeat its logs, and are not counted', async () => {
    // As version 2.1.266 names them, besides the operation, which later ones may add.
    const common = { 'session.id': 's-1', 'gen_ai.system': 'anthropic' }
    const answer = { ...common, 'span.type': 'llm_request', model: 'm', input_tokens: '2', output_tokens: '1200' }
    const call = { ...common, 'span.type': 'tool', tool_name: 'Bash', tool_use_id: 't-1', 'gen_ai.tool.call.id': 't-1' }
    const spans = [
      span('00000000000000aa', { ...answer, 'gen_ai.operation.name': 'chat' }, { name: 'claude_code.llm_request' }),
      span('00000000000000bb', { ...call, 'gen_ai.tool.name': 'Bash' }, { name: 'claude_code.tool' }),
      span('00000000000000cc', { 'gen_ai.tool.call.id': 't-1' }, { name: 'claude_code.tool.execution' }),
    ]
    await send(json(key, 'traces', spansOf({}, ...spans)))
    await sendLog('api_request', { model: 'm', cost_usd: '0.5', input_tokens: '2', output_tokens: '1200' })
    await sendLog('tool_result', { tool_name: 'Bash', tool_use_id: 't-1', success: 'true' })
    expect((await events()).map(({ event_type, description }) => [event_type, description])).toEqual([
      ['tool_call', 'Called the tool Bash'],
      ['session_metrics', '{"input_tokens":2,"output_tokens":1200,"cost_usd":0.5}'],
    ])
  })
})

it('metrics are heartbeats, and no figures', async () => {
  const exporter = new OTLPMetricExporter(optionsOf('protobuf', 'metrics', await agentKey('bot')))
  const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 3_600_000 })
  const provider = new MeterProvider({ readers: [reader] })
  provider.getMeter('test').createCounter('claude_code.token.usage').add(5)
  await provider.forceFlush()
  expect([await instanceIds(), await events()]).toEqual([['bot'], []])
  service.clock.advance(15_000)
  const before = (await service.call<InstanceDetail>('GET', '/api/instances/bot')).body.last_heartbeat
  provider.getMeter('test').createCounter('claude_code.token.usage').add(5)
  await provider.forceFlush()
  const after = (await service.call<InstanceDetail>('GET', '/api/instances/bot')).body.last_heartbeat
  expect(Date.parse(after) - Date.parse(before)).toBe(15_000)
  await provider.shutdown()
})

it('the AI SDK with @ai-sdk/otel is an agent with its tool calls and tokens', async () => {
  const { tracer, flush } = openTracer(await agentKey('support-*'), { 'service.name': 'support', 'host.name': 'h1' })
  const usage = {
    inputTokens: { total: 11, noCache: 11, cacheRead: 0, cacheWrite: 0 },
    outputTokens: { total: 2, text: 2, reasoning: 0 },
  }
  const finish = (unified: 'stop' | 'tool-calls') => ({ unified, raw: undefined })
  const model = new MockLanguageModelV4({
    modelId: 'm-9',
    doGenerate: [
      {
        content: [{ type: 'tool-call', toolCallId: 'call-1', toolName: 'look-up', input: '{"id":"4711"}' }],
        ...{ finishReason: finish('tool-calls'), usage, warnings: [] },
      },
      { content: [{ type: 'text', text: 'done' }], finishReason: finish('stop'), usage, warnings: [] },
    ],
  })
  const tools = { 'look-up': tool({ inputSchema: z.object({ id: z.string() }), execute: async () => 'found' }) }
  const telemetry = { integrations: [new OpenTelemetry({ tracer: tracer as never })], functionId: 'helper' }
  await generateText({ model, tools, prompt: 'x', stopWhen: isStepCount(2), telemetry: telemetry as never })
  await flush()
  const found = await events()
  expect(found.map(({ event_type, instance_id }) => [event_type, instance_id]).toSorted()).toEqual([
    ['session_metrics', 'support-h1'],
    ['session_metrics', 'support-h1'],
    ['tool_call', 'support-h1'],
  ])
  expect(found.find(({ event_type }) => event_type === 'tool_call')).toMatchObject({
    metadata: { toolName: 'look-up', callId: 'call-1', ok: true },
  })
  expect(JSON.stringify(found)).not.toContain('4711')
})

describe('the agent of a batch', () => {
  it.each<[string, string[] | null, Record<string, string>, string | RegExp]>([
    ['the only one of its key', ['bot'], { 'wardline.instance.id': 'other', 'service.name': 'x' }, 'bot'],
    ['what its resource says', null, { 'wardline.instance.id': 'own', 'service.instance.id': 'i' }, 'own'],
    ['its main agent', null, { 'gen_ai.main_agent.id': 'Main Agent', 'service.name': 'x' }, 'main-agent'],
    ['its service instance', null, { 'service.instance.id': 'i-1', 'service.name': 'x' }, 'i-1'],
    [
      'its service and host',
      null,
      { 'service.name': 'Support Bot', 'host.name': 'host.example' },
      'support-bot-host-example',
    ],
    [
      'of several the one that the key may act for',
      ['bot-*'],
      { 'service.instance.id': '7f3c', 'service.name': 'bot-x' },
      'bot-x',
    ],
    [
      'not another than it says',
      ['bot-*'],
      { 'wardline.instance.id': 'own', 'service.name': 'bot-x' },
      /may not act for own/,
    ],
    ['none of a host alone', null, { 'host.name': 'h' }, /names no agent/],
    ['none of other signs', null, { 'service.name': '¿?' }, /names no agent/],
  ])('is %s', async (_, instances, resource, expected) => {
    const key = instances ? await agentKey(...instances) : adminKey
    const spans = [span('00000000000000aa', toolSpan, { name: 'a' }), span('00000000000000bb', {})]
    const reply = await send(json(key, 'traces', spansOf(resource, ...spans)))
    expect(reply.status).toBe(200)
    if (typeof expected === 'string') {
      expect(reply.text).toBe('{}')
      expect([await instanceIds(), (await events()).map(({ instance_id }) => instance_id)]).toEqual([
        [expected],
        [expected],
      ])
      return
    }
    const { partialSuccess } = JSON.parse(reply.text)
    expect(partialSuccess).toEqual({ rejectedSpans: 2, errorMessage: expect.stringMatching(expected) })
    expect([await instanceIds(), await events()]).toEqual([[], []])
  })

  it('beyond the limit of instances is rejected alone', async () => {
    const body = { scope: 'agent', name: 'k', instances: ['bot-*'], max_instances: 1 }
    const { key } = (await service.call<KeyCreated>('POST', '/api/keys', { body })).body
    const [known] = spansOf({ 'wardline.instance.id': 'bot-a' }, span('00000000000000aa', toolSpan)).resourceSpans
    await send(json(key, 'traces', { resourceSpans: [known] }))
    const strange = [span('00000000000000bb', toolSpan), span('00000000000000cc', toolSpan), span('0d', {})]
    const [beyond] = spansOf({ 'wardline.instance.id': 'bot-b' }, ...strange).resourceSpans
    const [more] = spansOf({ 'wardline.instance.id': 'bot-a' }, span('00000000000000dd', toolSpan)).resourceSpans
    const reply = await send(json(key, 'traces', { resourceSpans: [beyond, more] }))
    expect([reply.status, JSON.parse(reply.text)]).toEqual([
      200,
      { partialSuccess: { rejectedSpans: 3, errorMessage: expect.stringContaining('max_instances of the key') } },
    ])
    expect((await events()).map(({ instance_id }) => instance_id)).toEqual(['bot-a', 'bot-a'])
  })

  it('keeps the type of one that sends heartbeats itself', async () => {
    const key = await agentKey('bot')
    await service.call('POST', '/api/heartbeat', { key, body: { instance_id: 'bot', name: 'Bot', agent_type: 'own' } })
    await send(json(key, 'traces', spansOf({}, span('00000000000000aa', toolSpan))))
    const { body } = await service.call<{ name: string; agent_type: string; levers: Lever[] }>(
      'GET',
      '/api/instances/bot',
    )
    expect(body).toMatchObject({ name: 'Bot', agent_type: 'own', levers: [{ kind: 'poll' }] })
    expect(await events()).toHaveLength(1)
  })

  it('of a suspended agent is activity, and the answer says so', async () => {
    const key = await agentKey('bot', 'bot-2')
    const request = json(key, 'traces', spansOf({ 'wardline.instance.id': 'bot' }, span('00000000000000aa', toolSpan)))
    await send(request)
    await service.call('POST', '/api/kill/bot', { body: { reason: 'Leak' } })
    expect((await send(request)).headers.get('wardline-suspended')).toBe('1')
  })
})

describe('a refused request', () => {
  const protobuf = (key: string | undefined, body: Buffer, more: Record<string, string> = {}): Sent => ({
    path: '/v1/traces',
    headers: { ...(key ? { authorization: `Bearer ${key}` } : {}), 'content-type': 'application/x-protobuf', ...more },
    body,
  })
  const bomb = gzipSync(Buffer.alloc(5 * 1024 * 1024))

  it.each<[string, number, number, (key: string) => Sent]>([
    ['without a key', 401, 16, () => protobuf(undefined, Buffer.alloc(0))],
    ['with a wrong key', 401, 16, () => protobuf('wrong', Buffer.alloc(0))],
    ['that is no protobuf', 400, 3, (key) => protobuf(key, Buffer.from('garbage'))],
    ['that is not JSON', 400, 3, (key) => json(key, 'traces', '{"resourceSpans":[{]}')],
    ['that is another JSON', 400, 3, (key) => json(key, 'logs', '[]')],
    ['that is no gzip', 400, 3, (key) => protobuf(key, Buffer.from('garbage'), { 'content-encoding': 'gzip' })],
    ['with another encoding', 415, 3, (key) => protobuf(key, Buffer.alloc(0), { 'content-encoding': 'br' })],
    ['of another type', 415, 3, (key) => protobuf(key, Buffer.alloc(0), { 'content-type': 'text/plain' })],
    ['that is too large', 413, 3, (key) => protobuf(key, Buffer.alloc(4 * 1024 * 1024 + 1))],
    ['that inflates to too much', 413, 3, (key) => protobuf(key, bomb, { 'content-encoding': 'gzip' })],
    ['of too many records', 413, 3, (key) => protobuf(key, message(message(...Array(10_001).fill('12 00'))))],
    ['of too many records as JSON', 413, 3, (key) => json(key, 'traces', spansOf({}, ...Array(10_001).fill({})))],
  ])('%s is answered %d with Status %d in its form', async (_, status, code, requestOf) => {
    const request = requestOf(await agentKey('bot'))
    const reply = await send(request)
    expect(reply.status).toBe(status)
    if (request.headers['content-type'] === 'application/json') {
      expect(JSON.parse(reply.text)).toEqual({ code, message: expect.stringMatching(/\.$/) })
    } else {
      expect(reply.headers.get('content-type')).toBe('application/x-protobuf')
      expect(reply.text.slice(0, 3)).toBe(String.fromCharCode(8, code, 18))
      expect(reply.text).toMatch(/\.$/)
    }
    expect(await events()).toEqual([])
  })

  /** A request with one resource and scope, of the hex of its fields. */
  const message = (...parts: (string | Buffer)[]): Buffer => {
    const inner = Buffer.concat(
      parts.map((part) => (typeof part === 'string' ? Buffer.from(part.replaceAll(' ', ''), 'hex') : part)),
    )
    const head: number[] = [parts.some((part) => typeof part === 'string') ? 0x12 : 0x0a]
    for (let rest = inner.length; ; rest >>= 7) {
      head.push(rest < 128 ? rest : (rest & 127) | 128)
      if (rest < 128) break
    }
    return Buffer.concat([Buffer.from(head), inner])
  }
})
