import { limits } from '@wardline/contract'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openTestService, type TestService } from '../../testing/service.ts'
import { forgetInstances } from './deletion.ts'

const maxInstances = 60
let service: TestService
beforeAll(async () => {
  service = await openTestService({ env: { WARDLINE_MAX_INSTANCES: String(maxInstances) } })
})
afterAll(() => service[Symbol.asyncDispose]())

const beat = (id: string, key?: string, via = service, extra = {}) =>
  via.call<{ error?: string }>('POST', '/api/heartbeat', {
    body: { instance_id: id, name: id, ...extra },
    ...(key ? { key } : {}),
  })
const beatAll = (prefix: string, count: number, key?: string, via = service) =>
  Promise.all(Array.from({ length: count }, (_, index) => beat(`${prefix}${index}`, key, via)))
const accepted = (answers: { status: number }[]) => answers.filter(({ status }) => status === 200).length
const createKey = async (max_instances: number, prefix: string) => {
  const body = { scope: 'agent', name: 'k', instances: [`${prefix}*`], max_instances }
  const created = await service.call<{ id: string; key: string }>('POST', '/api/keys', { body })
  return created.body
}
const counts = async () => {
  const rows = await service.rows<{ owner: string; count: number }>('select owner, count from instance_counts')
  return Object.fromEntries(rows.map(({ owner, count }) => [owner, Number(count)]))
}
const total = async () => Number((await service.rows<{ n: number }>('select count(*) as n from instances'))[0]!.n)
const remove = (id: string, key?: string) =>
  service.call<{ error?: string }>('DELETE', `/api/instances/${id}`, key ? { key } : {})
const detail = async (id: string) =>
  (await service.call<{ control: { version: number } }>('GET', `/api/instances/${id}`)).body

describe('a key', () => {
  // One stolen prefix key must not fill the fleet with agents that do not exist.
  it('registers instances up to its limit, even in one commit, and can always refresh those', async () => {
    const { id, key } = await createKey(5, 'a-')
    const answers = await beatAll('a-', 12, key)
    expect(accepted(answers)).toBe(5)
    const refused = answers.find(({ status }) => status !== 200)!
    expect(refused.status).toBe(403)
    expect(refused.headers['x-error-code']).toBe('instance_limit')
    expect(refused.body.error).toContain('at most 5 instances (max_instances of the key)')
    expect(accepted(await beatAll('a-', 12, key))).toBe(5)
    expect((await counts())[id]).toBe(5)
  })

  // Rejected agents retry every minute.
  it('spends no quota of new instances on registrations beyond its limit', async () => {
    const body = {
      scope: 'agent',
      name: 'k',
      instances: ['q-*'],
      max_instances: 2,
      quotas: { new_instances_per_hour: 6 },
    }
    const { key } = (await service.call<{ key: string }>('POST', '/api/keys', { body })).body
    expect(accepted(await beatAll('q-', 12, key))).toBe(2)
    for (let time = 0; time < 6; time++) {
      const refused = await beat('q-late', key)
      expect([refused.status, refused.body.error]).toEqual([403, expect.stringContaining('max_instances of the key')])
    }
    const registered = async () => await service.rows<{ id: string }>("select id from instances where id like 'q-%'")
    for (const round of ['x', 'y']) {
      for (const { id } of await registered()) await remove(id)
      expect(accepted(await beatAll(`q-${round}`, 2, key))).toBe(2)
    }
    for (const { id } of await registered()) await remove(id)
    expect((await beat('q-z', key)).status).toBe(429)
  })

  it('keeps its instances and its limit after rotation', async () => {
    const first = await createKey(3, 'b-')
    await beatAll('b-', 3, first.key)
    const rotated = await service.call<{ key: string; id: string }>('POST', `/api/keys/${first.id}/rotate`, {
      body: {},
    })
    const again = await service.call<{ key: string }>('POST', `/api/keys/${rotated.body.id}/rotate`, { body: {} })
    expect((await beat('b-9', again.body.key)).status).toBe(403)
    expect((await beat('b-0', again.body.key)).status).toBe(200)
  })

  it('keeps its limit across two processes', async () => {
    const { id, key } = await createKey(6, 'c-')
    await using other = await openTestService({ dataDir: service.deps.config.dataDir, clock: service.clock })
    const both = await Promise.all([beatAll('c-x', 8, key), beatAll('c-y', 8, key, other)])
    expect(accepted(both.flat())).toBe(6)
    expect((await counts())[id]).toBe(6)
  })

  it('shows its limit, and has one only with scope agent', async () => {
    const { id } = await createKey(7, 'd-')
    const { body } = await service.call<{ keys: { id: string; max_instances: number | null }[] }>('GET', '/api/keys')
    expect(body.keys.find((view) => view.id === id)?.max_instances).toBe(7)
    const plain = await service.createKey('agent')
    const viewer = await service.createKey('viewer')
    const list = await service.call<typeof body>('GET', '/api/keys')
    const of = (wanted: string) => list.body.keys.find((view) => view.id === wanted)?.max_instances
    expect([of(plain.id), of(viewer.id)]).toEqual([limits.keyInstances, null])
    const refused = await service.call<{ error: string }>('POST', '/api/keys', {
      body: { scope: 'viewer', name: 'v', max_instances: 3 },
    })
    expect([refused.status, refused.body.error]).toEqual([400, 'max_instances must be absent for scope viewer.'])
  })
})

