import type { Alert, Containment } from '@wardline/contract'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { seededDraws } from '../../../../../test-servers/seeded-draws.ts'
import { openTestService, type TestService } from '../../testing/service.ts'
import { verifyAudit } from '../audit/audit.ts'
import { ContainmentWork } from './work.ts'

let service: TestService
beforeEach(async () => {
  service = await openTestService()
})
afterEach(() => service[Symbol.asyncDispose]())

const register = async (count: number) => {
  const ids = Array.from({ length: count }, (_, n) => `m-${String(n).padStart(4, '0')}`)
  const registers = { owner: 'k', max: null, tags: null }
  const beats = ids.map((id) =>
    service.services.heartbeats.beat({ instance_id: id, name: id }, { registers, instances: null, keyId: 'k' }),
  )
  await Promise.all(beats)
  return ids
}
const contain = async (action: 'suspend' | 'resume', count: number) => {
  const { status, body, text } = await service.call<Containment>('POST', '/api/containments', {
    body: { action, selector: { all: true }, reason: 'leak', confirm: `${action} ${count} agents` },
  })
  expect(status, text).toBe(201)
  return body
}
const view = async (id: string) => (await service.call<Containment>('GET', `/api/containments/${id}`)).body
const idle = () => service.services.containmentWork.whenIdle()
const states = () =>
  service.rows('select suspended, control_version, count(*) as agents from instances group by 1, 2 order by 1, 2')
const numbers = (rows: Record<string, unknown>[]) => rows.map((row) => Object.values(row).map(Number))

it('suspends every agent once while single kills of the same agents run', async () => {
  const seed = Number(process.env.SEED ?? Date.now() % 1_000_000)
  const draw = seededDraws(seed)
  const ids = await register(450)
  const { id } = await contain('suspend', 450)
  const kills = await Promise.all(
    Array.from({ length: 60 }, () =>
      service.call('POST', `/api/kill/${ids[Math.floor(draw() * ids.length)]}`, { body: { reason: 'single' } }),
    ),
  )
  await idle()
  const won = kills.filter(({ status }) => status === 200).length
  const found = await view(id)
  expect([found.requested, found.changed + found.skipped, found.skipped], `SEED=${seed}`).toEqual([450, 450, won])
  expect(numbers(await states())).toEqual([[1, 1, 450]])
  expect(numbers(await service.rows('select count(*) as n from suspensions where resumed_at is null'))).toEqual([[450]])
  expect(await verifyAudit(service.deps.database)).toMatchObject({ ok: true })
})

// A resume must not lift a suspension that came after the request.
it('does not resume an agent that was suspended again after it was selected', async () => {
  await register(3)
  const first = await contain('suspend', 3)
  await idle()
  await service.execute(`update containment_parts set done_at = null, changed = null`)
  await service.execute(`update containments set action = 'resume', changed_at = null, leased_until = 0`)
  // The members were selected at version 1; m-0001 is resumed and suspended again below.
  await service.execute(`update containment_parts set members = '[["m-0000",1],["m-0001",1],["m-0002",1]]'`)
  await service.call('POST', '/api/resume/m-0001')
  await service.call('POST', '/api/kill/m-0001', { body: { reason: 'again' } })
  await service.services.containmentWork.run()
  await idle()
  expect(numbers(await states())).toEqual([
    [0, 2, 2],
    [1, 3, 1],
  ])
  expect(await view(first.id)).toMatchObject({ changed: 2, skipped: 1 })
})

it('skips deleted members and counts them', async () => {
  await register(2)
  const { id } = await contain('suspend', 2)
  await idle()
  await service.execute(`update containment_parts set done_at = null, changed = null`)
  await service.execute(`update containments set changed_at = null, leased_until = 0`)
  await service.execute(`update instances set suspended = 0, suspension_reason = null where id = 'm-0000'`)
  await service.execute(`delete from instances where id = 'm-0001'`)
  await service.services.containmentWork.run()
  await idle()
  expect(await view(id)).toMatchObject({ requested: 2, changed: 1, skipped: 1 })
})

