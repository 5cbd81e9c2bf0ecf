import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Drill, Lever } from '@wardline/contract'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { dayMs, hourMs } from '../../clock.ts'
import { startProvider } from '../../testing/model-provider.ts'
import { openTestService, type TestService } from '../../testing/service.ts'
import { type Gateway, openGateway } from '../gateway/gateway.ts'
import { drillModels } from './model-drills.ts'
import { finishDrills } from './report.ts'

type Provider = Awaited<ReturnType<typeof startProvider>>

let folder: string
let provider: Provider
let service: TestService
let gateway: Gateway | undefined

beforeEach(async () => {
  gateway = undefined
  folder = mkdtempSync(join(tmpdir(), 'wardline-model-drills-'))
  // The answers do not end.
  provider = await startProvider(({ response }) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' }).write('data: {}\n\n')
  })
  writeFileSync(join(folder, 'key'), 'the-key-of-the-provider', { mode: 0o600 })
  const upstreams = { openai: { kind: 'openai', url: `${provider.url}/v1`, key_file: join(folder, 'key') } }
  writeFileSync(join(folder, 'gateway.yaml'), JSON.stringify({ upstreams }))
  const env = { WARDLINE_GATEWAY_PORT: '0', WARDLINE_GATEWAY_FILE: join(folder, 'gateway.yaml') }
  service = await openTestService({ env })
})
afterEach(async () => {
  await gateway?.close(0)
  await service[Symbol.asyncDispose]()
  await provider[Symbol.asyncDispose]()
  rmSync(folder, { recursive: true })
})

/** Calls a model as a new or known agent, and waits until the call is recorded as a way to hold it. */
async function callModel(id: string): Promise<void> {
  const { key } = await service.createKey('agent', [id])
  const reply = await fetch(`http://127.0.0.1:${gateway!.port}/openai/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}` },
    body: '{"model":"m-1","stream":true}',
  })
  expect(reply.status).toBe(200)
  await expect.poll(async () => (await leversOf(id)).map(({ kind }) => kind)).toContain('model')
}
const leversOf = async (id: string) =>
  (await service.call<{ levers: Lever[] }>('GET', `/api/instances/${id}`)).body.levers
const provenAt = async (id: string) => (await leversOf(id)).find(({ kind }) => kind === 'model')!.last_proven_at
const now = () => new Date(service.clock.now()).toISOString()
const start = async () =>
  (await service.call<Drill>('POST', '/api/drills', { body: { selector: { all: true } } })).body.id
const read = async (id: string) => (await service.call<Drill>('GET', `/api/drills/${id}`)).body
async function finished(id: string, ms: number): Promise<Drill> {
  await service.services.drillSender.ask()
  service.clock.advance(ms)
  await finishDrills(service.deps, service.services.openStreams)
  return read(id)
}

it('answers for the agents that call models, with the calls that a suspension would cut', async () => {
  gateway = await openGateway(service.deps, service.services)
  for (const id of ['busy', 'busy', 'idle']) await callModel(id)
  await service.call('POST', '/api/heartbeat', { body: { instance_id: 'other', name: 'other' } })
  expect(await provenAt('busy')).toBeNull()
  service.clock.advance(7)
  const id = await start()
  await expect.poll(() => read(id)).toMatchObject({ model_count: 2, model_calls: 3, model_ms: 0 })
  expect([await provenAt('busy'), await provenAt('idle')]).toEqual([now(), now()])
  // A second gateway may still answer, and each answers once.
  await service.services.modelDrills.run()
  expect(await finished(id, 1_999)).toMatchObject({ state: 'running', model_calls: 3 })
  expect(await finished(id, 1_001)).toMatchObject({
    ...{ state: 'complete', model_count: 2, model_calls: 3, model_ms: 0, silent: [], silent_count: 0 },
    missing_count: 3,
  })
  const listed = await service.call<{ drills: Drill[] }>('GET', '/api/drills')
  expect(listed.body.drills[0]).toMatchObject({ model_count: 2, model_calls: 3, silent_count: 0 })
  expect(listed.body.drills[0]).not.toHaveProperty('silent')
})

it('answers from the database what it did not hear over the bus', async () => {
  gateway = await openGateway(service.deps, service.services)
  await callModel('busy')
  await service.execute(
    `insert into drills (id, actor, selector, selected, requested_at, ready_at)
     values ('0198c2f4-7a10-7c3e-9d52-0a6f3e8b1c44', 'k', '{"all":true}', 1, ${service.clock.now()}, ${service.clock.now()})`,
  )
  await service.execute(
    `insert into drill_asks (drill_id, instance_id) values ('0198c2f4-7a10-7c3e-9d52-0a6f3e8b1c44', 'busy')`,
  )
  service.clock.advance(900)
  await service.services.modelDrills.run()
  expect(await read('0198c2f4-7a10-7c3e-9d52-0a6f3e8b1c44')).toMatchObject({ model_count: 1, model_ms: 900 })
})

it('is a silent lever if no gateway answers, until the last call is a day old', async () => {
  gateway = await openGateway(service.deps, service.services)
  await callModel('busy')
  await gateway.close(0)
  gateway = undefined
  const id = await start()
  expect(await finished(id, 29_999)).toMatchObject({ state: 'running', silent: [], model_count: 0 })
  expect(await finished(id, 4_001)).toMatchObject({
    ...{ state: 'complete', model_count: 0, model_ms: null },
    ...{ silent: [{ instance_id: 'busy', lever: 'model' }], silent_count: 1 },
  })
  expect(await provenAt('busy')).toBeNull()
  service.clock.advance(dayMs)
  expect(await finished(await start(), 34_000)).toMatchObject({ state: 'complete', silent_count: 0 })
})

it('is not silent for an agent that calls its first model during the drill', async () => {
  gateway = await openGateway(service.deps, service.services)
  await callModel('busy')
  await service.call('POST', '/api/heartbeat', { body: { instance_id: 'a-late', name: 'a-late' } })
  const id = await start()
  await expect.poll(() => read(id)).toMatchObject({ model_count: 1 })
  await callModel('a-late')
  expect(await finished(id, 34_000)).toMatchObject({ state: 'complete', model_count: 1, silent_count: 0 })
})

it('is drilled once per period, unless drills are off', async () => {
  gateway = await openGateway(service.deps, service.services)
  await callModel('busy')
  const drilled = async (deps = service.deps) => {
    await drillModels(deps)
    await service.services.modelDrills.run()
    return provenAt('busy')
  }
  expect(await drilled({ ...service.deps, config: { ...service.deps.config, drillHours: null } })).toBeNull()
  const first = now()
  expect(await drilled()).toBe(first)
  service.clock.advance(20 * hourMs)
  expect(await drilled()).toBe(first)
  await callModel('busy')
  service.clock.advance(4 * hourMs + 1)
  expect(await drilled()).toBe(now())
})