describe('the service', () => {
  it('keeps its limit, whichever key registers', async () => {
    const before = await total()
    const answers = await beatAll('full-', maxInstances)
    expect(accepted(answers)).toBe(maxInstances - before)
    expect(await total()).toBe(maxInstances)
    expect((await counts())['']).toBe(maxInstances)
    const refused = answers.find(({ status }) => status !== 200)!
    expect([refused.status, refused.body.error]).toEqual([
      403,
      `This service keeps at most ${maxInstances} instances (WARDLINE_MAX_INSTANCES): delete unused instances, or raise the limit.`,
    ])
  })

  it('accepts a new instance after one was deleted', async () => {
    expect((await remove('full-0')).body).toEqual({ ok: true, id: 'full-0' })
    expect((await beat('new-1')).status).toBe(200)
    expect((await beat('new-2')).status).toBe(403)
    await remove('new-1')
  })
})

describe('deleting an instance', () => {
  it('removes it from every response, keeps its events and is audited', async () => {
    await beat('gone')
    await service.call('GET', '/api/instances/gone/status')
    await service.call('POST', '/api/events', {
      body: { severity: 'info', source: 's', event_type: 'note', description: 'x', instance_id: 'gone' },
    })
    await remove('gone')
    expect((await service.call('GET', '/api/instances/gone')).status).toBe(404)
    expect((await service.call('GET', '/api/instances/gone/status')).status).toBe(404)
    expect((await remove('gone')).status).toBe(404)
    const { body } = await service.call<{ events: unknown[] }>('GET', '/api/events?instance_id=gone')
    expect(body.events).toHaveLength(1)
    const [entry] = await service.rows(`select action, target from audit_log order by seq desc limit 1`)
    expect(entry).toEqual({ action: 'instance.delete', target: 'gone' })
  })

  // A deleted instance would return with its next heartbeat, unsuspended.
  it('never lifts a suspension', async () => {
    await beat('held')
    await service.call('POST', '/api/kill/held', { body: { reason: 'x' } })
    const refused = await remove('held')
    expect([refused.status, refused.headers['x-error-code']]).toEqual([400, 'suspended'])
    expect((await service.call<{ suspended: boolean }>('GET', '/api/instances/held/status')).body.suspended).toBe(true)
    await service.call('POST', '/api/resume/held')
    expect((await remove('held')).status).toBe(200)
  })

  it('never undoes a concurrent kill in another process', async () => {
    await using other = await openTestService({ dataDir: service.deps.config.dataDir, clock: service.clock })
    for (let round = 0; round < 10; round++) {
      const id = `race-${round}`
      await beat(id)
      const [killed, removed] = await Promise.all([
        other.call('POST', `/api/kill/${id}`, { body: { reason: 'x' } }),
        remove(id),
      ])
      expect([killed.status, removed.status]).not.toEqual([200, 200])
      if (killed.status === 200) await service.call('POST', `/api/resume/${id}`)
      await remove(id)
    }
  })

  // Agents ignore a kill that is older than the newest one they know.
  it('does not reset its control versions when it registers again', async () => {
    await beat('again')
    await service.call('POST', '/api/kill/again', { body: { reason: 'x' } })
    await service.call('POST', '/api/resume/again')
    await remove('again')
    await beat('again')
    expect((await detail('again')).control.version).toBe(2)
    await service.call('POST', '/api/kill/again', { body: { reason: 'x' } })
    expect((await detail('again')).control.version).toBe(3)
    await service.call('POST', '/api/resume/again')
    await remove('again')
  })

  it('requires an administrator', async () => {
    for (const scope of ['agent', 'viewer', 'operator'] as const) {
      const { key } = await service.createKey(scope, ['a-0'])
      expect((await remove('a-0', key)).status).toBe(403)
    }
  })
})

describe('an instance that sent one heartbeat', () => {
  it('is deleted after WARDLINE_FORGET_INSTANCES_DAYS, unless it was ever suspended', async () => {
    await using fresh = await openTestService({ env: { WARDLINE_FORGET_INSTANCES_DAYS: '2' } })
    for (const id of ['once', 'twice', 'killed', 'resumed']) await beat(id, undefined, fresh)
    fresh.clock.advance(1_000)
    await beat('twice', undefined, fresh)
    for (const id of ['killed', 'resumed']) await fresh.call('POST', `/api/kill/${id}`, { body: { reason: 'x' } })
    await fresh.call('POST', '/api/resume/resumed')
    const ids = async () =>
      (await fresh.rows<{ id: string }>('select id from instances order by id')).map(({ id }) => id)
    fresh.clock.advance(2 * 86_400_000 - 1_000)
    await forgetInstances(fresh.deps)
    expect(await ids()).toEqual(['killed', 'once', 'resumed', 'twice'])
    fresh.clock.advance(1)
    await forgetInstances(fresh.deps)
    expect(await ids()).toEqual(['killed', 'resumed', 'twice'])
    const [row] = await fresh.rows<{ count: number }>(`select count from instance_counts where owner = ''`)
    expect(Number(row!.count)).toBe(3)
  })
})
