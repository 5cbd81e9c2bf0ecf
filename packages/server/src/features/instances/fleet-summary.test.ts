import { gunzipSync } from 'node:zlib'
import {
  type FleetGroups,
  type FleetSummary,
  type FleetTags,
  limits,
  offlineAfterMs,
  type SharedFleet,
} from '@wardline/contract'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { adminKey, openTestService, type TestService } from '../../testing/service.ts'

let service: TestService
beforeAll(async () => {
  service = await openTestService()
})
afterAll(() => service[Symbol.asyncDispose]())
beforeEach(async () => {
  for (const table of ['instances', 'suspensions']) await service.execute(`delete from ${table}`)
  service.clock.advance(120_000)
})

const page = async (query = '') => (await service.call<SharedFleet>('GET', `/api/fleet${query}`)).body
const ids = async (query = '') => (await page(query)).instances.map(({ id }) => id)
const summary = async (query = '') => (await service.call<FleetSummary>('GET', `/api/fleet/summary${query}`)).body
const groups = async (query: string) => (await service.call<FleetGroups>('GET', `/api/fleet/groups?${query}`)).body
const beat = (id: string, more = {}) =>
  service.call('POST', '/api/heartbeat', { body: { instance_id: id, name: id, ...more } })
async function kill(id: string): Promise<void> {
  const { status, text } = await service.call('POST', `/api/kill/${id}`, { body: { reason: 'why' } })
  expect(status, text).toBe(200)
}

/** Inserts agents `i000001` and so on, every hundredth offline. */
async function fill(count: number): Promise<void> {
  const now = service.clock.now()
  await service.execute(`insert into instances (id, name, version, first_seen_at, last_heartbeat_at, liveness, agent_tags)
    select 'i' || substr('00000' || n, length('00000' || n) - 5), 'agent', '1.' || (n % 12), 0,
      ${now} - case when n % 100 = 0 then 600000 else n % 50 end,
      case when n % 100 = 0 then 'offline' else 'online' end, '["env:' || (n % 3) || '","team"]'
    from (with recursive more(n) as (select 1 union all select n + 1 from more where n < ${count}) select n from more) as m`)
  service.clock.advance(60_000)
  await service.execute(`update instances set last_heartbeat_at = last_heartbeat_at + 60000`)
  await service.execute(`insert into instance_counts (owner, count) values ('', ${count})
    on conflict (owner) do update set count = ${count}`)
}
async function all(query: string): Promise<string[]> {
  const found: string[] = []
  for (let after = ''; ; ) {
    const { instances, next } = await page(`?limit=1000${query}${after}`)
    found.push(...instances.map(({ id }) => id))
    if (next === null) return found
    after = `&after=${next}`
  }
}

