import type { ContainmentList, KeyCreated } from '@wardline/contract'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { openTestService, type TestService } from '../../testing/service.ts'

interface Answer {
  error: string
}
interface Key {
  id: string
  key: string
}

const minute = 60_000
let service: TestService
let first: Key
let second: Key
const open = async (env: Record<string, string> = { WARDLINE_TWO_PERSON_RESUME: 'true' }) => {
  service = await openTestService({ env })
  first = await service.createKey('operator')
  second = await service.createKey('operator')
  await service.call('POST', '/api/heartbeat', { body: { instance_id: 'a', name: 'a' } })
  await service.call('POST', '/api/heartbeat', { body: { instance_id: 'b', name: 'b' } })
}
afterEach(() => service[Symbol.asyncDispose]())

const kill = (id = 'a') => service.call('POST', `/api/kill/${id}`, { key: first.key, body: { reason: 'x' } })
const resume = async ({ key }: { key: string }, id = 'a') => {
  const { status, body, headers } = await service.call<Answer>('POST', `/api/resume/${id}`, { key })
  return { status, error: body.error, code: headers['x-error-code'] }
}
const contain = async ({ key }: { key: string }, body: object) => {
  const answer = await service.call<Answer & { id: string; confirmed_by: string | null }>('POST', '/api/containments', {
    key,
    body: { reason: 'over', ...body },
  })
  await service.services.containmentWork.whenIdle()
  return answer
}
const pending = async ({ key }: { key: string } = second) =>
  (await service.call<ContainmentList>('GET', '/api/containments', { key })).body.resume_requests
const isSuspended = async (id = 'a') =>
  (await service.call<{ suspended: boolean }>('GET', `/api/instances/${id}/status`)).body.suspended
const audited = async () =>
  (
    await service.call<{ entries: { action: string; actor: string; target: string }[] }>('GET', '/api/audit')
  ).body.entries
    .slice(-3)
    .map(({ action, actor, target }) => [action, actor, target])