it('leaves the work to the process with the lease, and takes it over when the lease ends after 5 seconds', async () => {
  await register(2)
  const { id } = await contain('suspend', 2)
  await idle()
  await service.execute(`update instances set suspended = 0, suspension_reason = null`)
  await service.execute('delete from suspensions')
  await service.execute(`update containment_parts set done_at = null, changed = null`)
  const until = service.clock.now() + 5_000
  await service.execute(`update containments set changed_at = null, worker = 'other', leased_until = ${until}`)
  service.clock.advance(4_999)
  await service.services.containmentWork.run()
  await idle()
  expect(await view(id)).toMatchObject({ state: 'in_progress', changed: 0, missing_count: 2 })
  service.clock.advance(1)
  await service.services.containmentWork.run()
  await idle()
  expect(await view(id)).toMatchObject({ changed: 2 })
})

it('suspends each agent once when two processes work on a containment at the same time', async () => {
  await using other = await openTestService({ dataDir: service.deps.config.dataDir, clock: service.clock })
  await register(500)
  const { id } = await contain('suspend', 500)
  // Ends the lease of the first process.
  await other.execute(`update containments set leased_until = 0`)
  other.services.containmentWork.start(id)
  await Promise.all([idle(), other.services.containmentWork.whenIdle()])
  expect(await view(id)).toMatchObject({ changed: 500, skipped: 0 })
  expect(numbers(await states())).toEqual([[1, 1, 500]])
  expect(numbers(await service.rows(`select count(*) as n from audit_log where action = 'instance.suspend'`))).toEqual([
    [500],
  ])
  expect(await verifyAudit(service.deps.database)).toMatchObject({ ok: true })
})

it('sends one alert for all agents at the start, after a missing confirmation and on completion', async () => {
  await service[Symbol.asyncDispose]()
  service = await openTestService({ env: { ALERT_WEBHOOK_URL: 'http://127.0.0.1:9/hook' } })
  const ids = await register(30)
  await contain('suspend', 30)
  await idle()
  const alerts = async () => {
    const { body } = await service.call<{ alerts: Alert[] }>('GET', '/api/alerts?limit=100')
    return body.alerts
      .filter(({ event_type }) => !event_type.startsWith('alerting'))
      .map(({ severity, event_type, description }) => [severity, event_type, description])
  }
  expect(await alerts()).toEqual([
    ['warning', 'containment_started', 'Suspending 30 agents, requested by WARDLINE_API_KEY: leak'],
  ])
  service.clock.advance(36_000)
  await service.services.containmentWork.run()
  await service.services.containmentWork.run()
  expect((await alerts())[0]).toEqual([
    'critical',
    'containment_incomplete',
    expect.stringMatching(/^30 of 30 agents did not confirm the suspend within 35 seconds; wardline containments /),
  ])
  expect(await alerts()).toHaveLength(2)
  for (const id of ids) await service.call('POST', `/api/instances/${id}/ack`, { body: { version: 1 } })
  service.clock.advance(1_000)
  await service.services.containmentWork.run()
  expect((await alerts())[0]).toEqual([
    'info',
    'containment_completed',
    'The suspension of 30 agents is complete: 30 confirmed.',
  ])
  expect(await alerts()).toHaveLength(3)
})

it('resolves the alerts of a containment when it is complete, but not those of another containment', async () => {
  await service[Symbol.asyncDispose]()
  service = await openTestService({ env: { ALERT_WEBHOOK_URL: 'http://127.0.0.1:9/hook' } })
  const [slow, fast] = await register(2)
  for (const id of [slow, fast]) {
    const body = { action: 'suspend', selector: { instances: [id] }, reason: 'leak', confirm: 'suspend 1 agent' }
    await service.call('POST', '/api/containments', { body })
  }
  await idle()
  service.clock.advance(36_000)
  await service.services.containmentWork.run()
  await service.services.containmentWork.run()
  const unresolved = () =>
    service.rows(
      "select event_type from alerts where status <> 'resolved' and event_type like 'containment%' order by event_type",
    )
  const problem = [{ event_type: 'containment_incomplete' }, { event_type: 'containment_started' }]
  expect(await unresolved()).toEqual(problem.flatMap((row) => [row, row]))
  await service.call('POST', `/api/instances/${fast}/ack`, { body: { version: 1 } })
  service.clock.advance(1_000)
  await service.services.containmentWork.run()
  expect(await unresolved()).toEqual(problem)
  await service.call('POST', `/api/instances/${slow}/ack`, { body: { version: 1 } })
  service.clock.advance(20_000)
  await service.services.containmentWork.run()
  expect(await unresolved()).toEqual([])
})