describe('a page of the fleet', () => {
  it('shows the state of each agent, what it reported and what it confirmed', async () => {
    await beat('a', { version: '1.2', fail_mode: 'closed', tags: ['env:test'] })
    await beat('b')
    await kill('a')
    const [suspended, plain] = (await page()).instances
    expect(suspended).toMatchObject({
      id: 'a',
      status: 'suspended',
      suspension_reason: 'why',
      version: '1.2',
      fail_mode: 'closed',
      tags: ['env:test'],
      operator_tags: [],
      control: { version: 1, confirmed: false, applied_version: null },
    })
    expect(plain).toMatchObject({ id: 'b', status: 'active', version: null, fail_mode: null })
    expect(plain).not.toHaveProperty('control')
  })

  it('filters by status and by words of the id, tags and version', async () => {
    await beat('a', { tags: ['env:prod', 'finance'], version: '4.10.0', fail_mode: 'closed' })
    await beat('b', { tags: ['env:prod'], version: '4.9.0' })
    await beat('c', { tags: ['env:lab'], fail_mode: 'open' })
    await beat('d')
    await kill('b')
    const at = service.clock.now()
    await service.execute(`update instances set last_heartbeat_at = ${at - offlineAfterMs - 1} where id = 'c'`)
    await service.execute(`update instances set supervised_at = ${at} where id = 'd'`)
    expect(await ids('?q=PROD+4.9')).toEqual(['b'])
    expect(await ids('?q=+finance+')).toEqual(['a'])
    // A sign of LIKE is a letter like any other.
    expect(await ids('?q=%25')).toEqual([])
    expect(await ids('?q=why')).toEqual(['b'])
    expect(await ids('?status=suspended')).toEqual(['b'])
    expect(await ids('?status=unconfirmed')).toEqual(['b'])
    expect(await ids('?status=offline')).toEqual(['c'])
    expect(await ids('?status=active')).toEqual(['a', 'd'])
    expect(await ids('?status=asked')).toEqual(['a', 'b', 'c'])
    expect(await ids('?from=c')).toEqual(['c', 'd'])
    expect(await ids('?ids=c,x,a')).toEqual(['a', 'c'])
    expect(await ids('?sort=version&down=true')).toEqual(['a', 'b', 'd', 'c'])
    expect((await ids('?sort=fails'))[0]).toBe('c')
    expect(await ids('?sort=status')).toEqual(['b', 'c', 'a', 'd'])
    expect(await ids('?sort=heartbeat')).toEqual(['c', 'a', 'b', 'd'])
    expect((await summary('?q=prod')).state?.counts).toMatchObject({ all: 2, active: 1, suspended: 1, asked: 2 })
  })

  it.each(['limit=0', 'limit=1001', 'after=x', 'status=asleep', 'sort=name', 'ids=A'])('refuses %s', async (query) => {
    expect((await service.call('GET', `/api/fleet?${query}`)).status).toBe(400)
  })

  // Above 2,000 agents, other ways of reading apply.
  it.each(['id', 'status', 'version', 'fails', 'control', 'heartbeat'])(
    'lists every agent of a large fleet once, by %s up and down',
    async (sort) => {
      await fill(2_500)
      await kill('i000007')
      const up = await all(`&sort=${sort}`)
      expect(new Set(up).size).toBe(2_500)
      expect(up).toHaveLength(2_500)
      expect(await all(`&sort=${sort}&down=true`)).toEqual(up.toReversed())
      if (sort === 'status') expect(up.slice(0, 3)).toEqual(['i000007', 'i000100', 'i000200'])
      if (sort === 'heartbeat') expect(up.slice(0, 2)).toEqual(['i000100', 'i000200'])
    },
  )

  it('is compressed for clients that accept gzip', async () => {
    await fill(100)
    const headers = { 'x-monitor-key': adminKey, 'accept-encoding': 'br, gzip' }
    const answer = await service.app.inject({ method: 'GET', url: '/api/fleet', headers })
    expect(answer.headers['content-encoding']).toBe('gzip')
    expect(JSON.parse(gunzipSync(answer.rawPayload).toString()).instances).toHaveLength(100)
    const plain = { ...headers, 'accept-encoding': 'br, gzip;q=0' }
    const whole = await service.app.inject({ method: 'GET', url: '/api/fleet', headers: plain })
    expect(whole.headers).not.toHaveProperty('content-encoding')
    expect(whole.json().instances).toHaveLength(100)
  })
})

describe('groups by tag', () => {
  it('count agents by what their tags say, and lead to their agents', async () => {
    await beat('a', { tags: ['env:prod', 'finance'] })
    await beat('b', { tags: ['env:prod'] })
    await beat('c', { tags: ['env:lab', 'env:prod'] })
    await beat('d')
    await kill('b')
    const zero = { suspended: 0, unconfirmed: 0, offline: 0 }
    expect(await groups('by=env')).toEqual({
      groups: [
        { ...zero, name: 'lab · prod', all: 1 },
        { ...zero, name: 'prod', all: 2, suspended: 1, unconfirmed: 1 },
        { ...zero, name: '', all: 1 },
      ],
      omitted: 0,
    })
    expect(await ids('?group=env&in=prod')).toEqual(['a', 'b'])
    expect(await ids(`?group=env&in=${encodeURIComponent('lab · prod')}`)).toEqual(['c'])
    expect(await ids('?group=env&in=')).toEqual(['d'])
    expect(await ids(`?group=tags&in=${encodeURIComponent('env:prod · finance')}`)).toEqual(['a'])
    expect(await ids('?group=tags&in=')).toEqual(['d'])
    const { body } = await service.call<FleetTags>('GET', '/api/fleet/tags')
    expect(body.groups).toEqual(['tags', 'env'])
    expect(body.tags[0]).toEqual({ tag: 'env:prod', running: 2, suspended: 1, resumable: 0 })
  })
})