describe('a resume that needs two operators', () => {
  beforeEach(async () => {
    await open()
    await kill()
  })

  it('waits for another key, names the deadline and records both operators in the audit log', async () => {
    const asked = await resume(first)
    const until = new Date(service.clock.now() + 15 * minute).toISOString()
    expect(asked).toEqual({
      status: 409,
      code: 'second_operator_required',
      error: `A second operator must confirm this resume by sending the same request with another operator key before ${until}.`,
    })
    expect(await isSuspended()).toBe(true)
    expect(await pending()).toMatchObject([
      { instance_id: 'a', agents: 1, by: first.id, by_name: 'operator of a test', own: false, expires_at: until },
    ])
    expect(await pending(first)).toMatchObject([{ own: true }])
    service.clock.advance(minute)
    expect(await resume(first)).toMatchObject({
      status: 409,
      error: `This key requested the resume: an operator with another key must confirm it by sending the same request before ${until}.`,
    })
    expect(await resume(second)).toMatchObject({ status: 200 })
    expect(await isSuspended()).toBe(false)
    expect(await pending()).toEqual([])
    expect(await audited()).toEqual([
      ['resume.request', first.id, 'a'],
      ['resume.confirm', second.id, 'a'],
      ['instance.resume', second.id, 'a'],
    ])
  })

  it('is not confirmed by the successor of the requesting key or by a session of it', async () => {
    await resume(first)
    const { body: successor } = await service.call<KeyCreated>('POST', `/api/keys/${first.id}/rotate`, { body: {} })
    expect(await resume(successor)).toMatchObject({ status: 409, code: 'second_operator_required' })
    const { headers } = await service.signIn(first.key)
    const bySession = await service.call<Answer>('POST', '/api/resume/a', {
      key: null,
      headers: { ...headers, 'sec-fetch-site': 'same-origin' },
    })
    expect([bySession.status, bySession.headers['x-error-code']]).toEqual([409, 'second_operator_required'])
    expect(await isSuspended()).toBe(true)
  })

  it('is confirmed by the dashboard session of another key', async () => {
    await resume(first)
    const { headers } = await service.signIn(second.key)
    const { status } = await service.call('POST', '/api/resume/a', {
      key: null,
      headers: { ...headers, 'sec-fetch-site': 'same-origin' },
    })
    expect(status).toBe(200)
  })

  it('expires after 15 minutes, and the other key then makes a new request', async () => {
    await resume(first)
    service.clock.advance(15 * minute)
    expect(await pending()).toEqual([])
    expect(await resume(second)).toMatchObject({ status: 409 })
    expect(await pending(second)).toMatchObject([{ by: second.id, own: true }])
    expect(await resume(first)).toMatchObject({ status: 200 })
  })

  it('counts only for the suspension that it was requested for', async () => {
    await resume(first)
    await resume(second)
    await kill()
    await resume(first)
    await service.execute(`update instances set control_version = control_version + 2 where id = 'a'`)
    expect(await resume(second)).toMatchObject({ status: 409 })
    expect(await isSuspended()).toBe(true)
  })

  it('is requested once and confirmed once under concurrent calls', async () => {
    await Promise.all([resume(first), resume(first), resume(first)])
    expect(await pending()).toHaveLength(1)
    const third = await service.createKey('operator')
    const statuses = await Promise.all([second, third, second].map((key) => resume(key)))
    expect(statuses.filter(({ status }) => status === 200)).toHaveLength(1)
    expect(await isSuspended()).toBe(false)
  })

  it('is refused as before for an unknown agent or one that is not suspended', async () => {
    expect(await resume(first, 'b')).toMatchObject({ status: 400 })
    expect(await resume(first, 'nobody')).toMatchObject({ status: 404 })
    expect(await pending()).toEqual([])
  })

  it('of a containment needs the same agents, and their current number', async () => {
    await kill('b')
    const request = { action: 'resume', selector: { instances: ['a', 'b'] }, confirm: 'resume 2 agents' }
    expect((await contain(first, request)).status).toBe(409)
    expect(await pending()).toMatchObject([{ instance_id: null, selector: { instances: ['a', 'b'] }, agents: 2 }])
    expect((await contain(second, { ...request, confirm: 'resume 3 agents' })).status).toBe(409)
    expect(
      (await contain(second, { ...request, selector: { instances: ['a'] }, confirm: 'resume 1 agent' })).status,
    ).toBe(409)
    expect((await contain(first, request)).status).toBe(409)
    expect(await isSuspended()).toBe(true)
    const done = await contain(second, { ...request, selector: { instances: ['b', 'a'] } })
    expect([done.status, done.body.confirmed_by]).toEqual([201, second.id])
    expect([await isSuspended('a'), await isSuspended('b')]).toEqual([false, false])
  })

  it('needs a new request when the selector matches other agents or one was suspended again', async () => {
    const all = { action: 'resume', selector: { all: true } }
    expect((await contain(first, { ...all, confirm: 'resume 1 agents' })).status).toBe(409)
    await kill('b')
    const more = { ...all, confirm: 'resume 2 agents' }
    const refused = await contain(second, more)
    expect([refused.status, refused.body.error]).toEqual([409, expect.stringMatching(/^A second operator must/)])
    expect(await pending(first)).toMatchObject([
      { agents: 2, by: second.id },
      { agents: 1, instance_id: 'a', by: first.id },
    ])
    expect(await resume(first)).toMatchObject({ code: 'second_operator_required' })
    expect(await resume(second)).toMatchObject({ status: 200 })
    await kill()
    expect((await contain(first, more)).status).toBe(409)
    expect([await isSuspended('a'), await isSuspended('b')]).toEqual([true, true])
    expect((await contain(second, more)).status).toBe(201)
  })

  // Two of them waited, and one stayed open after all of its agents were resumed.
  it.each([
    ['a tag and another tag', { tags: ['x'] }, { tags: ['y', 'x'] }],
    ['a tag and the ids', { tags: ['x'] }, { instances: ['b', 'a'] }],
    ['the ids and all', { instances: ['a', 'b'] }, { all: true }],
  ])('is one request for the same agents, selected by %s', async (_how, one, other) => {
    await service[Symbol.asyncDispose]()
    await open({ WARDLINE_TWO_PERSON_RESUME: 'true', ALERT_WEBHOOK_URL: 'http://127.0.0.1:9/x' })
    await kill()
    await kill('b')
    for (const id of ['a', 'b']) {
      await service.call('PUT', `/api/instances/${id}/tags`, { body: { tags: ['x', 'y'] } })
    }
    const asking = { action: 'resume', confirm: 'resume 2 agents' }
    expect((await contain(first, { ...asking, selector: one })).status).toBe(409)
    expect((await contain(first, { ...asking, selector: other })).status).toBe(409)
    expect(await pending()).toMatchObject([{ agents: 2, by: first.id, own: false }])
    const { status, body } = await contain(second, { ...asking, selector: other })
    expect(status).toBe(201)
    expect(await pending()).toEqual([])
    const named = { by: first.id, confirmed_by: second.id, confirmed_by_name: 'operator of a test' }
    expect((await service.call('GET', `/api/containments/${body.id}`)).body).toMatchObject(named)
    const alerts = await service.rows(`select description from alerts where event_type = 'containment_started'`)
    expect(alerts).toEqual([
      { description: 'Resuming 2 agents, requested by operator of a test and confirmed by operator of a test: over' },
    ])
  })

  it('of a containment of one agent is that of the agent', async () => {
    expect(
      (await contain(first, { action: 'resume', selector: { all: true }, confirm: 'resume 1 agent' })).status,
    ).toBe(409)
    expect(await pending()).toMatchObject([{ instance_id: 'a', id: null }])
    expect(await resume(second)).toMatchObject({ status: 200 })
    expect(await pending()).toEqual([])
  })

  it('is no longer listed once none of its agents is suspended', async () => {
    await kill('b')
    await contain(first, { action: 'resume', selector: { all: true }, confirm: 'resume 2 agents' })
    for (const id of ['a', 'b']) {
      await resume(first, id)
      await resume(second, id)
    }
    expect(await pending()).toEqual([])
  })

  it('of a containment is confirmed once under concurrent calls', async () => {
    const request = { action: 'resume', selector: { instances: ['a'] }, confirm: 'resume 1 agent' }
    await contain(first, request)
    const third = await service.createKey('operator')
    const answers = await Promise.all([second, third].map((key) => contain(key, request)))
    expect(answers.map(({ status }) => status).toSorted()).toEqual([201, 409])
    expect(await isSuspended()).toBe(false)
  })

  it('does not delay a suspension, which needs one operator', async () => {
    expect(
      (await contain(first, { action: 'suspend', selector: { all: true }, confirm: 'suspend 1 agent' })).status,
    ).toBe(201)
    expect(await isSuspended('b')).toBe(true)
  })
})

