import { gunzipSync } from 'node:zlib'
import { limits, offlineAfterMs, type SharedFleet } from '@wardline/contract'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { adminKey, openTestService, type TestService } from '../../testing/service.ts'

let service: TestService
beforeAll(async () => {
  service = await openTestService()
})
afterAll(() => service[Symbol.asyncDispose]())

const fleet = async (query = '') => (await service.call<SharedFleet>('GET', `/api/fleet${query}`)).body
const beat = (id: string, more = {}) =>
  service.call('POST', '/api/heartbeat', { body: { instance_id: id, name: id, ...more } })

describe('the shared fleet list', () => {
  it('shows the state of each agent, what it reported and what it confirmed', async () => {
    await beat('a', { version: '1.2', fail_mode: 'closed', tags: ['env:test'] })
    await beat('b')
    await service.call('POST', '/api/kill/a', { body: { reason: 'why' } })
    const [suspended, plain] = (await fleet()).instances
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

  it('is read from the database once in two seconds for all readers', async () => {
    const before = await fleet()
    await beat('c')
    expect(await fleet()).toEqual(before)
    service.clock.advance(2_000)
    expect((await fleet()).instances.map(({ id }) => id)).toEqual(['a', 'b', 'c'])
  })

  // Operators check at once whether a suspension took effect.
  it('shows a kill, a resume, tags and a deletion in the next read', async () => {
    const find = async (id: string) => (await fleet()).instances.find((agent) => agent.id === id)
    await service.call('POST', '/api/kill/b', { body: { reason: 'x' } })
    expect(await find('b')).toMatchObject({ status: 'suspended' })
    await service.call('POST', '/api/resume/b')
    expect(await find('b')).toMatchObject({ status: 'active' })
    await service.call('PUT', '/api/instances/b/tags', { body: { tags: ['new'] } })
    expect(await find('b')).toMatchObject({ tags: ['new'] })
    await service.call('DELETE', '/api/instances/b')
    expect(await find('b')).toBeUndefined()
  })

  it('contains every instance once over its pages, compressed for clients that accept gzip', async () => {
    const last = limits.fleetPage + 500
    const add = async (from: number, to: number) => {
      await service.execute(`insert into instances (id, name, first_seen_at, last_heartbeat_at)
        select 'i' || substr('00000' || n, length('00000' || n) - 5), 'agent', 0, ${service.clock.now()}
        from (with recursive more(n) as (select ${from} union all select n + 1 from more where n < ${to}) select n from more) as m`)
      service.clock.advance(2_000)
    }
    await add(1, limits.fleetPage - 2)
    const full = await fleet()
    expect(full.instances).toHaveLength(limits.fleetPage)
    expect(full.next).toBeNull()
    await add(limits.fleetPage - 1, last)
    const first = await fleet()
    expect(first.instances).toHaveLength(limits.fleetPage)
    const second = await fleet(`?after=${first.next}`)
    expect(second.next).toBeNull()
    const ids = [...first.instances, ...second.instances].map(({ id }) => id)
    expect(ids).toHaveLength(last + 2)
    expect(ids).toEqual([...new Set(ids)].toSorted())
    const headers = { 'x-monitor-key': adminKey, 'accept-encoding': 'br, gzip' }
    const answer = await service.app.inject({ method: 'GET', url: '/api/fleet', headers })
    expect(answer.headers['content-encoding']).toBe('gzip')
    expect(JSON.parse(gunzipSync(answer.rawPayload).toString())).toEqual(first)
    const plain = { ...headers, 'accept-encoding': 'br, gzip;q=0' }
    const whole = await service.app.inject({ method: 'GET', url: '/api/fleet', headers: plain })
    expect(whole.headers).not.toHaveProperty('content-encoding')
    expect(whole.json()).toEqual(first)
  })

  // Names and reasons come from outside: a page must stay small enough for a browser.
  it('ends a page early when its texts are long', async () => {
    const longest = '\u0001'.repeat(80)
    await service.execute(
      `update instances set name = '${longest}', suspended = 1, suspension_reason = '${longest.repeat(6)}'`,
    )
    service.clock.advance(2_000)
    const { text, body } = await service.call<SharedFleet>('GET', '/api/fleet')
    expect(Buffer.byteLength(text)).toBeLessThan(1.01 * limits.fleetBytes)
    expect(body.next).toBe(body.instances.at(-1)!.id)
  })
})

describe('the status without instances', () => {
  it('contains only the counts', async () => {
    const { body } = await service.call<{ instances: unknown[]; stats: object }>('GET', '/api/status?omit=instances')
    expect(body.instances).toEqual([])
    expect(body.stats).toHaveProperty('breach')
  })

  it('names what stops an agent without its cooperation, and not what no longer does', async () => {
    const at = service.clock.now()
    await beat('z')
    await service.execute(`update instances set supervised_at = ${at}, model_called_at = ${at} where id = 'z'`)
    const levers = async () => (await fleet('?after=y')).instances.map(({ enforcing_levers }) => enforcing_levers)
    expect(await levers()).toEqual([['process', 'model']])
    service.clock.advance(offlineAfterMs + 1)
    expect(await levers()).toEqual([['model']])
    service.clock.advance(86_400_000)
    expect(await levers()).toEqual([undefined])
  })
})
