import type { Heartbeat, InstanceDetail, InstanceList } from '@wardline/contract'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { openTestService, type TestService } from '../../testing/service.ts'
import { forgetInstances } from './deletion.ts'
import { maxLevels } from './parent-statements.ts'

let service: TestService
beforeEach(async () => {
  service = await openTestService()
})
afterEach(() => service[Symbol.asyncDispose]())

const beat = (id: string, parent?: string, more: Partial<Heartbeat> = {}, key?: string, on = service) =>
  on.call<{ ok?: true; error?: string }>('POST', '/api/heartbeat', {
    body: { instance_id: id, name: id, ...(parent === undefined ? {} : { parent_instance_id: parent }), ...more },
    ...(key === undefined ? {} : { key }),
  })
const view = async (id: string) => (await service.call<InstanceDetail>('GET', `/api/instances/${id}`)).body
const parentOf = async (id: string) => (await view(id)).parent_instance_id
/** Sends heartbeats in one transaction. */
const together = (pairs: readonly (readonly [string, string?])[]) =>
  Promise.all(pairs.map(([id, parent]) => beat(id, parent)))
const warnings = async () => {
  await service.services.countedReports.flush()
  await service.services.ingest.whenIdle()
  const rows = await service.rows<{ description: string }>(
    `select description from events where event_type = 'parent_ignored' order by seq`,
  )
  return rows.map(({ description }) => description)
}

describe('a parent', () => {
  it('is set at the registration or once later, whether or not it is registered', async () => {
    await beat('child', 'lead')
    expect(await view('child')).toMatchObject({ parent_instance_id: 'lead', children: 0, descendants: 0 })
    await beat('lead')
    await beat('later')
    expect(await parentOf('later')).toBeNull()
    await beat('later', 'lead')
    await beat('below', 'later')
    expect(await parentOf('later')).toBe('lead')
    expect(await view('lead')).toMatchObject({ parent_instance_id: null, children: 2, descendants: 3 })
    expect(await warnings()).toEqual([])
    const list = await service.call<InstanceList>('GET', '/api/instances?parent=lead')
    expect(list.body.instances.map(({ id }) => id)).toEqual(['child', 'later'])
    expect((await service.call('GET', '/api/instances?parent=No')).status).toBe(400)
  })

  // A turned agent would otherwise leave its parent before that one is suspended.
  it('never changes and never ends, and a heartbeat that names another one is accepted and reported', async () => {
    await beat('child', 'lead')
    expect((await beat('child', 'other')).status).toBe(200)
    await beat('child')
    expect(await parentOf('child')).toBe('lead')
    expect(await warnings()).toEqual(['The agent names other as its parent; it keeps lead, which it named first.'])
  })

  it('is set by the heartbeat of a supervisor as well, and that of the agent comes first', async () => {
    const supervisor = { processes: 1, isolated: true }
    await Promise.all([beat('child', 'by-supervisor', { supervisor }), beat('child', 'by-agent')])
    expect(await parentOf('child')).toBe('by-agent')
    await beat('second', 'lead', { supervisor })
    expect(await parentOf('second')).toBe('lead')
  })

  it('is not the agent itself', async () => {
    const answer = await beat('child', 'child')
    expect([answer.status, answer.body.error]).toEqual([
      400,
      'parent_instance_id must be the id of another instance than instance_id.',
    ])
    for (const parent of ['', 'Upper', 'a b', 'x'.repeat(65)]) expect((await beat('child', parent)).status).toBe(400)
    expect(await service.rows('select id from instances')).toEqual([])
  })

  // By the answers a key could otherwise find out which ids exist, or register others.
  it('that exists, that does not and that belongs to others get the same answer, and none is registered', async () => {
    const { key } = await service.createKey('agent', ['mine-*'])
    await beat('victim')
    const answers = await Promise.all(
      ['victim', 'ghost', 'mine-0'].map((parent, index) => beat(`mine-${index + 1}`, parent, {}, key)),
    )
    expect(new Set(answers.map(({ status, text }) => `${status} ${text}`))).toEqual(new Set(['200 {"ok":true}']))
    const ids = await service.rows<{ id: string }>('select id from instances order by id')
    expect(ids.map(({ id }) => id)).toEqual(['mine-1', 'mine-2', 'mine-3', 'victim'])
  })
})

