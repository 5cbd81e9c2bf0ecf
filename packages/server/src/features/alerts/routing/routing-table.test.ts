import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { isoTime } from '../../../clock.ts'
import { listJobs } from '../../../jobs.ts'
import { openTestService, type TestService } from '../../../testing/service.ts'

let one: TestService
let other: TestService
beforeEach(async () => {
  one = await openTestService()
  other = await openTestService({ dataDir: one.deps.config.dataDir, clock: one.clock })
})
afterEach(async () => {
  await other[Symbol.asyncDispose]()
  await one[Symbol.asyncDispose]()
})

const pager = { name: 'On call', type: 'pagerduty', settings: { routing_key: 'R0'.repeat(16) } }
const post = async (service: TestService, url: string, body: object) =>
  (await service.call<{ id: string }>('POST', url, { body })).body.id
const directory = ({ services }: TestService) => services.routingTable

describe('the routing table', () => {
  it('of another process contains every change after its next refresh', async () => {
    const id = await post(one, '/api/alert-channels', pager)
    expect(directory(other).current.channels).toEqual([])
    await directory(other).refresh()
    expect(directory(other).current.channels).toMatchObject([{ id, settings: pager.settings }])

    const route = await post(other, '/api/alert-routes', { name: 'a', match: {}, channels: [id] })
    const ends_at = isoTime(one.clock.now() + 60_000)
    const silence = await post(other, '/api/silences', { match: {}, reason: 'x', ends_at })
    await directory(one).refresh()
    expect(directory(one).current).toEqual(directory(other).current)
    expect(directory(one).current).toMatchObject({ routes: [{ channels: [id] }], silences: [{ match: {} }] })

    await one.call('PATCH', `/api/alert-channels/${id}`, { body: { enabled: false } })
    await one.call('DELETE', `/api/silences/${silence}`)
    await one.call('DELETE', `/api/alert-routes/${route}`)
    await directory(other).refresh()
    expect(directory(other).current).toMatchObject({ channels: [{ enabled: false }], routes: [], silences: [] })

    await other.call('DELETE', `/api/alert-channels/${id}`)
    await directory(one).refresh()
    expect(directory(one).current.channels).toEqual([])
  })

  it('only reads the tables if the configuration changed', async () => {
    await post(one, '/api/alert-channels', pager)
    const before = directory(one).current
    await one.execute('alter table silences rename to silences_away')
    try {
      await directory(one).refresh()
    } finally {
      await one.execute('alter table silences_away rename to silences')
    }
    expect(directory(one).current).toBe(before)
  })

  it('counts every change once, also concurrent changes by two processes', async () => {
    const posts = [one, other, one, other].map((service) => post(service, '/api/alert-channels', pager))
    expect(new Set(await Promise.all(posts)).size).toBe(4)
    expect(await one.rows(`select value from counters where name = 'alert_config'`)).toEqual([{ value: 4 }])
    await Promise.all([directory(one).refresh(), directory(other).refresh()])
    expect(directory(one).current.channels).toHaveLength(4)
    expect(directory(one).current).toEqual(directory(other).current)
  })

  it('is refreshed by a job every second', async () => {
    const job = listJobs(other.deps, other.services).find(({ name }) => name === 'alerts')!
    expect(job.everyMs).toBe(1_000)
    await post(one, '/api/alert-channels', pager)
    await job.run()
    expect(directory(other).current.channels).toHaveLength(1)
  })

  // With write access to the database, an attacker could otherwise stop all alerts by an invalid row, or send them with
  // the token of another channel.
  it('leaves out a channel whose settings were copied from another one, and has all others', async () => {
    const first = await post(one, '/api/alert-channels', pager)
    const second = await post(one, '/api/alert-channels', { ...pager, settings: { routing_key: 'S1'.repeat(16) } })
    const third = await post(one, '/api/alert-channels', pager)
    await one.execute(`
      update alert_channels set sealed = (select sealed from alert_channels where id = '${first}') where id = '${second}'`)
    await one.execute(`update counters set value = value + 1 where name = 'alert_config'`)
    one.logged.length = 0
    await directory(one).refresh()
    const known = () =>
      directory(one)
        .current.channels.map(({ id }) => id)
        .sort()
    expect(known()).toEqual([first, third].sort())
    expect(one.logged).toHaveLength(1)
    expect(JSON.parse(one.logged[0]!)).toMatchObject({ level: 'error', channel: second })
    expect(one.logged[0]).not.toContain('R0R0')

    const shown = await one.call<object>('GET', `/api/alert-channels/${second}`)
    expect(shown.body).toMatchObject({ state: 'failing', last_error: expect.stringContaining('cannot be decrypted') })
    const body = { settings: { routing_key: 'T2'.repeat(16) } }
    expect((await one.call('PATCH', `/api/alert-channels/${second}`, { body })).status).toBe(200)
    expect(known()).toEqual([first, second, third].sort())
  })
})