describe('a containment with two_person', () => {
  beforeEach(() => open({}))

  it('requires two operators for each resume of its agents, alone or together', async () => {
    const suspend = { action: 'suspend', selector: { all: true }, two_person: true }
    expect((await contain(first, { ...suspend, confirm: 'suspend 2 agents' })).status).toBe(201)
    expect(await resume(first, 'a')).toMatchObject({ status: 409, code: 'second_operator_required' })
    expect(await resume(second, 'a')).toMatchObject({ status: 200 })
    const request = { action: 'resume', selector: { all: true }, confirm: 'resume 1 agent' }
    expect((await contain(first, request)).status).toBe(409)
    expect((await contain(second, request)).status).toBe(201)
    expect(await isSuspended('b')).toBe(false)
  })

  it('does not change how other suspensions are resumed', async () => {
    await kill()
    expect(await resume(first)).toMatchObject({ status: 200 })
  })
})

describe('a request with more than 100 agents', () => {
  const register = async (count: number) => {
    const ids = Array.from({ length: count }, (_, n) => `m-${String(n).padStart(3, '0')}`)
    await Promise.all(ids.map((id) => service.call('POST', '/api/heartbeat', { body: { instance_id: id, name: id } })))
    return ids
  }
  type Members = { instances: string[]; next: string | null }

  it('is read page by page by the second operator, who then confirms it', async () => {
    await open({})
    const ids = await register(130)
    const selector = { instances: ids.toReversed() }
    const suspending = { action: 'suspend', selector, confirm: 'suspend 130 agents', two_person: true }
    expect((await contain(first, suspending)).status).toBe(201)
    const resuming = { action: 'resume', selector, confirm: 'resume 130 agents' }
    expect((await contain(first, resuming)).status).toBe(409)
    const [request] = await pending()
    expect(request!.selector!.instances).toHaveLength(100)
    const read: string[] = []
    for (let after: string | null = ''; after !== null; ) {
      const query: string = after === '' ? '?limit=50' : `?limit=50&after=${after}`
      const { status, body } = await service.call<Members>(
        'GET',
        `/api/resume-requests/${request!.id}/instances${query}`,
        { key: second.key },
      )
      expect(status).toBe(200)
      expect(body.instances.length).toBeLessThanOrEqual(50)
      read.push(...body.instances)
      after = body.next
    }
    expect(read).toEqual(ids)
    const confirmed = await contain(second, { ...resuming, selector: { instances: read } })
    expect(confirmed).toMatchObject({ status: 201, body: { confirmed_by: second.id } })
    expect(await isSuspended('m-129')).toBe(false)
    const gone = await service.call('GET', `/api/resume-requests/${request!.id}/instances`, { key: second.key })
    expect(gone.status).toBe(404)
  })

  it('has the members that its selector found, and no id when it is for one agent', async () => {
    await open()
    await contain(first, { action: 'suspend', selector: { all: true }, confirm: 'suspend 2 agents' })
    await contain(first, { action: 'resume', selector: { all: true }, confirm: 'resume 2 agents' })
    await resume(first)
    const requests = await pending()
    const ofFleet = requests.find(({ instance_id }) => instance_id === null)!
    expect(requests.find(({ instance_id }) => instance_id === 'a')!.id).toBeNull()
    const { body } = await service.call<Members>('GET', `/api/resume-requests/${ofFleet.id}/instances`)
    expect(body).toEqual({ instances: ['a', 'b'], next: null })
  })
})
