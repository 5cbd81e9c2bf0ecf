import { createHmac, randomBytes } from 'node:crypto'
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Containment, EnforcementPoint, EnforcementTested, Suspension } from '@wardline/contract'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type AlertReceiver, startAlertReceiver } from '../../testing/alert-receiver.ts'
import { manualClock } from '../../testing/clock.ts'
import { openTestService, type TestService } from '../../testing/service.ts'
import { claimCalls } from './call-statements.ts'

const secret = `whsec_${randomBytes(32).toString('base64')}`
let receiver: AlertReceiver
let folder: string
beforeEach(async () => {
  receiver = await startAlertReceiver()
  folder = mkdtempSync(join(tmpdir(), 'wardline-points-'))
})
afterEach(async () => {
  await receiver[Symbol.asyncDispose]()
  rmSync(folder, { recursive: true })
})

/** Writes a file of enforcement points, by default a single one with the name `lever`. */
function pointsFile(...points: object[]): { WARDLINE_ENFORCEMENT_FILE: string } {
  const file = join(folder, 'points.json')
  const given = points.length > 0 ? points : [{}]
  const url = `${receiver.url}/hidden-path`
  writeFileSync(file, JSON.stringify(given.map((point) => ({ name: 'lever', url, secret, ...point }))))
  chmodSync(file, 0o600)
  return { WARDLINE_ENFORCEMENT_FILE: file }
}

const beat = (service: TestService, id: string, more: object = {}) =>
  service.call('POST', '/api/heartbeat', { body: { instance_id: id, name: id, ...more } })
const kill = (service: TestService, id: string) =>
  service.call('POST', `/api/kill/${id}`, { body: { reason: 'It leaked a key' } })
const resume = (service: TestService, id: string) => service.call('POST', `/api/resume/${id}`)
const ack = (service: TestService, id: string, version: number) =>
  service.call('POST', `/api/instances/${id}/ack`, { body: { version } })
const suspensions = async (service: TestService, id: string) =>
  (await service.call<{ suspensions: Suspension[] }>('GET', `/api/instances/${id}/suspensions`)).body.suspensions
const stateInList = async (service: TestService, id: string) =>
  (await service.call<{ suspension: { state: string } | null }>('GET', `/api/instances/${id}`)).body.suspension?.state
const points = async (service: TestService) =>
  (await service.call<{ points: EnforcementPoint[] }>('GET', '/api/enforcement-points')).body.points
const failures = (service: TestService) =>
  service.rows<{ severity: string; description: string; metadata: string }>(
    "select severity, description, metadata from events where event_type = 'enforcement_failed' order by seq",
  )

/** Runs the job and waits for its calls. */
async function turn(service: TestService): Promise<void> {
  await service.services.enforcement.run()
  await service.services.enforcement.whenIdle()
}

const signatureOf = (id: string, timestamp: string, body: object) =>
  `v1,${createHmac('sha256', Buffer.from(secret.slice(6), 'base64'))
    .update(`${id}.${timestamp}.${JSON.stringify(body)}`)
    .digest('base64')}`

