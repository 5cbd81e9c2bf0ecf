import { randomUUID } from 'node:crypto'
import type { Containment, ContainmentList, ContainmentPlan, KeyCreated } from '@wardline/contract'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { adminKey, type TestService } from '../../testing/service.ts'
import { openTeamPair, openTeamService, type TeamPair, type TeamService } from '../../testing/teams.ts'

const post = <Body = Containment>(service: TestService, body: object, key: string) =>
  service.call<Body & { error: string }>('POST', '/api/containments', { key, body: { reason: 'leak', ...body } })
const get = <Body>(service: TestService, path: string, key: string) =>
  service.call<Body & { error: string }>('GET', path, { key })
const suspended = async (service: TestService) => {
  const { body } = await get<{ instances: { id: string; status: string }[] }>(service, '/api/instances', adminKey)
  return body.instances.flatMap(({ id, status }) => (status === 'suspended' ? [id] : [])).sort()
}
const idle = (service: TestService) => service.services.containmentWork.whenIdle()
/** Runs an action to its end. */
async function contain(service: TestService, action: string, selector: object, key: string, more: object = {}) {
  const plan = await post<ContainmentPlan>(service, { action, selector, dry_run: true, ...more }, key)
  service.clock.advance(1)
  const answer = await post(service, { action, selector, confirm: plan.body.confirm, ...more }, key)
  await idle(service)
  return answer
}

describe('of agents of a team', () => {
  let pair: TeamPair
  beforeAll(async () => {
    pair = await openTeamPair()
  })
  afterAll(() => pair[Symbol.asyncDispose]())

  const selectors = [
    { all: true },
    { tags: ['env:prod'] },
    { tags: ['team:a'] },
    { tags: ['team:b'] },
    { tags: ['team:a', 'team:b'] },
    { instances: ['a-1', 'a-2'] },
    { instances: ['a-1', 'b-1'] },
    { instances: ['claims-a'] },
    { instances: ['nowhere'] },
  ]
  it.each(selectors)('a selection is planned as if others did not exist: %j', async (selector) => {
    for (const action of ['suspend', 'resume']) {
      await pair.same((service) => post(service, { action, selector, dry_run: true }, service.limited))
      await pair.same((service) => post(service, { action, selector }, service.limited))
    }
  })

  it('suspends and resumes only them, and shows the operations of the team', async () => {
    const started = await contain(pair.shared, 'suspend', { all: true }, pair.shared.limited)
    expect([started.status, started.body.requested, started.body.tags_scope]).toEqual([201, 2, ['team:a']])
    await contain(pair.alone, 'suspend', { all: true }, pair.alone.limited)
    expect(await suspended(pair.shared)).toEqual(['a-1', 'a-2'])
    const list = await pair.same((service) => get<ContainmentList>(service, '/api/containments', service.second))
    expect(list.body.containments).toHaveLength(1)
    const path = `/api/containments/${list.body.containments[0]!.id}`
    const { body } = await get<Containment>(pair.shared, path, pair.shared.second)
    expect(body.missing).toEqual(['a-1', 'a-2'])

    const ofAll = await contain(pair.shared, 'suspend', { all: true }, adminKey)
    expect((await suspended(pair.shared)).length).toBe(6)
    expect(ofAll.body.tags_scope).toBeNull()
    await contain(pair.shared, 'suspend', { instances: ['b-1'] }, adminKey, { two_person: true })
    await pair.same((service) => get(service, '/api/containments', service.limited))
    await pair.same((service) => get(service, '/api/containments?limit=1', service.limited))
    const foreign = await get(pair.shared, `/api/containments/${ofAll.body.id}`, pair.shared.limited)
    const unknown = randomUUID()
    const absent = await get(pair.shared, `/api/containments/${unknown}`, pair.shared.limited)
    expect([foreign.status, foreign.text]).toEqual([404, absent.text.replace(unknown, ofAll.body.id)])

    const resumed = await contain(pair.shared, 'resume', { all: true }, pair.shared.limited)
    expect([resumed.status, resumed.body.requested]).toEqual([201, 2])
    expect(await suspended(pair.shared)).toEqual(['b-1', 'b-2', 'claims-a', 'untagged'])
  })
})

