import { type FleetStatus, type InstanceDetail, type InstanceList, limits } from '@wardline/contract'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openTestService, type TestService } from '../../testing/service.ts'

let service: TestService
beforeAll(async () => {
  service = await openTestService()
})
afterAll(() => service[Symbol.asyncDispose]())

/** Inserts instances `i000001` and so on; later ones have newer heartbeats. */
const fill = (first: number, last: number, name = 'agent') =>
  service.execute(`insert into instances (id, name, first_seen_at, last_heartbeat_at)
    select 'i' || substr('00000' || n, length('00000' || n) - 5), '${name}', 0, ${service.clock.now()} - 100000 + n
    from (with recursive more(n) as (select ${first} union all select n + 1 from more where n < ${last}) select n from more) as m`)
const status = async () => (await service.call<FleetStatus>('GET', '/api/status')).body
const page = async (query: string) => (await service.call<InstanceList>('GET', `/api/instances?${query}`)).body

describe('the status of a fleet', () => {
  it('is complete up to 5,000 instances', async () => {
    await fill(1, limits.statusInstances)
    const body = await status()
    expect(body.instances).toHaveLength(limits.statusInstances)
    expect(body).not.toHaveProperty('instances_omitted')
  })

  it('above 5,000 shows the suspended, then the newest heartbeats, and counts the others', async () => {
    await fill(limits.statusInstances + 1, 6_000)
    await service.call('POST', '/api/kill/i000003', { body: { reason: 'x' } })
    const body = await status()
    const shown = body.instances.map(({ id }) => id)
    expect(shown.slice(0, 3)).toEqual(['i000003', 'i006000', 'i005999'])
    expect(shown).toHaveLength(limits.statusSample)
    expect(body.instances_omitted).toBe(6_000 - limits.statusSample)
    await service.call('POST', '/api/kill/i000002', { body: { reason: 'x' } })
    await service.call('POST', '/api/kill/i006000', { body: { reason: 'x' } })
    expect((await status()).instances.slice(0, 4).map(({ id }) => id)).toEqual([
      'i000002',
      'i000003',
      'i006000',
      'i005999',
    ])
  })

  // Otherwise a key that registers agents with long names makes each dashboard refresh cost 20 MB.
  it('stays below 1 MiB with the longest names and reasons', async () => {
    const longest = '\u0001'.repeat(80)
    await service.execute(
      `update instances set name = '${longest}', suspended = 1, suspension_reason = '${longest.repeat(6)}'`,
    )
    const { text, body } = await service.call<FleetStatus>('GET', '/api/status')
    expect(Buffer.byteLength(text)).toBeLessThan(limits.statusBytes)
    expect(body.instances.length + body.instances_omitted!).toBe(6_000)
    await service.execute(
      `update instances set name = 'agent', suspended = 0, suspension_reason = null where id > 'i000003'`,
    )
  })

  // Finding the newest heartbeats reads every instance, so readers share the result and do not wait for it.
  it('refreshes the newest heartbeats once a second, and shows the previous ones meanwhile', async () => {
    service.clock.advance(2_000)
    await status()
    await fill(6_001, 6_001)
    await service.execute(`update instances set last_heartbeat_at = last_heartbeat_at + 9999999 where id = 'i006001'`)
    const newest = async () =>
      (await status()).instances.find(({ suspension_reason }) => suspension_reason === null)?.id
    const before = await newest()
    expect(before).not.toBe('i006001')
    service.clock.advance(1_000)
    expect(await newest()).toBe(before)
    await expect.poll(newest).toBe('i006001')
  })

  it('never shows a result that is two seconds old', async () => {
    await service.execute(`update instances set last_heartbeat_at = last_heartbeat_at + 99999999 where id = 'i000700'`)
    service.clock.advance(2_000)
    expect((await status()).instances.map(({ id }) => id)).toContain('i000700')
  })
})

describe('the list of instances', () => {
  it('pages through all of them once', async () => {
    const seen: string[] = []
    let after = ''
    for (;;) {
      const { instances, next } = await page(`limit=1000${after}`)
      seen.push(...instances.map(({ id }) => id))
      if (next === null) break
      after = `&after=${next}`
    }
    expect(seen).toHaveLength(6_001)
    expect(seen).toEqual([...new Set(seen)].toSorted())
  })

  it('filters by status and by id prefix', async () => {
    expect((await page('status=suspended')).instances.map(({ id }) => id)).toEqual(['i000001', 'i000002', 'i000003'])
    expect((await page('prefix=i00599')).instances).toHaveLength(10)
    expect((await page('prefix=i00599&status=suspended')).instances).toEqual([])
    await service.call('POST', '/api/heartbeat', { body: { instance_id: 'i005991', name: 'x' } })
    expect((await page('prefix=i00599&status=active')).instances.map(({ id }) => id)).toEqual(['i005991'])
    expect((await page('prefix=i00599&status=offline')).instances).toHaveLength(9)
  })

  it.each(['limit=0', 'limit=1001', 'status=asleep', 'prefix=A', 'after=%2F'])('refuses %s', async (query) => {
    expect((await service.call('GET', `/api/instances?${query}`)).status).toBe(400)
  })

  // Operators check the list, not 10,000 details, for unacknowledged suspensions.
  it('shows the version, the fail mode, and whether the last kill was confirmed', async () => {
    const beat = (body: object) =>
      service.call('POST', '/api/heartbeat', { body: { instance_id: 'z-1', name: 'x', ...body } })
    await beat({ version: '4.2.0', fail_mode: 'closed', control_version: 0 })
    const row = async () => (await page('ids=z-1')).instances[0]!
    expect(await row()).toMatchObject({
      version: '4.2.0',
      fail_mode: 'closed',
      control: { version: 0, changed_at: null, applied_version: 0, confirmed: true, mismatch: false },
    })
    await service.call('POST', '/api/kill/z-1', { body: { reason: 'x' } })
    expect((await row()).control).toMatchObject({ version: 1, applied_version: 0, confirmed: false })
    await beat({ control_version: 1 })
    expect((await row()).control).toMatchObject({ version: 1, applied_version: 1, confirmed: true })
    const { body: detail } = await service.call<InstanceDetail>('GET', '/api/instances/z-1')
    expect((await row()).control).toEqual(detail.control)
    await beat({ control_version: 9 })
    expect((await row()).control).toMatchObject({ mismatch: true, claimed_version: 9 })
  })

  it('shows the instances given by ids, at most 100', async () => {
    const { instances, next } = await page('ids=i000007,nobody,i000005&limit=1000')
    expect(instances.map(({ id }) => id)).toEqual(['i000005', 'i000007'])
    expect(next).toBeNull()
    const ids = Array.from({ length: 101 }, (_, index) => `i${index}`).join(',')
    for (const query of [`ids=${ids}`, 'ids=', 'ids=a,,b', 'ids=A'])
      expect((await service.call('GET', `/api/instances?${query}`)).status, query).toBe(400)
  })
})
