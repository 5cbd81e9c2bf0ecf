import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { request as startRequest } from 'node:http'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { EventRow, InstanceDetail, Lever, Suspension } from '@wardline/contract'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { startProvider } from '../../testing/model-provider.ts'
import { adminKey, openTestService, type TestService } from '../../testing/service.ts'
import { type Gateway, openGateway } from './gateway.ts'

type Provider = Awaited<ReturnType<typeof startProvider>>
type Received = Provider['received'][number]

const providerKey = 'the-key-of-the-provider'
let folder: string
let provider: Provider
/** How the provider answers. */
let answer: (received: Received) => void
let service: TestService
let gateway: Gateway
let key: string

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'wardline-gateway-'))
  writeFileSync(join(folder, 'key'), `${providerKey}\n`, { mode: 0o600 })
  provider = await startProvider((received) => answer(received))
  const entry = (kind: string, path: string) => ({ kind, url: `${provider.url}${path}`, key_file: join(folder, 'key') })
  const upstreams = {
    openai: entry('openai', '/v1'),
    anthropic: entry('anthropic', ''),
    gemini: entry('gemini', ''),
    away: { ...entry('openai', '/v1'), url: 'http://127.0.0.1:1/v1' },
  }
  writeFileSync(join(folder, 'gateway.yaml'), JSON.stringify({ upstreams }))
})
afterAll(async () => {
  await provider[Symbol.asyncDispose]()
  rmSync(folder, { recursive: true })
})
beforeEach(async () => {
  provider.received.length = 0
  answer = ({ response }) => void response.writeHead(200, { 'content-type': 'application/json' }).end('{}')
  const env = { WARDLINE_GATEWAY_PORT: '0', WARDLINE_GATEWAY_FILE: join(folder, 'gateway.yaml') }
  service = await openTestService({ env })
  gateway = await openGateway(service.deps, service.services)
  key = (await service.createKey('agent', ['bot'])).key
})
afterEach(async () => {
  await gateway.close(0)
  await service[Symbol.asyncDispose]()
})

interface Sent {
  path: string
  headers?: Record<string, string>
  body?: string
  method?: string
  signal?: AbortSignal
}

const send = ({ path, headers = { authorization: `Bearer ${key}` }, body = '{"model":"m-1"}', ...more }: Sent) =>
  fetch(`http://127.0.0.1:${gateway.port}${path}`, {
    method: 'POST',
    ...(more.method === 'GET' ? {} : { body }),
    headers,
    ...more,
  })
const kill = () => service.call('POST', '/api/kill/bot', { body: { reason: 'Leak' } })
const resume = () => service.call('POST', '/api/resume/bot')
async function calls(): Promise<EventRow[]> {
  await service.services.ingest.whenIdle()
  return (await service.call<{ events: EventRow[] }>('GET', '/api/events?event_type=model_call')).body.events
}
const lastCall = async () => (await calls())[0]!

const chat = '/openai/v1/chat/completions'
const messages = '/anthropic/v1/messages'
const generate = '/gemini/v1beta/models/m-1:streamGenerateContent?alt=sse'
const sse = (...events: object[]) => events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join('')
const stream = (response: ServerResponse, text: string) => {
  response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' })
  response.write(text)
}
type ServerResponse = Received['response']

interface ErrorBody {
  type?: string
  error: { message: string; code?: unknown }
}