describe('an operator of two teams', () => {
  let service: TeamService
  let wide: string
  beforeAll(async () => {
    service = await openTeamService(true)
    const body = { scope: 'operator', name: 'wide', tags_scope: ['team:b', 'team:a'] }
    wide = (await service.call<KeyCreated>('POST', '/api/keys', { body })).body.key
  })
  afterAll(() => service[Symbol.asyncDispose]())

  it('sees the operations of each, which do not see those for both', async () => {
    const both = await contain(service, 'suspend', { all: true }, wide)
    expect(await suspended(service)).toEqual(['a-1', 'a-2', 'b-1', 'b-2'])
    const one = await contain(service, 'resume', { all: true }, service.limited)
    const seen = async (key: string) =>
      (await get<ContainmentList>(service, '/api/containments', key)).body.containments.map(({ id }) => id)
    expect(await seen(wide)).toEqual([one.body.id, both.body.id])
    expect(await seen(service.limited)).toEqual([one.body.id])
  })

  it('the operation says in the audit log for which team it was', async () => {
    const { body } = await get<{ entries: { after: object }[] }>(
      service,
      '/api/audit?action=containment.create',
      adminKey,
    )
    expect(body.entries.map(({ after }) => after)).toMatchObject([
      { tags_scope: ['team:a', 'team:b'] },
      { tags_scope: ['team:a'] },
    ])
  })
})

describe('the resume by two operators', () => {
  let service: TeamService
  beforeAll(async () => {
    service = await openTeamService(true, { WARDLINE_TWO_PERSON_RESUME: 'true' })
    await contain(service, 'suspend', { all: true }, adminKey)
  })
  afterAll(() => service[Symbol.asyncDispose]())
  const requests = async (key: string) =>
    (await get<ContainmentList>(service, '/api/containments', key)).body.resume_requests

  it('is possible within a team, which does not see requests for others', async () => {
    const unlimited = (await service.createKey('operator')).key
    expect((await contain(service, 'resume', { all: true }, unlimited)).status).toBe(409)
    expect((await contain(service, 'resume', { instances: ['b-1'] }, unlimited)).status).toBe(409)
    const [, ofAll] = await requests(adminKey)
    expect(await requests(service.limited)).toEqual([])
    const members = (id: string) => get(service, `/api/resume-requests/${id}/instances`, service.limited)
    const unknown = 'a'.repeat(64)
    const foreign = await members(ofAll!.id!)
    expect([foreign.status, foreign.text.replace(ofAll!.id!, unknown)]).toEqual([404, (await members(unknown)).text])

    const asked = await contain(service, 'resume', { tags: ['team:a'] }, service.limited)
    expect(asked.status).toBe(409)
    const [request, ...others] = await requests(service.second)
    expect([request, others]).toMatchObject([{ agents: 2, own: false, selector: { tags: ['team:a'] } }, []])
    expect((await members(request!.id!)).body).toEqual({ instances: ['a-1', 'a-2'], next: null })
    expect((await contain(service, 'resume', { all: true }, service.limited)).status).toBe(409)
    const confirmed = await contain(service, 'resume', { all: true }, service.second)
    expect(confirmed.status).toBe(201)
    expect(await suspended(service)).toEqual(['b-1', 'b-2', 'claims-a', 'untagged'])
  })

  it('shows the team a request for one of its agents, by any operator', async () => {
    const unlimited = (await service.createKey('operator')).key
    await contain(service, 'suspend', { instances: ['a-2'] }, service.limited)
    expect((await contain(service, 'resume', { instances: ['a-2'] }, unlimited)).status).toBe(409)
    expect(await requests(service.limited)).toMatchObject([{ instance_id: 'a-2', agents: 1 }])
    expect((await contain(service, 'resume', { all: true }, service.limited)).status).toBe(201)
  })
})

it('agents that register while it is stopped are of its keys, and shown once they are of the team', async () => {
  await using service = await openTeamService(true)
  const of = (instances: string[]) => service.createKey('agent', instances)
  const own = (await of(['c-*'])).key
  const other = (await of(['d-*'])).key
  const register = (id: string, key: string) =>
    service.call('POST', '/api/heartbeat', { key, body: { instance_id: id, name: id } })
  await register('c-1', own)
  await service.setTags('c-1', ['team:a'])
  service.clock.advance(120_000)
  // Between the selection and the transaction.
  const { database } = service.deps
  const { batch } = database
  database.batch = async (statements, options) => {
    database.batch = batch
    await register('c-2', own)
    await register('d-1', other)
    return batch(statements, options)
  }
  const plan = { action: 'suspend', selector: { all: true }, confirm: 'suspend 3 agents' }
  const { body } = await post(service, plan, service.limited)
  await idle(service)
  expect(await suspended(service)).toEqual(['a-1', 'a-2', 'c-1', 'c-2'])
  const joined = async () =>
    (await get<Containment>(service, `/api/containments/${body.id}`, service.limited)).body.joined
  expect(await joined()).toEqual([])
  await service.setTags('c-2', ['team:a'])
  expect(await joined()).toEqual(['c-2'])
})