describe('calls', () => {
  it('are signed, sent for each suspension and resume, and confirmed by a 2xx', async () => {
    await using service = await openTestService({ env: pointsFile() })
    await beat(service, 'agent-1', { tags: ['team:pay'] })
    expect((await points(service))[0]).toMatchObject({ name: 'lever', health: 'unused', instances: null, tags: null })
    await kill(service, 'agent-1')
    await service.services.enforcement.whenIdle()
    const [call] = receiver.taken
    expect(call!.path).toBe('/hidden-path')
    expect(call!.body).toEqual({
      action: 'suspend',
      instance_id: 'agent-1',
      version: 1,
      reason: 'It leaked a key',
      containment_id: null,
      tags: ['team:pay'],
      at: new Date(service.clock.now()).toISOString(),
    })
    const { 'webhook-id': id, 'webhook-timestamp': at, 'webhook-signature': signature } = call!.headers
    expect(id).toMatch(/^enf_/)
    expect(signature).toBe(signatureOf(String(id), String(at), call!.body))
    const [suspension] = await suspensions(service, 'agent-1')
    const confirmed = { point: 'lever', state: 'confirmed', attempts: 1, last_status: 200, last_error: null }
    expect(suspension!.enforcement).toEqual([
      { ...confirmed, confirmed_at: new Date(service.clock.now()).toISOString() },
    ])
    await resume(service, 'agent-1')
    await service.services.enforcement.whenIdle()
    expect(receiver.taken[1]!.body).toMatchObject({ action: 'resume', version: 2, reason: null })
    expect((await points(service))[0]).toMatchObject({ health: 'ok', pending: 0, failed: 0, last_status: 200 })
  })

  it('are created for the instances and actions that each point names', async () => {
    await using service = await openTestService({
      env: pointsFile(
        { name: 'by-id', instances: ['agent-1', 'other-*'], actions: ['suspend'] },
        { name: 'by-tag', tags: ['team:pay', 'env_*'] },
        { name: 'resumes', actions: ['resume'] },
      ),
    })
    await beat(service, 'agent-1', { tags: ['team:payments'] })
    await beat(service, 'agent-2', { tags: ['env_prod'] })
    await beat(service, 'agent-3', { tags: ['envxprod'] })
    for (const id of ['agent-1', 'agent-2', 'agent-3']) {
      await kill(service, id)
      await resume(service, id)
    }
    await service.services.enforcement.whenIdle()
    const rows = await service.rows('select point, instance_id, action from enforcement_calls order by 1, 2, 3')
    expect(rows).toEqual([
      { point: 'by-id', instance_id: 'agent-1', action: 'suspend' },
      { point: 'by-tag', instance_id: 'agent-2', action: 'resume' },
      { point: 'by-tag', instance_id: 'agent-2', action: 'suspend' },
      ...['agent-1', 'agent-2', 'agent-3'].map((id) => ({ point: 'resumes', instance_id: id, action: 'resume' })),
    ])
  })

  it('are retried with the same id until the receiver is back', async () => {
    await using service = await openTestService({ env: pointsFile() })
    await beat(service, 'agent-1')
    receiver.answer = () => ({ status: 503, body: `no: ${secret}` })
    await kill(service, 'agent-1')
    await service.services.enforcement.whenIdle()
    await turn(service)
    expect(receiver.attempts).toHaveLength(1)
    expect((await suspensions(service, 'agent-1'))[0]!.enforcement).toEqual([
      {
        point: 'lever',
        state: 'pending',
        attempts: 1,
        confirmed_at: null,
        last_status: 503,
        last_error: 'The receiver answered 503.',
      },
    ])
    expect((await points(service))[0]).toMatchObject({ health: 'failing', pending: 1 })
    receiver.answer = () => ({ status: 204 })
    service.clock.advance(1_200)
    await turn(service)
    expect(new Set(receiver.attempts.map(({ headers }) => headers['webhook-id'])).size).toBe(1)
    expect(receiver.attempts.map(({ body }) => body)).toEqual([receiver.attempts[0]!.body, receiver.attempts[0]!.body])
    expect((await suspensions(service, 'agent-1'))[0]!.enforcement[0]).toMatchObject({
      state: 'confirmed',
      attempts: 2,
    })
  })

  it('are confirmed only by a 2xx', async () => {
    await using service = await openTestService({ env: pointsFile() })
    await beat(service, 'agent-1')
    for (const status of [302, 404, 500]) {
      receiver.answer = () => ({ status, headers: { location: `${receiver.url}/elsewhere` } })
      if (status === 302) await kill(service, 'agent-1')
      else service.clock.advance(10_000)
      await turn(service)
      expect((await suspensions(service, 'agent-1'))[0]!.enforcement[0]).toMatchObject({
        state: 'pending',
        last_status: status,
      })
    }
    expect(receiver.attempts.every(({ path }) => path === '/hidden-path')).toBe(true)
  })

  it('raise a critical event after the last attempt, once, without secrets', async () => {
    await using service = await openTestService({ env: pointsFile() })
    await beat(service, 'agent-1')
    receiver.answer = () => ({ status: 500, body: secret })
    await kill(service, 'agent-1')
    for (let attempt = 1; attempt < 12; attempt++) {
      await turn(service)
      service.clock.advance(400_000)
    }
    expect(receiver.attempts).toHaveLength(9)
    await turn(service)
    const [event, ...others] = await failures(service)
    expect(others).toEqual([])
    expect(event!.severity).toBe('critical')
    expect(event!.description).toMatch(/^The enforcement point lever did not confirm the suspension after 9 attempts: /)
    expect(JSON.parse(event!.metadata)).toMatchObject({ point: 'lever', host: new URL(receiver.url).host, attempts: 9 })
    expect((await suspensions(service, 'agent-1'))[0]!.enforcement[0]!.state).toBe('failed')
    expect((await points(service))[0]).toMatchObject({ health: 'failing', failed: 1, pending: 0 })
    const shown = JSON.stringify([
      await points(service),
      await service.rows('select * from events'),
      await service.rows('select * from alerts'),
      await service.rows('select * from enforcement_calls'),
      (await service.call('GET', '/api/system')).text,
      service.logged,
    ])
    for (const hidden of [secret, secret.slice(6), 'hidden-path']) expect(shown).not.toContain(hidden)
  })

  it('of a fleet to a failing point are reported together, at most once a minute', async () => {
    await using service = await openTestService({ env: pointsFile() })
    const ids = Array.from({ length: 45 }, (_, n) => `agent-${n}`)
    for (const id of ids) await beat(service, id)
    receiver.answer = () => ({ status: 500 })
    const fail = async (some: readonly string[]) => {
      for (const id of some) await kill(service, id)
      await service.services.enforcement.whenIdle()
      await service.execute('update enforcement_calls set attempts = 8, next_at = 0 where failed_at is null')
      await turn(service)
    }
    const reported = async () =>
      (await failures(service)).map(({ metadata }) => JSON.parse(metadata).instances as number | undefined)
    await fail(ids.slice(0, 1))
    await turn(service)
    expect(await reported()).toEqual([undefined])
    await fail(ids.slice(1, 30))
    await fail(ids.slice(30))
    await turn(service)
    expect(await reported()).toEqual([undefined])
    service.clock.advance(60_000)
    await turn(service)
    expect(await reported()).toEqual([...Array(21).fill(undefined), 24])
  })

  it('to one point are not delayed when another point is slow', async () => {
    const service = await openTestService({
      env: pointsFile({ name: 'slow', url: `${receiver.url}/slow` }, { name: 'fast' }),
    })
    await using _ = service
    receiver.answer = ({ path }) => (path === '/slow' ? undefined : { status: 200 })
    for (const id of ['agent-1', 'agent-2']) {
      await beat(service, id)
      await kill(service, id)
    }
    await expect.poll(() => receiver.taken.length).toBe(2)
    await expect
      .poll(async () => (await suspensions(service, 'agent-1'))[0]!.enforcement.map(({ state }) => state))
      .toEqual(['confirmed', 'pending'])
  })

  it('of a suspension are not retried after the resume', async () => {
    await using service = await openTestService({ env: pointsFile({ actions: ['suspend'] }) })
    await beat(service, 'agent-1')
    receiver.answer = () => ({ status: 500 })
    await kill(service, 'agent-1')
    await service.services.enforcement.whenIdle()
    await resume(service, 'agent-1')
    receiver.answer = () => ({ status: 200 })
    service.clock.advance(60_000)
    await turn(service)
    expect(receiver.attempts).toHaveLength(1)
    expect((await suspensions(service, 'agent-1'))[0]!.enforcement[0]!.state).toBe('superseded')
  })
})

