import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import { sharedSettings, useServers } from '../cluster.ts'
import { createKey, createKeyDecoy, newInstance } from '../fleet.ts'
import { isExternal, type Service, startService, startToExit, until } from '../service.ts'
import { startTcpProxy, type TcpProxy } from '../tcp-proxy.ts'

/** Streams of the provider that are open. */
const open = new Set<ServerResponse>()
const provider = createServer((request, response) => {
  request.resume()
  response.writeHead(200, { 'content-type': 'text/event-stream' }).write('data: {"half":1}\n\n')
  open.add(response)
  response.on('close', () => open.delete(response))
})
const folder = mkdtempSync(join(tmpdir(), 'wardline-e2e-gateway-'))
const file = join(folder, 'gateway.yaml')

let database: TcpProxy
let service: Service
/** Processes of the gateway alone, with each value of WARDLINE_GATEWAY_FAIL. */
let closed: Service
let opened: Service
const servers = useServers({
  async open() {
    await once(provider.listen(0, '127.0.0.1'), 'listening')
    const url = `http://127.0.0.1:${(provider.address() as AddressInfo).port}/v1`
    const upstreams = { openai: { kind: 'openai', url, key_env: 'PROVIDER_KEY' } }
    writeFileSync(
      file,
      JSON.stringify({ upstreams, budgets: [{ for: { instances: ['*'] }, per: 'day', tokens: 1e9 }] }),
    )
    const settings = await sharedSettings(servers)
    database = await startTcpProxy(settings.DATABASE_URL)
    const env = {
      ...settings,
      DATABASE_URL: database.through(settings.DATABASE_URL),
      WARDLINE_GATEWAY_FILE: file,
      PROVIDER_KEY: 'the-key-of-the-provider',
    }
    service = await startService({ env: settings })
    ;[closed, opened] = await Promise.all([
      startService({ env, command: 'gateway' }),
      startService({ env: { ...env, WARDLINE_GATEWAY_FAIL: 'open' }, command: 'gateway' }),
    ])
  },
  async close() {
    const processes = [service, closed, opened]
    await Promise.all(processes.map((each) => each?.stop())).finally(() => database?.close())
  },
})
beforeAll(() => () => {
  provider.closeAllConnections()
  provider.close()
  rmSync(folder, { recursive: true })
})

async function newAgent(): Promise<{ id: string; key: string }> {
  const id = await newInstance(service)
  const key = await createKey(service, { scope: 'agent', instances: [id] })
  return { id, key }
}
const kill = (id: string) => service.call('POST', `/api/kill/${id}`, { body: { reason: 'Leak' } })
const resume = (id: string) => service.call('POST', `/api/resume/${id}`)

