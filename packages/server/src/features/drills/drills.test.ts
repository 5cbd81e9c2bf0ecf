import { createPublicKey, verify } from 'node:crypto'
import type { Drill, DrillMessage, InstanceDetail, KeyCreated, Lever } from '@wardline/contract'
import { describe, expect, it } from 'vitest'
import { manualClock } from '../../testing/clock.ts'
import { listenOnFreePort, openControlStream } from '../../testing/control-stream.ts'
import { openTestService, type TestService } from '../../testing/service.ts'
import { forgetDrills } from './drills.ts'
import { finishDrills } from './report.ts'

const beat = (service: TestService, id: string, more: object = {}) =>
  service.call('POST', '/api/heartbeat', { body: { instance_id: id, name: id, ...more } })
const start = (service: TestService, selector: object = { all: true }) =>
  service.call<Drill & { error: string }>('POST', '/api/drills', { body: { selector } })
const read = async (service: TestService, id: string) => (await service.call<Drill>('GET', `/api/drills/${id}`)).body
const answer = (service: TestService, id: string, nonce: unknown, key?: string) =>
  service.call<{ error: string }>('POST', `/api/instances/${id}/drill`, {
    body: { nonce },
    ...(key === undefined ? {} : { key }),
  })
const proven = async (service: TestService, id: string) =>
  (await service.call<InstanceDetail>('GET', `/api/instances/${id}`)).body.last_proven_stoppable_at

async function runJob(service: TestService): Promise<void> {
  await service.services.openStreams.write()
  await service.services.drillSender.ask()
  await finishDrills(service.deps, service.services.openStreams)
}

type Stream = Awaited<ReturnType<typeof openControlStream>>
const drillsOf = (stream: Stream) =>
  stream.messages().filter(({ action }) => action === 'drill') as unknown as DrillMessage[]
/** Waits for `count` drills on the stream, and resolves with the newest one. */
async function nextDrill(stream: Stream, count = 1): Promise<DrillMessage> {
  await expect.poll(() => drillsOf(stream).length).toBe(count)
  return drillsOf(stream).at(-1)!
}

const understanding = '?understands=drill'

it('sends a drill over the stream and records who answered and how fast', async () => {
  await using service = await openTestService()
  const url = await listenOnFreePort(service.app)
  await beat(service, 'agent-1')
  await using stream = await openControlStream(url, 'agent-1', understanding)
  // An agent may have a client that understands drills and another one that does not.
  await using plain = await openControlStream(url, 'agent-1')
  const before = plain.text()
  const controls: unknown[] = []
  service.deps.bus.onControl((message) => controls.push(message))

  const { status, body } = await start(service)
  expect(status).toBe(201)
  expect(body).toMatchObject({ state: 'running', selected: 1, answered: 0, missing: [], p50_ms: null })
  const drill = await nextDrill(stream)
  expect(Object.keys(drill)).toEqual(['action', 'instance_id', 'nonce', 'issued_at', 'signature_ed25519'])
  const [{ x = '' } = {}] = service.deps.controlSigner.keys.keys
  const key = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' })
  const text = `wardline-drill-v1\nagent-1\n${drill.nonce}\n${drill.issued_at}\n`
  expect(verify(null, Buffer.from(text), key, Buffer.from(drill.signature_ed25519, 'base64url'))).toBe(true)

  expect(await proven(service, 'agent-1')).toBeNull()
  service.clock.advance(40)
  expect((await answer(service, 'agent-1', drill.nonce)).body).toEqual({ ok: true })
  await runJob(service)
  const done = await read(service, body.id)
  expect(done).toMatchObject({ state: 'complete', asked: 1, answered: 1, missing: [], p50_ms: 40, p99_ms: 40 })
  const at = new Date(service.clock.now()).toISOString()
  expect(await proven(service, 'agent-1')).toBe(at)
  const list = await service.call<{ instances: object[] }>('GET', '/api/instances')
  const fleet = await service.call<{ instances: object[] }>('GET', '/api/fleet')
  for (const { body: shown } of [list, fleet])
    expect(shown.instances).toEqual([expect.objectContaining({ last_proven_stoppable_at: at })])
  expect((await service.call<{ drills: object[] }>('GET', '/api/drills')).body.drills).toHaveLength(1)
  // A drill is no control message, so other clients of the stream must not receive it.
  expect(controls).toEqual([])
  expect(plain.text()).toBe(before)
  expect(service.logged.join('\n')).not.toContain(drill.nonce)
})