describe('the summary of the fleet', () => {
  it('shows a kill, a resume and a deletion in the next read', async () => {
    await beat('a')
    await beat('b')
    const counts = async () => (await summary()).state!.counts
    expect(await counts()).toMatchObject({ all: 2, active: 2, suspended: 0 })
    await kill('b')
    expect(await counts()).toMatchObject({ all: 2, active: 1, suspended: 1, states: { pending: 1 } })
    expect((await summary()).state).toMatchObject({
      marks: [
        { from: 'a', agents: 1 },
        { from: 'b', agents: 1, suspended: 1, unconfirmed: 1 },
      ],
      waiting: [{ state: 'pending', agents: 1, first: [{ id: 'b', fail_mode: null }] }],
    })
    await service.call('POST', '/api/resume/b')
    expect(await counts()).toMatchObject({ suspended: 0, unresumed: 1 })
    await service.call('DELETE', '/api/instances/a')
    expect(await counts()).toMatchObject({ all: 1 })
  })

  it('is read from the database once in two seconds, and left out while it stays the same', async () => {
    await beat('a')
    const before = await summary()
    await beat('c')
    expect(await summary()).toEqual(before)
    expect(await summary(`?known=${before.digest}`)).not.toHaveProperty('state')
    service.clock.advance(10_000)
    expect((await summary(`?known=${before.digest}`)).state?.counts.all).toBe(2)
  })

  it('has marks for parts of a large fleet, and groups of what went silent together', async () => {
    await fill(2_500)
    const { counts, marks, silent } = (await summary()).state!
    expect(counts).toMatchObject({ all: 2_500, active: 2_475, offline: 25, silent: 25, asked: 2_500 })
    expect(marks).toHaveLength(Math.ceil(2_500 / Math.ceil(2_500 / limits.fleetMarks)))
    expect(marks.reduce((sum, { agents }) => sum + agents, 0)).toBe(2_500)
    expect(marks[0]).toEqual({ from: 'i000001', to: 'i000007', agents: 7 })
    expect(silent).toMatchObject([{ agents: 25, ids: ['i000100', 'i000200', 'i000300'] }])
  })

  it('sorts the newest of agents that went silent one by one, not all of them', async () => {
    await fill(2_500)
    await service.execute(`update instances set liveness = 'offline',
      last_heartbeat_at = ${service.clock.now()} - 600000 - 60000 * cast(substr(id, 2) as integer)`)
    const { counts, silent } = (await summary()).state!
    expect(counts.silent).toBe(2_500)
    expect(silent.map(({ ids }) => ids)).toEqual(
      Array.from({ length: limits.fleetSilent }, (_, index) => [`i${String(index + 1).padStart(6, '0')}`]),
    )
  })

  it('looks for a limited number of different words', async () => {
    await beat('a')
    const words = (count: number) => Array.from({ length: count }, (_, index) => `w${index}`).join('+')
    const allowed = limits.fleetFilterWords
    for (const path of ['', '/summary']) {
      const refused = await service.call('GET', `/api/fleet${path}?q=${words(allowed + 1)}`)
      expect([refused.status, refused.text]).toEqual([400, expect.stringContaining('q may have at most 10 words.')])
      expect((await service.call('GET', `/api/fleet${path}?q=${words(allowed)}+w1+w1`)).status).toBe(200)
    }
  })

  // A dashboard reads it every five seconds.
  it('is of one size for any fleet', async () => {
    const sizeAt = async (count: number) => {
      await service.execute('delete from instances')
      await fill(count)
      service.clock.advance(10_000)
      await service.execute(`update instances set last_heartbeat_at = last_heartbeat_at + 10000`)
      return Buffer.byteLength((await service.call('GET', '/api/fleet/summary')).text)
    }
    const small = await sizeAt(limits.fleetMarks)
    expect(await sizeAt(20 * limits.fleetMarks)).toBeLessThan(2 * small)
    expect(small).toBeLessThan(40_000)
  })
})

it('names what stops an agent without its cooperation, and not what no longer does', async () => {
  const at = service.clock.now()
  await beat('z')
  await service.execute(`update instances set supervised_at = ${at}, model_called_at = ${at} where id = 'z'`)
  const levers = async () => (await page()).instances.map(({ enforcing_levers }) => enforcing_levers)
  const asked = async () => (await summary()).state!.counts.asked
  expect(await levers()).toEqual([['process', 'model']])
  expect(await asked()).toBe(0)
  service.clock.advance(offlineAfterMs + 1)
  expect(await levers()).toEqual([['model']])
  service.clock.advance(86_400_000)
  expect(await levers()).toEqual([undefined])
  expect(await asked()).toBe(1)
})

it('contains only the counts in the status without instances', async () => {
  const { body } = await service.call<{ instances: unknown[]; stats: object }>('GET', '/api/status?omit=instances')
  expect(body.instances).toEqual([])
  expect(body.stats).toHaveProperty('breach')
})