describe('a call', () => {
  it.each([
    ['openai', chat, '/v1/chat/completions', 'authorization', `Bearer ${providerKey}`],
    ['openai', '/openai/v1/responses', '/v1/responses', 'authorization', `Bearer ${providerKey}`],
    ['anthropic', `${messages}?beta=true`, '/v1/messages?beta=true', 'x-api-key', providerKey],
    ['anthropic', `${messages}/count_tokens`, '/v1/messages/count_tokens', 'x-api-key', providerKey],
    ['gemini', `${generate}&key=x`, '/v1beta/models/m-1:streamGenerateContent?alt=sse', 'x-goog-api-key', providerKey],
  ])('of %s goes on byte for byte, with the key of the provider: %s', async (_, path, passed, header, value) => {
    const bytes = Buffer.from('{"model": "m-1",\n "n": 1.0, "t": "\u00e9\\u00e9"}  ')
    answer = ({ response }) =>
      void response.writeHead(200, { 'content-type': 'application/json', 'x-request-id': 'r-1' }).end(bytes)
    const own = { 'anthropic-beta': 'a,b', 'content-type': 'application/json' }
    for (const credentials of [
      { authorization: `Bearer ${key}` },
      { 'x-api-key': key },
      { 'x-goog-api-key': key },
    ] as Record<string, string>[]) {
      const reply = await send({ path, headers: { ...own, ...credentials }, body: bytes.toString() })
      expect(reply.status).toBe(200)
      expect(reply.headers.get('x-request-id')).toBe('r-1')
      expect(Buffer.from(await reply.arrayBuffer())).toEqual(bytes)
      const received = provider.received.at(-1)!
      expect(received).toMatchObject({ method: 'POST', path: passed, body: bytes.toString() })
      expect(received.headers).toMatchObject({ ...own, [header]: value })
      expect(JSON.stringify(received.headers)).not.toContain(key)
    }
  })

  it('is sent again on a new connection, once, if the provider closed the idle one that it was sent on', async () => {
    const used = new Set<unknown>()
    answer = ({ response }) => {
      if (used.has(response.socket)) return void response.socket?.resetAndDestroy()
      used.add(response.socket)
      response.end('{}')
    }
    const statusOf = async () => {
      const reply = await send({ path: chat })
      await reply.text()
      return reply.status
    }
    expect([await statusOf(), await statusOf()]).toEqual([200, 200])
    expect(provider.received).toHaveLength(3)
    expect(await statusOf()).toBe(200)
    answer = ({ response }) => void response.socket?.resetAndDestroy()
    expect(await statusOf()).toBe(502)
    expect(provider.received).toHaveLength(6)
    expect(await statusOf()).toBe(502)
    expect(provider.received).toHaveLength(7)
  })

  it.each<[string, number, Sent]>([
    ['no key', 401, { path: chat, headers: {} }],
    ['a wrong key', 401, { path: messages, headers: { 'x-api-key': 'wrong' } }],
    ['another agent', 403, { path: chat, headers: { authorization: 'Bearer {key}', 'wardline-instance': 'other' } }],
    ['no agent', 400, { path: generate, headers: { 'x-goog-api-key': adminKey } }],
    ['an invalid agent', 400, { path: chat, headers: { 'x-api-key': adminKey, 'wardline-instance': 'A B' } }],
    ['another route', 404, { path: '/openai/v1/files' }],
    ['a route with ..', 404, { path: '/gemini/v1beta/models/..%2f..%2fx:generateContent' }],
    ['another method', 404, { path: chat, method: 'DELETE' }],
  ])('with %s is refused with %i in the format of the provider', async (_, status, sent) => {
    const headers =
      sent.headers && Object.fromEntries(Object.entries(sent.headers).map(([n, v]) => [n, v.replace('{key}', key)]))
    const reply = await send({ ...sent, ...(headers ? { headers } : {}) })
    expect(reply.status).toBe(status)
    const body = (await reply.json()) as ErrorBody
    expect(typeof body.error.message).toBe('string')
    if (sent.path.startsWith('/anthropic')) expect(body.type).toBe('error')
    if (sent.path.startsWith('/gemini')) expect(body.error.code).toBe(status)
    expect(provider.received).toEqual([])
  })

  it('registers its agent, and leaves one that sends heartbeats as it is', async () => {
    await (await send({ path: chat })).text()
    const { body } = await service.call<InstanceDetail>('GET', '/api/instances/bot')
    expect(body).toMatchObject({ id: 'bot', name: 'bot', status: 'active' })
    await service.call('POST', '/api/heartbeat', { key, body: { instance_id: 'bot', name: 'Bot', agent_type: 'x' } })
    service.clock.advance(60_000)
    await (await send({ path: chat })).text()
    const later = await service.call<InstanceDetail>('GET', '/api/instances/bot')
    expect(later.body).toMatchObject({ name: 'Bot' })
    expect(Date.parse(later.body.last_heartbeat)).toBe(service.clock.now() - 60_000)
  })

  it('becomes an event with its usage and without its content', async () => {
    const secret = 'a sentence of the user'
    answer = ({ response }) => {
      stream(response, sse({ choices: [{ delta: { content: secret } }] }))
      response.end(
        sse({ choices: [{ delta: { tool_calls: [{ function: { name: 'send_email' } }] } }] }) +
          sse({ choices: [{ delta: {}, finish_reason: 'tool_calls' }] }) +
          sse({ choices: [], usage: { prompt_tokens: 12, completion_tokens: 3 } }) +
          'data: [DONE]\n\n',
      )
    }
    await (await send({ path: chat, body: `{"model":"m-1","messages":["${secret}"]}` })).text()
    const event = await lastCall()
    expect(event).toMatchObject({
      by_service: true,
      instance_id: 'bot',
      severity: 'info',
      metadata: {
        upstream: 'openai',
        model: 'm-1',
        status: 200,
        end: 'complete',
        input_tokens: 12,
        output_tokens: 3,
        finish: 'tool_calls',
        tools: ['send_email'],
      },
    })
    expect(JSON.stringify(event)).not.toContain(secret)
  })

  it.each<[string, string, string, object]>([
    [
      'anthropic',
      messages,
      sse(
        {
          type: 'message_start',
          message: { usage: { input_tokens: 5, cache_read_input_tokens: 7, output_tokens: 1 } },
        },
        { type: 'content_block_start', content_block: { type: 'tool_use', name: 'bash' } },
        { type: 'message_delta', delta: {}, usage: { output_tokens: 20 } },
        { type: 'message_delta', delta: { stop_reason: 'tool_use' }, usage: { output_tokens: 41 } },
      ),
      { input_tokens: 12, output_tokens: 41, finish: 'tool_use', tools: ['bash'] },
    ],
    [
      'openai responses',
      '/openai/v1/responses',
      sse({
        type: 'response.completed',
        response: {
          object: 'response',
          status: 'completed',
          usage: { input_tokens: 9, output_tokens: 8 },
          output: [{ type: 'function_call', name: 'search' }],
        },
      }),
      { input_tokens: 9, output_tokens: 8, finish: 'completed', tools: ['search'] },
    ],
    [
      'gemini',
      generate,
      sse(
        { usageMetadata: { promptTokenCount: 4, candidatesTokenCount: 1 } },
        {
          candidates: [{ finishReason: 'STOP', content: { parts: [{ functionCall: { name: 'pay' } }] } }],
          usageMetadata: { promptTokenCount: 4, candidatesTokenCount: 6, thoughtsTokenCount: 10 },
        },
      ),
      { input_tokens: 4, output_tokens: 16, finish: 'STOP', tools: ['pay'] },
    ],
  ])('of %s has the usage that the provider counts, in whatever pieces it arrives', async (_, path, text, usage) => {
    for (const size of [1, 7, 100_000]) {
      answer = ({ response }) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' })
        for (let at = 0; at < text.length; at += size) response.write(text.slice(at, at + size))
        response.end()
      }
      expect(await (await send({ path })).text()).toBe(text)
      expect((await lastCall()).metadata).toMatchObject(usage)
    }
  })
})

