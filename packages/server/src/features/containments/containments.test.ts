import type { Containment, ContainmentList, ContainmentPlan, KeyCreated } from '@wardline/contract'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { openTestService, type TestService } from '../../testing/service.ts'
import { verifyAudit } from '../audit/audit.ts'

interface Answer {
  error: string
}

let service: TestService
let operator: { id: string; key: string }
beforeAll(async () => {
  service = await openTestService()
  operator = await service.createKey('operator')
})
afterAll(() => service[Symbol.asyncDispose]())
beforeEach(async () => {
  await service.execute('delete from instances')
  await service.execute('delete from suspensions')
  service.clock.advance(1_000)
})

const beat = (id: string, more: object = {}) =>
  service.call('POST', '/api/heartbeat', { body: { instance_id: id, name: id, ...more } })
const post = <Body = Containment>(body: object, key = operator.key) =>
  service.call<Body>('POST', '/api/containments', { key, body: { reason: ' leak ', ...body } })
const view = async (id: string) => (await service.call<Containment>('GET', `/api/containments/${id}`)).body
const idle = () => service.services.containmentWork.whenIdle()
const statuses = async () => {
  const { body } = await service.call<{ instances: { id: string; status: string }[] }>('GET', '/api/instances')
  return Object.fromEntries(body.instances.map(({ id, status }) => [id, status]))
}
const ack = (id: string, version: number) => service.call('POST', `/api/instances/${id}/ack`, { body: { version } })
const audit = async (query: string) =>
  (
    await service.call<{
      entries: { action: string; target: string; actor: string; reason: string | null; after: object }[]
    }>('GET', `/api/audit?${query}`)
  ).body.entries