describe('several processes', () => {
  // The answer is lost between the point and the database, so the same call arrives again; the id identifies it.
  it('repeat a call with the same id after a crash before its result was stored', async () => {
    await using service = await openTestService({ env: pointsFile() })
    await beat(service, 'agent-1')
    receiver.answer = () => ({ status: 500 })
    await kill(service, 'agent-1')
    await service.services.enforcement.whenIdle()
    service.clock.advance(2_000)
    // Another process claims the call and crashes.
    const { db } = service.deps.database
    const claim = { holder: 'dead', now: service.clock.now(), leaseMs: 60_000 }
    const [taken] = await claimCalls(db, 'lever', claim, 8)
    expect(await claimCalls(db, 'lever', { ...claim, holder: 'other' }, 8)).toEqual([])
    receiver.answer = () => ({ status: 200 })
    await turn(service)
    expect(receiver.attempts).toHaveLength(1)
    service.clock.advance(61_000)
    await turn(service)
    expect(receiver.attempts).toHaveLength(2)
    expect(receiver.attempts[1]!.headers['webhook-id']).toBe(taken!.id)
    expect((await suspensions(service, 'agent-1'))[0]!.enforcement[0]!.state).toBe('confirmed')
  })

  it('send each call once', async () => {
    const clock = manualClock()
    const env = pointsFile()
    await using first = await openTestService({ env, clock })
    await using second = await openTestService({ env, clock, dataDir: first.deps.config.dataDir })
    const ids = Array.from({ length: 30 }, (_, index) => `agent-${index}`)
    for (const id of ids) await beat(first, id)
    receiver.answer = () => ({ status: 500 })
    for (const id of ids) await kill(first, id)
    await first.services.enforcement.whenIdle()
    receiver.answer = () => ({ status: 200 })
    clock.advance(10_000)
    await Promise.all([turn(first), turn(second), turn(first), turn(second)])
    expect(receiver.taken.map(({ body }) => body.instance_id).sort()).toEqual([...ids].sort())
  })

  it('do not send a resume before the suspension in progress is done', async () => {
    await using service = await openTestService({ env: pointsFile() })
    await beat(service, 'agent-1')
    receiver.answer = () => undefined
    await kill(service, 'agent-1')
    await expect.poll(() => receiver.attempts.length).toBe(1)
    await resume(service, 'agent-1')
    await service.services.enforcement.run()
    const claim = { holder: 'other', now: service.clock.now(), leaseMs: 60_000 }
    expect(await claimCalls(service.deps.database.db, 'lever', claim, 8)).toEqual([])
    const leased = await service.rows('select action from enforcement_calls where leased_until > 0')
    expect(leased).toEqual([{ action: 'suspend' }])
    receiver.answer = () => ({ status: 200 })
    service.clock.advance(61_000)
    await service.services.enforcement.run()
    await expect.poll(() => receiver.taken.map(({ body }) => body.action)).toEqual(['resume'])
  })
})