it('resolves the alert of an agent that was killed alone, and sends no alerts for agents of the containment', async () => {
  await service[Symbol.asyncDispose]()
  service = await openTestService({ env: { ALERT_WEBHOOK_URL: 'http://127.0.0.1:9/hook' } })
  const [alone] = await register(2)
  await service.call('POST', `/api/kill/${alone}`, { body: { reason: 'leak' } })
  await service.call('POST', '/api/containments', {
    body: { action: 'suspend', selector: { all: true }, reason: 'leak', confirm: 'suspend 1 agent' },
  })
  await idle()
  await contain('resume', 2)
  await idle()
  const { body } = await service.call<{ alerts: Alert[] }>('GET', '/api/alerts?limit=100')
  const ofAgents = body.alerts.filter(({ instance_id }) => instance_id !== null)
  expect(ofAgents.map(({ event_type, instance_id, status }) => [event_type, instance_id, status])).toEqual([
    ['instance_resumed', alone, 'resolved'],
    ['instance_suspended', alone, 'resolved'],
  ])
})

it('keeps the counts of a containment when its agents are deleted', async () => {
  const [id] = await register(1)
  await contain('suspend', 1)
  await idle()
  await service.call('POST', `/api/instances/${id}/ack`, { body: { version: 1 } })
  const { id: resume } = await contain('resume', 1)
  await idle()
  await service.call('POST', `/api/instances/${id}/ack`, { body: { version: 2 } })
  await service.services.containmentWork.run()
  await service.execute('delete from instances')
  expect(await view(resume)).toMatchObject({ state: 'complete', changed: 1, confirmed: 1 })
})

/** A worker in another process, for which something happens after it has read the members of its first part. */
function workerWith(between: () => Promise<unknown>): ContainmentWork {
  const { deps, services } = service
  let isDue = true
  const batch: typeof deps.database.batch = async (...given) => {
    if (isDue) {
      isDue = false
      await between()
    }
    return deps.database.batch(...given)
  }
  return new ContainmentWork({ ...deps, database: { ...deps.database, batch } }, services)
}

const redo = (action: 'suspend' | 'resume') =>
  service.execute(`update containment_parts set done_at = null, changed = null;
    update containments set action = '${action}', changed_at = null, skipped = 0, leased_until = 0`)

// An entry for a change that was not made would be a lie in the audit log.
it('writes nothing about a member that was changed after it was read', async () => {
  await register(3)
  const { id } = await contain('suspend', 3)
  await idle()
  await redo('resume')
  await service.execute(`update containment_parts set members = '[["m-0000",1],["m-0001",1],["m-0002",1]]'`)
  const work = workerWith(() => service.call('POST', '/api/resume/m-0001'))
  await work.run()
  await work.whenIdle()
  expect(await view(id)).toMatchObject({ changed: 2, skipped: 1 })
  const entries = `select target, count(*) as entries from audit_log where action = 'instance.resume' group by 1 order by 1`
  expect((await service.rows<{ target: string }>(entries)).map((row) => Object.values(row).map(String))).toEqual([
    ['m-0000', '1'],
    ['m-0001', '1'],
    ['m-0002', '1'],
  ])
})

it('counts a part once if another process does it at the same time', async () => {
  await register(1)
  const { id } = await contain('suspend', 1)
  await idle()
  await redo('suspend')
  await service.execute(`delete from instances where id = 'm-0000'`)
  const work = workerWith(async () => {
    await service.execute('update containments set leased_until = 0')
    await service.services.containmentWork.run()
    await idle()
  })
  await work.run()
  await work.whenIdle()
  expect(await view(id)).toMatchObject({ requested: 1, changed: 0, skipped: 1 })
})