it('accepts each nonce once, from its instance and within 30 seconds', async () => {
  await using service = await openTestService()
  const url = await listenOnFreePort(service.app)
  for (const id of ['agent-1', 'agent-2']) await beat(service, id)
  await using first = await openControlStream(url, 'agent-1', understanding)
  await using second = await openControlStream(url, 'agent-2', understanding)
  await start(service)
  const { nonce } = await nextDrill(first)
  const late = await nextDrill(second)
  const { key } = await service.createKey('agent', ['agent-2'])
  expect((await answer(service, 'agent-1', nonce, key)).status).toBe(403)
  for (const [id, wrong] of [
    ['agent-1', 'AAAAAAAAAAAAAAAAAAAAAA'],
    ['agent-2', nonce],
    ['agent-3', nonce],
  ] as const) {
    const { status, body } = await answer(service, id, wrong)
    expect([status, body.error]).toEqual([409, expect.stringContaining('nonce is not that of an open drill')])
  }
  for (const wrong of ['', 'a b', 7, 'a'.repeat(65), null])
    expect((await answer(service, 'agent-1', wrong)).status).toBe(400)
  // Concurrent answers share one commit.
  const answers = await Promise.all([1, 2, 3].map(() => answer(service, 'agent-1', nonce)))
  expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 409, 409])
  expect((await answer(service, 'agent-1', nonce)).status).toBe(409)
  service.clock.advance(30_001)
  expect((await answer(service, 'agent-2', late.nonce)).status).toBe(409)
  expect(await proven(service, 'agent-2')).toBeNull()
})

it('reports why an agent was not drilled, or that it did not answer', async () => {
  await using service = await openTestService()
  const url = await listenOnFreePort(service.app)
  await beat(service, 'gone')
  service.clock.advance(91_000)
  for (const id of ['deaf', 'old', 'mute']) await beat(service, id)
  await using old = await openControlStream(url, 'old')
  await using mute = await openControlStream(url, 'mute', understanding)
  const before = old.text()
  const { body } = await start(service)
  await nextDrill(mute)
  await runJob(service)
  expect(await read(service, body.id)).toMatchObject({ asked: 1, missing: [], missing_count: 0 })
  service.clock.advance(3_000)
  await runJob(service)
  const reasons = [
    { instance_id: 'deaf', reason: 'no_control_stream' },
    { instance_id: 'gone', reason: 'offline' },
    { instance_id: 'old', reason: 'does_not_understand' },
  ]
  expect(await read(service, body.id)).toMatchObject({ state: 'running', missing: reasons, missing_count: 3 })
  service.clock.advance(30_000)
  await runJob(service)
  expect(await read(service, body.id)).toMatchObject({
    state: 'complete',
    selected: 4,
    asked: 1,
    answered: 0,
    missing: [{ instance_id: 'mute', reason: 'no_answer' }, ...reasons],
    missing_count: 4,
    p50_ms: null,
    p99_ms: null,
  })
  expect(old.text()).toBe(before)
})

it('drills a suspended agent too', async () => {
  await using service = await openTestService()
  const url = await listenOnFreePort(service.app)
  await beat(service, 'agent-1')
  await using stream = await openControlStream(url, 'agent-1', understanding)
  await service.call('POST', '/api/kill/agent-1', { body: { reason: 'stop' } })
  await start(service, { instances: ['agent-1'] })
  const { nonce } = await nextDrill(stream)
  expect((await answer(service, 'agent-1', nonce)).status).toBe(200)
})

it('counts an acknowledged suspension as a proof, but not an acknowledged resume', async () => {
  await using service = await openTestService()
  await beat(service, 'agent-1')
  const ack = (version: number) => service.call('POST', '/api/instances/agent-1/ack', { body: { version } })
  await service.call('POST', '/api/kill/agent-1', { body: { reason: 'stop' } })
  await service.call('POST', '/api/resume/agent-1')
  await ack(1)
  expect(await proven(service, 'agent-1')).toBeNull()
  await ack(2)
  expect(await proven(service, 'agent-1')).toBeNull()
  await service.call('POST', '/api/kill/agent-1', { body: { reason: 'again' } })
  await ack(3)
  expect(await proven(service, 'agent-1')).toBe(new Date(service.clock.now()).toISOString())
})