describe('a containment by tag', () => {
  it('suspends the agents that have all its tags, each with a version, facts and an audit entry', async () => {
    await beat('a', { tags: ['env:prod', 'team:x'], control_version: 0 })
    await beat('b', { tags: ['env:prod'] })
    await beat('c', { tags: ['env:test'] })
    await service.call('PUT', '/api/instances/b/tags', { body: { tags: ['team:x'] } })
    const { status, body } = await post({
      action: 'suspend',
      selector: { tags: ['env:prod', 'team:x'] },
      confirm: 'suspend 2 agents',
    })
    expect(status).toBe(201)
    expect(body).toMatchObject({ action: 'suspend', requested: 2, reason: 'leak', by: operator.id, two_person: false })
    await idle()
    expect(await statuses()).toEqual({ a: 'suspended', b: 'suspended', c: 'active' })
    expect(await view(body.id)).toMatchObject({
      state: 'in_progress',
      requested: 2,
      changed: 2,
      skipped: 0,
      confirmed: 0,
      proven: 0,
      missing: ['a', 'b'],
      missing_count: 2,
      completed_at: null,
    })
    expect(
      await service.rows(
        'select instance_id, version, reason, actor, containment_id, can_acknowledge from suspensions order by 1',
      ),
    ).toEqual([
      { instance_id: 'a', version: 1, reason: 'leak', actor: operator.id, containment_id: body.id, can_acknowledge: 1 },
      { instance_id: 'b', version: 1, reason: 'leak', actor: operator.id, containment_id: body.id, can_acknowledge: 0 },
    ])
    const entries = await audit('action=instance.suspend')
    expect(entries.map(({ target, actor, reason, after }) => ({ target, actor, reason, after }))).toEqual(
      ['a', 'b'].map((target) => ({
        target,
        actor: operator.id,
        reason: 'leak',
        after: { suspended: true, version: 1, containment: body.id },
      })),
    )
    expect(await audit(`target=${body.id}`)).toMatchObject([{ action: 'containment.create', reason: 'leak' }])
    expect(await verifyAudit(service.deps.database)).toMatchObject({ ok: true })
    const { body: poll } = await service.call('GET', '/api/instances/a/status')
    expect(poll).toEqual({ suspended: true, reason: 'leak' })
  })

  it('is complete when every agent has confirmed, and partial after 35 seconds if some have not', async () => {
    await beat('a', { control_version: 0 })
    await beat('b', { control_version: 0 })
    const { body } = await post({ action: 'suspend', selector: { all: true }, confirm: 'suspend 2 agents' })
    await idle()
    await ack('a', 1)
    expect(await view(body.id)).toMatchObject({ state: 'in_progress', confirmed: 1, missing: ['b'], missing_count: 1 })
    service.clock.advance(36_000)
    expect(await view(body.id)).toMatchObject({ state: 'partial', confirmed: 1, missing: ['b'] })
    const at = service.clock.now()
    await ack('b', 1)
    const complete = await view(body.id)
    expect(complete).toMatchObject({ state: 'complete', confirmed: 2, missing: [], missing_count: 0 })
    expect(Date.parse(complete.completed_at!)).toBe(at)
  })

  it('is failed when no agent has confirmed within 35 seconds', async () => {
    await beat('a')
    const { body } = await post({ action: 'suspend', selector: { all: true }, confirm: 'suspend 1 agent' })
    await idle()
    service.clock.advance(36_000)
    expect(await view(body.id)).toMatchObject({ state: 'failed', confirmed: 0, missing: ['a'] })
  })

  it('counts a proven agent that works again as violated', async () => {
    await beat('a', { control_version: 0 })
    await beat('b', { control_version: 0 })
    const { body } = await post({ action: 'suspend', selector: { all: true }, confirm: 'suspend 2 agents' })
    await idle()
    await ack('a', 1)
    await ack('b', 1)
    const pass = async (seconds: number) => {
      for (let passed = 0; passed < seconds; passed++) {
        service.clock.advance(1_000)
        await service.services.suspensionWatch.run()
        await service.services.containmentWork.run()
      }
    }
    await pass(35)
    expect(await view(body.id)).toMatchObject({ state: 'complete', proven: 2, violated: 0 })
    const report = { severity: 'info', source: 'b', event_type: 'tool_call', description: 'x', instance_id: 'b' }
    expect((await service.call('POST', '/api/events', { body: report })).status).toBe(201)
    await pass(2)
    expect(await view(body.id)).toMatchObject({ state: 'complete', proven: 1, violated: 1 })
    const counts = () => service.rows(`select counts from containments where id = '${body.id}'`)
    expect(await counts()).toEqual([{ counts: null }])
    await post({ action: 'resume', selector: { all: true }, confirm: 'resume 2 agents' })
    await idle()
    await pass(120)
    expect((await counts())[0]!.counts).toContain('"violated":1')
  })

  it('ignores tags that agents give themselves when it resumes by tag', async () => {
    await beat('a')
    await service.call('PUT', '/api/instances/a/tags', { body: { tags: ['wave:1'] } })
    await beat('b')
    await post({ action: 'suspend', selector: { all: true }, confirm: 'suspend 2 agents' })
    await idle()
    await beat('b', { tags: ['wave:1'] })
    const plan = { action: 'resume', selector: { tags: ['wave:1'] }, dry_run: true }
    expect((await post<ContainmentPlan>(plan)).body).toMatchObject({ agents: 1, instances: ['a'] })
    await post({ action: 'resume', selector: { all: true }, confirm: 'resume 2 agents' })
    await idle()
    await beat('b', { tags: ['wave:1'] })
    const stop = { action: 'suspend', selector: { tags: ['wave:1'] }, dry_run: true }
    expect((await post<ContainmentPlan>(stop)).body).toMatchObject({ agents: 2 })
  })

  it('resumes one tag at a time, and counts the confirmations of resumes', async () => {
    for (const [id, tag] of Object.entries({ a: 'wave:1', b: 'wave:2' })) {
      await beat(id, { control_version: 0 })
      await service.call('PUT', `/api/instances/${id}/tags`, { body: { tags: [tag] } })
    }
    await post({ action: 'suspend', selector: { all: true }, confirm: 'suspend 2 agents' })
    await idle()
    const { body } = await post({ action: 'resume', selector: { tags: ['wave:1'] }, confirm: 'resume 1 agents' })
    await idle()
    expect(await statuses()).toEqual({ a: 'active', b: 'suspended' })
    expect(await view(body.id)).toMatchObject({ state: 'in_progress', missing: ['a'] })
    await ack('a', 2)
    expect(await view(body.id)).toMatchObject({ state: 'complete', confirmed: 1, proven: 0, missing: [] })
    expect(await service.rows('select instance_id from suspensions where resumed_at is null')).toEqual([
      { instance_id: 'b' },
    ])
  })
})

describe('the typed confirmation', () => {
  it('is required, and the error names the number of agents', async () => {
    await beat('a')
    await beat('b')
    const request = { action: 'suspend', selector: { all: true } }
    const missing = await post<Answer>(request)
    expect([missing.status, missing.body.error]).toEqual([
      409,
      'confirm is required: the selector matches 2 agents now; to go on, send confirm "suspend 2 agents".',
    ])
    for (const confirm of ['suspend 3 agents', 'resume 2 agents', 'suspend 2', '2', '']) {
      const wrong = await post<Answer>({ ...request, confirm })
      expect([wrong.status, wrong.body.error]).toEqual([
        409,
        'confirm does not match: the selector matches 2 agents now; to go on, send confirm "suspend 2 agents".',
      ])
    }
    expect(Object.values(await statuses())).toEqual(['active', 'active'])
  })

  it('is refused with an outdated number of agents', async () => {
    await beat('a')
    await beat('b')
    const { body: plan } = await post<ContainmentPlan>({ action: 'suspend', selector: { all: true }, dry_run: true })
    await beat('c')
    const old = await post<Answer>({ action: 'suspend', selector: { all: true }, confirm: plan.confirm })
    expect([old.status, old.body.error]).toEqual([409, expect.stringContaining('matches 3 agents now')])
    await service.call('POST', '/api/kill/a', { body: { reason: 'x' } })
    const right = await post({ action: 'suspend', selector: { all: true }, confirm: 'suspend 2 agents' })
    expect(right.body).toMatchObject({ requested: 2 })
    await idle()
  })

  it('gets 409 when no agent matches', async () => {
    await beat('a')
    const { status, body } = await post<Answer>({
      action: 'resume',
      selector: { all: true },
      confirm: 'resume 0 agents',
    })
    expect([status, body.error]).toEqual([
      409,
      'The selector matches no agent that is suspended: there is nothing to resume.',
    ])
  })
})