describe('a circle', () => {
  it('is refused for the heartbeat that would close it, which is accepted', async () => {
    await beat('a', 'b')
    await beat('b', 'c')
    expect((await beat('c', 'a')).status).toBe(200)
    expect([await parentOf('a'), await parentOf('b'), await parentOf('c')]).toEqual(['b', 'c', null])
    expect(await warnings()).toEqual([
      'The agent names a as its parent; that would make a circle, or a tree of more than 8 levels: it has no parent.',
    ])
    await beat('c', 'd')
    expect(await parentOf('c'), 'another attempt within the minute').toBeNull()
    service.clock.advance(60_000)
    await beat('c', 'd')
    expect(await parentOf('c')).toBe('d')
  })

  it.each([
    ['known', true],
    ['new', false],
  ])('within one transaction leaves its %s agents without a parent', async (_name, isKnown) => {
    if (isKnown) await together([['a'], ['b'], ['c']])
    await together([
      ['a', 'b'],
      ['b', 'c'],
      ['c', 'a'],
    ])
    expect([await parentOf('a'), await parentOf('b'), await parentOf('c')]).toEqual([null, null, null])
  })

  it('is not closed by two processes at once', async () => {
    await using other = await openTestService({ dataDir: service.deps.config.dataDir, clock: service.clock })
    for (let round = 0; round < 20; round++) {
      const [one, two] = [`one-${round}`, `two-${round}`]
      if (round % 2 === 0) await together([[one], [two]])
      await Promise.all([beat(one, two), beat(two, one, {}, undefined, other)])
      expect([await parentOf(one), await parentOf(two)], `round ${round}`).toContain(null)
    }
  })
})

describe('a tree', () => {
  const chain = (from: number, to: number) =>
    Array.from({ length: to - from + 1 }, (_, index) => [`n-${from + index}`, `n-${from + index - 1}`] as const)

  it.each([
    ['downward', (rows: readonly (readonly [string, string])[]) => rows],
    ['upward', (rows: readonly (readonly [string, string])[]) => rows.toReversed()],
  ])(`has at most ${maxLevels} levels below its root, built %s`, async (_name, order) => {
    for (const [id, parent] of order(chain(1, maxLevels))) await beat(id, parent)
    await beat('n-0')
    expect(await view('n-0')).toMatchObject({ children: 1, descendants: maxLevels })
    await beat(`n-${maxLevels + 1}`, `n-${maxLevels}`)
    await beat('n-0', 'above')
    expect(await parentOf(`n-${maxLevels + 1}`)).toBeNull()
    expect(await parentOf('n-0')).toBeNull()
    expect(await warnings()).toHaveLength(2)
  })

  it('within one transaction is no deeper either', async () => {
    await together(chain(1, 20))
    const deepest = await service.rows<{ id: string }>(`with recursive below (id, level) as (
      select id, 1 from instances where parent_id = 'n-0' union all select instances.id, level + 1 from below join instances on parent_id = below.id)
      select id from below where level > ${maxLevels}`)
    expect(deepest).toEqual([])
  })

  it('may have 2,000 children, who may register before their parent', async () => {
    const registers = { owner: 'k', max: null, tags: null }
    const send = (id: string, parent?: string) => {
      const heartbeat = { instance_id: id, name: id, ...(parent === undefined ? {} : { parent_instance_id: parent }) }
      return service.services.heartbeats.beat(heartbeat, { registers, instances: null, keyId: 'k' })
    }
    await Promise.all(Array.from({ length: 2_000 }, (_, index) => send(`many-${index}`, 'lead')))
    await send('lead', 'root')
    await beat('root')
    expect(await view('lead')).toMatchObject({ parent_instance_id: 'root', children: 2_000 })
    expect(await view('root')).toMatchObject({ children: 1, descendants: 2_001 })
  })
})

describe('deleting', () => {
  const remove = (id: string) => service.call<{ error?: string }>('DELETE', `/api/instances/${id}`)

  it('a parent leaves its name to its children, and one that registers again is their parent', async () => {
    await together([['lead'], ['child', 'lead']])
    expect((await remove('lead')).status).toBe(200)
    expect(await parentOf('child')).toBe('lead')
    await beat('lead')
    expect((await view('lead')).children).toBe(1)
  })

  // What is below it would otherwise go on when what is above it is suspended.
  it('an agent between a parent and children is refused until these are deleted', async () => {
    await together([['root'], ['lead', 'root'], ['child', 'lead']])
    const refused = await remove('lead')
    expect([refused.status, refused.body.error]).toEqual([
      409,
      'The instance has a parent and children, which would no longer stop with root: delete its children first.',
    ])
    expect((await remove('child')).status).toBe(200)
    expect((await remove('lead')).status).toBe(200)
  })

  it('agents that sent a single heartbeat leaves out the parents of others', async () => {
    await together([['root'], ['lead', 'root'], ['child', 'lead'], ['alone']])
    service.clock.advance(31 * 86_400_000)
    await forgetInstances(service.deps)
    const ids = await service.rows<{ id: string }>('select id from instances order by id')
    expect(ids.map(({ id }) => id)).toEqual(['lead', 'root'])
  })
})

// Heartbeats come by the thousand a second, and nearly all name the parent that is stored.
it('a heartbeat that names the stored parent costs no further statement', async () => {
  const { database } = service.deps
  const { batch } = database
  const counted: number[] = []
  database.batch = (statements, options) => {
    counted.push(statements.length)
    return batch(statements, options)
  }
  await beat('plain')
  await beat('child', 'lead')
  counted.length = 0
  await beat('plain')
  await beat('child', 'lead')
  const [plain, named, ...more] = counted
  expect([named, more]).toEqual([plain, []])
  await beat('plain', 'lead')
  expect(counted.slice(2), 'storing one').toHaveLength(2)
  database.batch = batch
})