it('selects by instance, by tag or all, and refuses an invalid selector with the reason', async () => {
  await using service = await openTestService()
  expect(await start(service)).toMatchObject({ status: 409 })
  await beat(service, 'agent-1', { tags: ['env:prod', 'team:a'] })
  await beat(service, 'agent-2', { tags: ['env:prod'] })
  await service.call('PUT', '/api/instances/agent-2/tags', { body: { tags: ['team:b'] } })
  for (const [selector, selected] of [
    [{ instances: ['agent-2'] }, 1],
    [{ tags: ['env:prod'] }, 2],
    [{ tags: ['env:prod', 'team:b'] }, 1],
    [{ all: true }, 2],
  ] as const)
    expect((await start(service, selector)).body).toMatchObject({ selected, selector })
  for (const selector of [
    {},
    { all: false },
    { all: true, tags: ['env:prod'] },
    { instances: [] },
    { instances: ['agent-1', 'agent-9'] },
    { instances: ['Agent'] },
    { tags: ['Env'] },
    { everything: true },
  ]) {
    const { status, body } = await start(service, selector)
    expect(status, JSON.stringify(selector)).toBe(400)
    expect(body.error).toMatch(/selector|agent-9/)
  }
  await start(service)
  expect(await start(service)).toMatchObject({ status: 503, headers: { 'retry-after': '30' } })
  const { key } = await service.createKey('viewer')
  expect((await service.call('POST', '/api/drills', { key, body: { selector: { all: true } } })).status).toBe(403)
  expect((await service.call('GET', '/api/drills/0198f000-0000-7000-8000-000000000000')).status).toBe(404)
})

it('keeps the newest 100 drills', async () => {
  await using service = await openTestService()
  await beat(service, 'agent-1')
  for (let count = 0; count < 103; count++) {
    await start(service)
    service.clock.advance(3_000)
    await runJob(service)
  }
  await forgetDrills(service.deps)
  const { body } = await service.call<{ drills: Drill[] }>('GET', '/api/drills?limit=100')
  expect(body.drills).toHaveLength(100)
  expect(await service.rows('select count(*) as count from drills')).toEqual([{ count: 100 }])
  expect(await service.rows('select count(*) as count from drill_asks')).toEqual([{ count: 0 }])
  expect(body.drills[0]).toMatchObject({ state: 'complete', missing_count: 1 })
})

it('completes a drill whose process crashed while it recorded the agents', async () => {
  await using service = await openTestService()
  await beat(service, 'agent-1')
  const { body } = await start(service)
  await service.execute('update drills set ready_at = null')
  service.clock.advance(30_000)
  await runJob(service)
  expect(await read(service, body.id)).toMatchObject({ state: 'running', missing: [] })
  service.clock.advance(30_000)
  await runJob(service)
  expect(await read(service, body.id)).toMatchObject({ state: 'complete', missing_count: 1 })
})

// Several processes are only supported on PostgreSQL.
if (process.env.TEST_ENGINE !== 'sqlite') {
  it('sends each drill once from a process that has the stream, and accepts the answer at any process', async () => {
    const clock = manualClock()
    await using one = await openTestService({ clock })
    await using other = await openTestService({ clock, dataDir: one.deps.config.dataDir })
    const urls = [await listenOnFreePort(one.app), await listenOnFreePort(other.app)] as const
    for (const id of ['agent-1', 'agent-2', 'both']) await beat(one, id)
    await using first = await openControlStream(urls[0], 'agent-1', understanding)
    await using second = await openControlStream(urls[1], 'agent-2', understanding)
    await using third = await openControlStream(urls[0], 'both', understanding)
    await using fourth = await openControlStream(urls[1], 'both', understanding)
    const { body } = await start(one)
    await Promise.all([runJob(one), runJob(other)])
    await nextDrill(first)
    const { nonce } = await nextDrill(second)
    expect((await answer(one, 'agent-2', nonce)).status).toBe(200)
    expect((await answer(other, 'agent-1', drillsOf(first)[0]!.nonce)).status).toBe(200)
    await expect.poll(() => [...drillsOf(third), ...drillsOf(fourth)].length).toBe(1)
    const [{ nonce: last }] = [...drillsOf(third), ...drillsOf(fourth)] as [DrillMessage]
    expect((await answer(one, 'both', last)).status).toBe(200)
    await runJob(other)
    expect(await read(other, body.id)).toMatchObject({ state: 'complete', asked: 3, answered: 3, missing: [] })
  })
}