describe('states', () => {
  it('are partial until every point has confirmed, which does not prove that the agent is silent', async () => {
    await using service = await openTestService({ env: pointsFile() })
    await beat(service, 'agent-1')
    const state = async () => (await suspensions(service, 'agent-1'))[0]!.state
    receiver.answer = () => ({ status: 500 })
    await kill(service, 'agent-1')
    await service.services.enforcement.whenIdle()
    expect(await state()).toBe('pending')
    await ack(service, 'agent-1', 1)
    await service.services.suspensionWatch.run()
    expect([await state(), await stateInList(service, 'agent-1')]).toEqual(['partial', 'partial'])
    const figures = await service.call<{ states: object[] }>('GET', '/api/suspension-counts')
    expect(figures.body.states).toEqual([{ state: 'partial', count: 1 }])
    receiver.answer = () => ({ status: 200 })
    service.clock.advance(5_000)
    await turn(service)
    // The point has confirmed, but only the events of the agent show whether it is silent.
    expect([await state(), await stateInList(service, 'agent-1')]).toEqual(['confirmed', 'confirmed'])
    expect((await suspensions(service, 'agent-1'))[0]!.silent_at).toBeNull()
  })

  it('of a containment are partial until every point has confirmed', async () => {
    await using service = await openTestService({
      env: { ...pointsFile(), ALERT_WEBHOOK_URL: 'https://alerts.invalid/' },
    })
    for (const id of ['agent-1', 'agent-2']) await beat(service, id)
    receiver.answer = ({ body }) => ({ status: body.instance_id === 'agent-1' ? 200 : 500 })
    const body = { action: 'suspend', selector: { all: true }, reason: 'Drain', confirm: 'suspend 2 agents' }
    const { id } = (await service.call<Containment>('POST', '/api/containments', { body })).body
    await service.services.containmentWork.whenIdle()
    await service.services.enforcement.whenIdle()
    expect(receiver.attempts.map((attempt) => attempt.body.containment_id)).toEqual([id, id])
    for (const agent of ['agent-1', 'agent-2']) await ack(service, agent, 1)
    const read = async () => (await service.call<Containment>('GET', `/api/containments/${id}`)).body
    const partial = { state: 'partial', confirmed: 2, completed_at: null }
    expect(await read()).toMatchObject({ ...partial, enforcement: { calls: 2, confirmed: 1, failed: 0 } })
    service.clock.advance(40_000)
    await service.services.containmentWork.run()
    const alerts = await service.rows<{ description: string }>(
      "select description from alerts where event_type = 'containment_incomplete'",
    )
    expect(alerts.map(({ description }) => description)).toEqual([
      expect.stringContaining('1 call to enforcement points did not confirm the suspend within 35 seconds'),
    ])
    receiver.answer = () => ({ status: 200 })
    await turn(service)
    const done = { state: 'complete', enforcement: { calls: 2, confirmed: 2, failed: 0 } }
    expect(await read()).toMatchObject({ ...done, completed_at: new Date(service.clock.now()).toISOString() })
  })
})