const call = (gateway: Service, key: string, content = '') =>
  fetch(`${gateway.baseUrl}/openai/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'm-1', stream: true, max_tokens: 10, content }),
  })

/** Status of a call, whose stream the client leaves; the message of an error. */
async function outcome(gateway: Service, key: string): Promise<string> {
  const reply = await call(gateway, key)
  if (reply.status === 200) {
    await reply.body!.cancel()
    return '200'
  }
  const { error } = (await reply.json()) as { error: { message: string; code: string } }
  expect(error.code).toBe(`wardline_${reply.status}`)
  return `${reply.status} ${error.message}`
}
const cannotCheck = '503 Wardline cannot check now whether this agent may go on; retry in a moment.'
const suspended = '403 This agent is suspended by Wardline: Leak. An operator has to resume it.'

test('separate gateways answer a drill over the bus, each with its open calls', async () => {
  const { id, key } = await newAgent()
  const replies = await Promise.all([closed, opened, opened].map((gateway) => call(gateway, key)))
  await until(
    'the calls are a way to hold the agent',
    () => service.call<{ levers: { kind: string }[] }>('GET', `/api/instances/${id}`),
    ({ body: { levers } }) => levers.some(({ kind }) => kind === 'model'),
  )
  const started = await service.call<{ id: string }>('POST', '/api/drills', { body: { selector: { instances: [id] } } })
  const { body } = await until(
    'the drill is complete',
    () => service.call<{ state: string }>('GET', `/api/drills/${started.body.id}`),
    ({ body: { state } }) => state === 'complete',
  )
  expect(body).toMatchObject({ model_count: 1, model_calls: 3, silent: [] })
  await Promise.all(replies.map(({ body: stream }) => stream!.cancel()))
})

test('a kill through the service cuts the streams in a separate process of the gateway', async () => {
  const { id, key } = await newAgent()
  const reply = await call(closed, key)
  expect(reply.status).toBe(200)
  let text = ''
  const read = (async () => {
    for await (const part of reply.body!.pipeThrough(new TextDecoderStream())) text += part
  })()
  await until(
    'the first half',
    () => text,
    (seen) => seen.includes('half'),
  )
  const end = expect(read).rejects.toThrow()
  await kill(id)
  await end
  expect(text).toMatch(/data: \{"error":\{"message":"This agent is suspended by Wardline: Leak\./)
  await until(
    'the provider sees it',
    () => open.size,
    (count) => count === 0,
  )
  const { body } = await until(
    'the suspension is enforced',
    () => service.call<{ suspensions: { enforced_by: string | null }[] }>('GET', `/api/instances/${id}/suspensions`),
    ({ body: { suspensions } }) => suspensions[0]?.enforced_by !== null,
  )
  expect(body.suspensions[0]!.enforced_by).toBe('gateway')
  expect(await outcome(closed, key)).toBe(suspended)
  await resume(id)
  expect(await outcome(closed, key)).toBe('200')
  const events = await until(
    'the events of the calls',
    () =>
      service.call<{ events: { metadata: object }[] }>('GET', `/api/events?event_type=model_call&instance_id=${id}`),
    ({ body: { events } }) => events.length === 2,
  )
  expect(events.body.events.map(({ metadata }) => metadata)).toMatchObject([{ end: 'left' }, { end: 'cut' }])
})

test('a separate process finds decoys in prompts, also those that were planted since it started', async () => {
  const { id, key } = await newAgent()
  const decoy = await createKeyDecoy(service, id)
  await until(
    'the hit',
    async () => {
      await (await call(closed, key, `The key is ${decoy.key}.`)).body?.cancel()
      const path = `/api/events?event_type=honeypot_triggered&instance_id=${id}`
      return (await service.call<{ events: object[] }>('GET', path)).body.events.length
    },
    (count) => count > 0,
  )
})

test('the process answers health, readiness and metrics on its port, and has no API', async () => {
  expect(await closed.call('GET', '/healthz', { key: null })).toMatchObject({ status: 200, body: { ok: true } })
  expect(await closed.call('GET', '/readyz', { key: null })).toMatchObject({ status: 200, body: { database: 'ok' } })
  expect((await closed.call('GET', '/metrics', { key: null })).status).toBe(401)
  expect((await closed.call('GET', '/metrics', { key: (await newAgent()).key })).status).toBe(403)
  expect((await closed.call('GET', '/metrics')).text).toContain('wardline_')
  expect((await closed.call('GET', '/api/status')).status).toBe(404)
})

test('while the database is away, closed refuses all calls; open passes on those of agents that it knows', async () => {
  const [known, heldBefore, killedLater, never] = await Promise.all([newAgent(), newAgent(), newAgent(), newAgent()])
  for (const gateway of [closed, opened]) {
    for (const { key } of [known, killedLater]) expect(await outcome(gateway, key)).toBe('200')
  }
  await kill(heldBefore.id)
  for (const gateway of [closed, opened]) expect(await outcome(gateway, heldBefore.key)).toBe(suspended)
  // The service itself reaches its database, and its kills still arrive by Redis.
  database.swallow()
  await until(
    'the outage',
    () => outcome(closed, known.key),
    (text) => text === cannotCheck,
  )
  expect(await outcome(opened, known.key)).toBe('200')
  for (const gateway of [closed, opened]) {
    expect(await outcome(gateway, heldBefore.key), 'known before').toBe(suspended)
    expect(await outcome(gateway, never.key)).toBe(cannotCheck)
    expect((await gateway.call('GET', '/healthz', { key: null })).status).toBe(200)
    expect((await gateway.call('GET', '/readyz', { key: null })).status).toBe(503)
  }
  const reply = await call(opened, killedLater.key)
  expect(reply.status).toBe(200)
  const end = expect(reply.text()).rejects.toThrow()
  await kill(killedLater.id)
  await end
  for (const gateway of [closed, opened]) {
    await until(
      'the kill',
      () => outcome(gateway, killedLater.key),
      (text) => text === suspended,
    )
  }
  database.heal()
  for (const gateway of [closed, opened]) {
    await until(
      'the end of the outage',
      () => outcome(gateway, never.key),
      (text) => text === '200',
    )
    expect(await outcome(gateway, known.key)).toBe('200')
    expect(await outcome(gateway, heldBefore.key)).toBe(suspended)
  }
  await resume(heldBefore.id)
  for (const gateway of [closed, opened]) expect(await outcome(gateway, heldBefore.key)).toBe('200')
})

test('while PostgreSQL itself is down, suspensions that are known stay in force', async () => {
  const [known, held] = await Promise.all([newAgent(), newAgent()])
  expect(await outcome(opened, known.key)).toBe('200')
  await kill(held.id)
  expect(await outcome(opened, held.key)).toBe(suspended)
  await servers.postgres.kill()
  await until(
    'the outage',
    () => outcome(opened, known.key),
    (text) => text === '200',
  )
  expect(await outcome(opened, held.key)).toBe(suspended)
  expect(await outcome(closed, known.key)).toBe(cannotCheck)
  await servers.postgres.start()
  await until(
    'the end of the outage',
    () => outcome(closed, known.key),
    (text) => text === '200',
  )
  expect(await outcome(opened, held.key)).toBe(suspended)
})

test('a process of the gateway ends on SIGTERM, and cuts no stream that ends in time', async () => {
  const { key } = await newAgent()
  const reply = await call(opened, key)
  const text = reply.text()
  const [response] = [...open]
  const exit = opened.terminate()
  await until(
    'the port is closed',
    () =>
      opened.call('GET', '/healthz').then(
        () => false,
        () => true,
      ),
    Boolean,
  )
  response!.end('data: [DONE]\n\n')
  expect(await text).toContain('[DONE]')
  expect(await exit).toEqual({ code: 0, signal: null })
  await opened.start()
})

test.skipIf(isExternal)('on SQLite the gateway does not start alone, and says what to set', async () => {
  const env = { WARDLINE_GATEWAY_PORT: '0', WARDLINE_GATEWAY_FILE: file, PROVIDER_KEY: 'x' }
  const { code, output } = await startToExit(env, { command: 'gateway' })
  expect(code).toBe(78)
  expect(output).toBe(
    'Invalid configuration: `wardline gateway` needs PostgreSQL (DATABASE_URL), because one process owns an SQLite database: set WARDLINE_GATEWAY_PORT on the service instead.\n',
  )
})