it('drills a thousand agents at once and accepts all their answers', async () => {
  const agents = 1_000
  await using service = await openTestService({ env: { WARDLINE_QUOTA_STREAMS: 'none' } })
  const url = await listenOnFreePort(service.app)
  const ids = Array.from({ length: agents }, (_, n) => `agent-${n}`)
  await Promise.all(ids.map((id) => beat(service, id)))
  const streams = await Promise.all(ids.map((id) => openControlStream(url, id, understanding)))
  await service.services.openStreams.write()
  const { body } = await start(service)
  // On a busy machine, some answers may time out in the database.
  const answerUntilTaken = async (id: string, nonce: string): Promise<number> => {
    const { status } = await answer(service, id, nonce)
    return status >= 500 ? answerUntilTaken(id, nonce) : status
  }
  const answers = streams.map(async (stream, index) => answerUntilTaken(ids[index]!, (await nextDrill(stream)).nonce))
  expect([...new Set(await Promise.all(answers))]).toEqual([200])
  await runJob(service)
  expect(await read(service, body.id)).toMatchObject({ state: 'complete', asked: agents, answered: agents })
  for (const stream of streams) await stream[Symbol.asyncDispose]()
})

describe('the supervisor of an agent', () => {
  async function openSupervised() {
    const service = await openTestService()
    const url = await listenOnFreePort(service.app)
    const body = { scope: 'agent', instances: ['held'], supervises: true }
    const { key } = (await service.call<KeyCreated>('POST', '/api/keys', { body })).body
    await service.call('POST', '/api/heartbeat', {
      key,
      body: { instance_id: 'held', name: 'held', supervisor: { processes: 12, isolated: true } },
    })
    return {
      service,
      url,
      answers: (nonce: string, processes: number, unreachable: number, by?: string) =>
        service.call('POST', '/api/instances/held/drill', {
          key: by ?? key,
          body: { nonce, supervisor: { processes, unreachable } },
        }),
      processProven: async () =>
        (await service.call<{ levers: Lever[] }>('GET', '/api/instances/held')).body.levers.find(
          ({ kind }) => kind === 'process',
        )?.last_proven_at,
    }
  }

  it('answers beside its agent, which proves that it reaches the processes', async () => {
    const { service, url, answers, processProven } = await openSupervised()
    await using _ = service
    await using stream = await openControlStream(url, 'held', understanding)
    const { body } = await start(service)
    const { nonce } = await nextDrill(stream)
    await answer(service, 'held', nonce)
    await runJob(service)
    expect(await read(service, body.id)).toMatchObject({ state: 'running', answered: 1, supervisor_count: 0 })
    expect(await processProven()).toBeNull()
    // In one commit: only the first one counts.
    const both = await Promise.all([answers(nonce, 12, 0), answers(nonce, 7, 0)])
    expect(both.map(({ status }) => status)).toEqual([200, 409])
    await runJob(service)
    expect(await read(service, body.id)).toMatchObject({
      state: 'complete',
      supervisor_count: 1,
      incomplete_count: 0,
      supervisors: [{ instance_id: 'held', processes: 12, unreachable: 0 }],
    })
    expect(await processProven()).toBe(new Date(service.clock.now()).toISOString())
  })

  it('proves nothing with an ordinary key, after its time, or while it cannot hold every process', async () => {
    const { service, url, answers, processProven } = await openSupervised()
    await using _ = service
    await using stream = await openControlStream(url, 'held', understanding)
    const ordinary = await service.createKey('agent', ['held'])
    const { body } = await start(service)
    const { nonce } = await nextDrill(stream)
    expect((await answers(nonce, 12, 0, ordinary.key)).headers['wardline-supervisor']).toBe('ignored')
    expect(await read(service, body.id)).toMatchObject({ answered: 1, supervisor_count: 0, supervisors: [] })
    expect((await answers(nonce, 12, 1)).status).toBe(200)
    expect(await read(service, body.id)).toMatchObject({
      incomplete_count: 1,
      supervisors: [{ instance_id: 'held', processes: 12, unreachable: 1 }],
    })
    await runJob(service)
    await start(service)
    const next = await nextDrill(stream, 2)
    service.clock.advance(30_001)
    expect((await answers(next.nonce, 12, 0)).status).toBe(409)
    expect(await processProven()).toBeFalsy()
  })

  it('does not keep a drill open when it does not answer', async () => {
    const { service, url } = await openSupervised()
    await using _ = service
    await using stream = await openControlStream(url, 'held', understanding)
    const { body } = await start(service)
    await answer(service, 'held', (await nextDrill(stream)).nonce)
    expect(await read(service, body.id)).toMatchObject({ silent: [], silent_count: 0 })
    service.clock.advance(33_001)
    await runJob(service)
    expect(await read(service, body.id)).toMatchObject({
      ...{ state: 'complete', answered: 1, missing_count: 0, supervisor_count: 0 },
      ...{ silent: [{ instance_id: 'held', lever: 'process' }], silent_count: 1 },
    })
  })
})