it('tests a point without storing a call', async () => {
  await using service = await openTestService({ env: pointsFile() })
  const test = (name: string) => service.call<EnforcementTested>('POST', `/api/enforcement-points/${name}/test`)
  expect((await test('lever')).body).toMatchObject({ point: 'lever', ok: true, status: 200, error: null })
  expect(receiver.taken[0]!.body).toMatchObject({ action: 'test', instance_id: null, version: null, tags: [] })
  receiver.answer = () => ({ status: 401, body: secret })
  const refused = await test('lever')
  expect(refused.body).toMatchObject({ ok: false, status: 401, error: 'The receiver answered 401.' })
  expect((await test('unknown')).status).toBe(404)
  expect(await service.rows('select * from enforcement_calls')).toEqual([])
})

it('deletes old calls, but keeps unconfirmed ones of the current version of an agent', async () => {
  await using service = await openTestService({ env: pointsFile() })
  for (const id of ['agent-1', 'agent-2', 'agent-3']) await beat(service, id)
  await kill(service, 'agent-1')
  await service.services.enforcement.whenIdle()
  receiver.answer = () => ({ status: 500 })
  for (const id of ['agent-2', 'agent-3']) await kill(service, id)
  await resume(service, 'agent-3')
  await service.services.enforcement.whenIdle()
  service.clock.advance(91 * 86_400_000)
  await service.services.enforcement.forget()
  const rows = await service.rows<{ instance_id: string; action: string }>(
    'select instance_id, action from enforcement_calls order by instance_id',
  )
  expect(rows).toEqual([
    { instance_id: 'agent-2', action: 'suspend' },
    { instance_id: 'agent-3', action: 'resume' },
  ])
})

describe('the enforcement point of an automatic suspension', () => {
  const path = '/srv/payroll/secret-salaries.csv'
  const touch = (service: TestService) =>
    service.call<{ matched: boolean }>('POST', '/api/honeypots/check/path', {
      body: { path, meta: { instance_id: 'agent-1' } },
    })
  async function openWithDecoy(): Promise<TestService> {
    const service = await openTestService({ env: { ...pointsFile(), WARDLINE_AUTO_SUSPEND: 'decoy' } })
    await beat(service, 'agent-1')
    await service.call('POST', '/api/honeypots', { body: { instanceId: 'agent-1', type: 'file_path', path } })
    return service
  }
  const calls = (service: TestService) => service.rows('select instance_id, version, action from enforcement_calls')

  it('is called once for several touches of a decoy, and again after a failure', async () => {
    await using service = await openWithDecoy()
    receiver.answer = () => ({ status: 500 })
    await Promise.all([touch(service), touch(service), touch(service)])
    await touch(service)
    await service.services.enforcement.whenIdle()
    await turn(service)
    expect(await calls(service)).toEqual([{ instance_id: 'agent-1', version: 1, action: 'suspend' }])
    expect(receiver.attempts).toHaveLength(1)
    const [hit] = await service.rows<{ id: string }>('select event_id as id from suspensions')
    expect(receiver.attempts[0]!.body).toMatchObject({ action: 'suspend', instance_id: 'agent-1', version: 1 })
    expect(receiver.attempts[0]!.body.reason).toContain(`(event ${hit!.id})`)
    receiver.answer = () => ({ status: 200 })
    service.clock.advance(1_200)
    await turn(service)
    await touch(service)
    service.clock.advance(400_000)
    await turn(service)
    expect(receiver.attempts).toHaveLength(2)
    expect(new Set(receiver.attempts.map(({ headers }) => headers['webhook-id'])).size).toBe(1)
    expect((await suspensions(service, 'agent-1'))[0]!.enforcement).toMatchObject([{ state: 'confirmed', attempts: 2 }])
  })

  it('does not delay the response of the decoy check', async () => {
    await using service = await openWithDecoy()
    // The point never answers, so a check that waited for it would not answer either.
    receiver.answer = () => undefined
    expect((await touch(service)).body).toEqual({ matched: true })
    await expect.poll(() => receiver.attempts.length).toBe(1)
    expect((await touch(service)).body).toEqual({ matched: true })
    expect((await suspensions(service, 'agent-1'))[0]!.enforcement).toMatchObject([{ state: 'pending', attempts: 0 }])
  })
})