describe('a selector', () => {
  it.each([
    [{}, 'selector must have exactly one of instances, tags and all.'],
    [{ all: true, tags: ['env:prod'] }, 'selector must have exactly one of instances, tags and all.'],
    [{ all: false }, 'selector.all must be true.'],
    [{ instances: [] }, 'selector.instances must have at least 1 entries.'],
    [{ tags: ['env:prd'] }, 'No instance has the tag env:prd; tags in use: env:prod, team:x.'],
    [{ tags: ['a%'] }, 'selector.tags.0 may contain only lower-case letters, digits, _ . : and -.'],
    [{ tags: ['env_prod'] }, 'No instance has the tag env_prod; tags in use: env:prod, team:x.'],
    [{ instances: ['a', 'nobody'] }, 'No instance with id nobody; `wardline instances` lists them.'],
    [{ everything: true }, 'selector.everything is not a known field.'],
  ])('%j is refused', async (selector, sentence) => {
    await beat('a', { tags: ['team:x', 'env:prod'] })
    const { status, body } = await post<Answer>({ action: 'suspend', selector, confirm: 'suspend 1 agents' })
    expect([status, body.error]).toEqual([400, sentence])
  })

  it('that names instances suspends only those that are not suspended already', async () => {
    for (const id of ['a', 'b', 'c']) await beat(id)
    await service.call('POST', '/api/kill/b', { body: { reason: 'x' } })
    const { body } = await post({
      action: 'suspend',
      selector: { instances: ['c', 'b', 'c'] },
      confirm: 'suspend 1 agent',
    })
    await idle()
    expect(body.requested).toBe(1)
    expect(await statuses()).toEqual({ a: 'active', b: 'suspended', c: 'suspended' })
  })
})

it('returns a plan of reachable and unreachable agents for a dry run, and changes nothing', async () => {
  await beat('gone', { control_version: 0 })
  service.clock.advance(91_000)
  await beat('plain')
  await beat('polls', { control_version: 0 })
  const { status, body } = await post<ContainmentPlan>({ action: 'suspend', selector: { all: true }, dry_run: true })
  expect(status).toBe(200)
  expect(body).toEqual({
    dry_run: true,
    action: 'suspend',
    agents: 3,
    confirm: 'suspend 3 agents',
    second_operator: false,
    instances: ['gone', 'plain', 'polls'],
    paths: { stream: 0, poll: 1, unknown: 2 },
    unreached: [
      { id: 'gone', path: 'unknown', reason: 'offline' },
      { id: 'plain', path: 'unknown', reason: 'old_sdk' },
      { id: 'polls', path: 'poll', reason: 'no_control_stream' },
    ],
    unreached_counts: { offline: 1, no_control_stream: 1, old_sdk: 1 },
  })
  expect(Object.values(await statuses())).not.toContain('suspended')
  expect((await service.call<ContainmentList>('GET', '/api/containments?limit=1')).body.containments).not.toMatchObject(
    [{ requested: 3 }],
  )
})

it('gives an instance the tags of the key that registers it, and the agent cannot remove them', async () => {
  const { body: key } = await service.call<KeyCreated>('POST', '/api/keys', {
    body: { scope: 'agent', instances: ['k-*'], tags: ['team:k', 'env:prod', 'team:k'] },
  })
  const { body: successor } = await service.call<KeyCreated>('POST', `/api/keys/${key.id}/rotate`, { body: {} })
  for (const [id, { key: text }] of Object.entries({ 'k-1': key, 'k-2': successor })) {
    const body = { instance_id: id, name: id, tags: [] }
    await service.call('POST', '/api/heartbeat', { key: text, body })
    await service.call('POST', '/api/heartbeat', { key: text, body })
    const { body: detail } = await service.call('GET', `/api/instances/${id}`)
    expect(detail).toMatchObject({
      tags: ['env:prod', 'team:k'],
      operator_tags: ['env:prod', 'team:k'],
      agent_tags: [],
    })
  }
  const refused = await service.call<Answer>('POST', '/api/keys', { body: { scope: 'viewer', name: 'v', tags: ['x'] } })
  expect([refused.status, refused.body.error]).toEqual([400, 'tags must be absent for scope viewer.'])
})

it('refuses to create a containment for viewers and agents, and lets viewers read', async () => {
  const [viewer, agent] = [await service.createKey('viewer'), await service.createKey('agent')]
  for (const { key } of [viewer, agent]) {
    expect((await post({ action: 'suspend', selector: { all: true }, confirm: 'suspend 0 agents' }, key)).status).toBe(
      403,
    )
  }
  expect((await service.call('GET', '/api/containments', { key: viewer.key })).status).toBe(200)
  const unknown = '00000000-0000-7000-8000-000000000000'
  expect((await service.call('GET', `/api/containments/${unknown}`, { key: viewer.key })).status).toBe(404)
})