describe('the stop', () => {
  it.each([
    ['openai', chat],
    ['anthropic', messages],
    ['gemini', generate],
  ])('refuses the calls of a suspended agent with its reason until the resume: %s', async (_, path) => {
    await (await send({ path })).text()
    await kill()
    const reply = await send({ path })
    expect(reply.status).toBe(403)
    expect(((await reply.json()) as ErrorBody).error.message).toContain('Leak')
    expect(provider.received).toHaveLength(1)
    await resume()
    expect((await send({ path })).status).toBe(200)
  })

  it.each([
    ['openai', chat, /"error"/],
    ['anthropic', messages, /event: error\ndata: \{"type":"error"/],
    ['gemini', generate, /"PERMISSION_DENIED"/],
  ])('cuts an open stream with an error, and closes the upstream: %s', async (_, path, end) => {
    answer = ({ response }) => stream(response, 'data: {"half":')
    const reply = await send({ path })
    const reader = reply.body!.getReader()
    let text = Buffer.from((await reader.read()).value!).toString()
    const read = (async () => {
      for (let part = await reader.read(); !part.done; part = await reader.read()) text += Buffer.from(part.value)
    })()
    await kill()
    // The body breaks off: no client takes it for a finished answer.
    await expect(read).rejects.toThrow()
    expect(text).toMatch(end)
    await provider.received[0]!.closed
    await expect.poll(async () => (await calls()).length).toBe(1)
    expect((await lastCall()).metadata).toMatchObject({ end: 'cut', status: 200 })
  })

  it('cuts a call that waits for its first byte', async () => {
    let asked = () => {}
    const isAsked = new Promise<void>((resolve) => (asked = resolve))
    answer = () => asked()
    const reply = send({ path: messages })
    await isAsked
    await kill()
    expect((await reply).status).toBe(403)
    await provider.received[0]!.closed
  })

  it('leaves the calls of other agents open', async () => {
    const { key: other } = await service.createKey('agent', ['other'])
    answer = ({ response }) => stream(response, 'data: 1\n\n')
    const reply = await send({ path: chat, headers: { authorization: `Bearer ${other}` } })
    const reader = reply.body!.getReader()
    await reader.read()
    await (await send({ path: chat })).body!.getReader().read()
    await kill()
    provider.received[0]!.response.end('data: 2\n\n')
    expect(Buffer.from((await reader.read()).value!).toString()).toBe('data: 2\n\n')
    expect((await reader.read()).done).toBe(true)
  })

  it('refuses calls while nobody knows whether the agent is suspended', async () => {
    const read = vi.spyOn(service.services.controlStates, 'readStored').mockRejectedValue(new Error('away'))
    expect((await send({ path: chat })).status).toBe(503)
    expect(provider.received).toEqual([])
    read.mockRestore()
    expect((await send({ path: chat })).status).toBe(200)
  })
})

describe('faults', () => {
  it('of an upstream are errors in its format, without its key', async () => {
    const away = await send({ path: '/away/v1/chat/completions' })
    expect([away.status, ((await away.json()) as ErrorBody).error.message]).toEqual([
      502,
      'The upstream away does not answer.',
    ])
    answer = ({ response }) => void response.writeHead(401).end(`wrong key ${providerKey}`)
    const refused = await send({ path: messages })
    expect(refused.status).toBe(502)
    expect(await refused.text()).not.toContain(providerKey)
    answer = ({ response }) => void response.writeHead(307, { location: 'http://127.0.0.1:1/' }).end()
    expect((await send({ path: messages, method: 'POST' })).status).toBe(502)
    expect(service.logged.join('')).not.toContain(providerKey)
  })

  it('of an upstream that lies about the length break the answer off', async () => {
    answer = ({ response }) => {
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': '100' })
      response.write('{')
      setImmediate(() => response.destroy())
    }
    const reply = await send({ path: chat })
    await expect(reply.text()).rejects.toThrow()
    await expect.poll(async () => (await calls()).length).toBe(1)
    expect((await lastCall()).metadata).toMatchObject({ end: 'broken' })
  })

  it('of an upstream that breaks off after much at once pass on what came, with its usage', async () => {
    const text = `data: ${'a'.repeat(60 * 1024)}\n\n${sse({ usage: { prompt_tokens: 7, completion_tokens: 9 } })}`
    answer = ({ response }) => {
      stream(response, '')
      response.write(text, () => response.destroy())
    }
    const reply = await send({ path: chat })
    await expect(reply.text()).rejects.toThrow()
    await expect.poll(async () => (await calls()).length).toBe(1)
    expect((await lastCall()).metadata).toMatchObject({ end: 'broken', input_tokens: 7, output_tokens: 9 })
  })

  it('pass on the errors of the provider', async () => {
    answer = ({ response }) =>
      void response.writeHead(529, { 'content-type': 'application/json', 'retry-after': '3' }).end('{"type":"error"}')
    const reply = await send({ path: messages })
    expect([reply.status, reply.headers.get('retry-after'), await reply.text()]).toEqual([529, '3', '{"type":"error"}'])
  })

  it('close the upstream when the client leaves', async () => {
    const leave = new AbortController()
    answer = ({ response }) => stream(response, 'data: 1\n\n')
    const reply = await send({ path: messages, signal: leave.signal })
    await reply.body!.getReader().read()
    leave.abort()
    await provider.received[0]!.closed
    await expect.poll(async () => (await calls()).length).toBe(1)
    expect((await lastCall()).metadata).toMatchObject({ end: 'left' })
  })

  it('refuse a body that is too large', async () => {
    const request = startRequest(`http://127.0.0.1:${gateway.port}${chat}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-length': String(33 * 1024 * 1024) },
    })
    request.on('error', () => {})
    request.flushHeaders()
    const [response] = await once(request, 'response')
    expect(response.statusCode).toBe(413)
    request.destroy()
  })

  it('answer a WebSocket so that the client goes on without one', async () => {
    const socket = connect(gateway.port, '127.0.0.1')
    socket.write(
      'GET /openai/v1/responses HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-key: x\r\n\r\n',
    )
    const [bytes] = await once(socket, 'data')
    expect(String(bytes)).toMatch(/^HTTP\/1\.1 426 /)
    socket.destroy()
  })
})

describe('a suspension of an agent that calls models', () => {
  const list = async () =>
    (await service.call<{ suspensions: Suspension[] }>('GET', '/api/instances/bot/suspensions')).body.suspensions
  const lever = async () => {
    const { body } = await service.call<{ levers: Lever[] }>('GET', '/api/instances/bot')
    return body.levers.find(({ kind }) => kind === 'model')
  }

  it('records that its calls are refused, which changes no state, and proves the lever', async () => {
    expect((await send({ path: chat })).status).toBe(200)
    await vi.waitFor(async () => expect(await lever()).toEqual({ kind: 'model', last_proven_at: null }))
    await kill()
    await vi.waitFor(async () => expect((await list())[0]?.enforced_by).toBe('gateway'))
    const [suspension] = await list()
    expect(suspension).toMatchObject({ state: 'pending', held_processes: null })
    expect(await lever()).toEqual({ kind: 'model', last_proven_at: suspension!.enforced_at })
  })

  it('is recorded with the first refused call when the gateway has started since', async () => {
    await service.call('POST', '/api/heartbeat', { body: { instance_id: 'bot', name: 'bot' } })
    await kill()
    expect((await list())[0]?.enforced_by).toBeNull()
    expect((await send({ path: chat })).status).toBe(403)
    await vi.waitFor(async () => expect((await list())[0]?.enforced_by).toBe('gateway'))
    await resume()
    expect((await send({ path: chat })).status).toBe(200)
    await kill()
    await vi.waitFor(async () => expect((await list())[0]).toMatchObject({ version: 3, enforced_by: 'gateway' }))
  })
})

describe('the metrics', () => {
  const samples = async () => {
    const text = await service.deps.metrics.registry.metrics()
    const lines = text.split('\n').filter((line) => /^wardline_gateway_\w+(_total|_calls|_count)\{.* [^0]/.test(line))
    return Object.fromEntries(lines.map((line) => /^wardline_gateway_(\w+\{.*\}) (\S+)$/.exec(line)!.slice(1)))
  }

  it('count calls by outcome, and none by a text of the caller', async () => {
    answer = ({ response }) =>
      void response
        .writeHead(200, { 'content-type': 'application/json' })
        .end(JSON.stringify({ usage: { prompt_tokens: 7, completion_tokens: 3 } }))
    for (const model of ['m-1', 'm-2']) await (await send({ path: chat, body: JSON.stringify({ model }) })).text()
    answer = ({ response }) => void response.writeHead(529).end('{}')
    await (await send({ path: messages })).text()
    await send({ path: '/away/v1/chat/completions' })
    await send({ path: `${chat}/other` })
    answer = ({ response }) => stream(response, 'data: 1\n\n')
    const reader = (await send({ path: chat })).body!.getReader()
    await reader.read()
    expect(await samples()).toMatchObject({ 'open_calls{upstream="openai"}': '1' })
    await kill()
    await expect(reader.read().then(() => reader.read())).rejects.toThrow()
    await send({ path: chat })
    await expect.poll(samples).toEqual({
      'calls_total{upstream="openai",outcome="complete"}': '2',
      'calls_total{upstream="anthropic",outcome="upstream_error"}': '1',
      'calls_total{upstream="away",outcome="broken"}': '1',
      'calls_total{upstream="openai",outcome="refused"}': '1',
      'calls_total{upstream="openai",outcome="cut"}': '1',
      'calls_total{upstream="openai",outcome="suspended"}': '1',
      'tokens_total{upstream="openai",price="none",direction="input"}': '14',
      'tokens_total{upstream="openai",price="none",direction="output"}': '6',
      'first_byte_seconds_count{upstream="openai"}': '3',
      'first_byte_seconds_count{upstream="anthropic"}': '1',
    })
  })
})
