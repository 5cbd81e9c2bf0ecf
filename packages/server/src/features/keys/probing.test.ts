import { type EventRow, sessionHeader } from '@wardline/contract'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { openTestService, type TestService } from '../../testing/service.ts'
import { localActor } from '../audit/audit.ts'
import { generateKey } from './key-format.ts'
import { createKey } from './keys.ts'

const minuteMs = 60_000

let service: TestService
beforeEach(async () => {
  service = await openTestService({
    env: { WARDLINE_TRUSTED_PROXIES: '127.0.0.1', ALERT_WEBHOOK_URL: 'http://127.0.0.1:9/' },
  })
})
afterEach(() => service[Symbol.asyncDispose]())

const from = (address: string) => ({ headers: { 'x-forwarded-for': address } })
const read = (key: string, address: string) => service.call('GET', '/api/status', { key, ...from(address) })
/** Returns a well-formed key that the service does not know. */
const badKey = () => generateKey('admin').key

async function reports(type: string): Promise<EventRow[]> {
  await service.services.ingest.whenIdle()
  const { body } = await service.call<{ events: EventRow[] }>('GET', `/api/events?event_type=${type}`)
  return body.events.toReversed()
}

/** Advances the clock by a minute and runs the jobs of each minute. */
async function passMinute(): Promise<void> {
  service.clock.advance(minuteMs)
  await service.services.countedReports.run()
  service.services.probing.run()
}

async function fail(times: number, address: string): Promise<number[]> {
  const statuses: number[] = []
  for (let count = 0; count < times; count++) statuses.push((await read(badKey(), address)).status)
  return statuses
}

describe('an address that sends invalid keys', () => {
  it('gets 429 after 20 invalid keys, until the minute is over', async () => {
    service.clock.advance(5_000)
    expect(await fail(20, '192.0.2.7')).toEqual(Array(20).fill(401))
    service.clock.advance(15_500)
    const answer = await read(badKey(), '192.0.2.7')
    expect([answer.status, answer.headers['retry-after'], answer.headers['x-error-code']]).toEqual([
      429,
      '45',
      'too_many_failures',
    ])
    expect(answer.body).toEqual({
      error: 'The key in X-Monitor-Key is not valid, and too many such keys came from this address.',
    })
    service.clock.advance(44_499)
    expect(await fail(1, '192.0.2.7')).toEqual([429])
    service.clock.advance(1)
    expect(await fail(21, '192.0.2.7')).toEqual([...Array(20).fill(401), 429])
  })

  // Otherwise each guess would cost a query.
  it('causes no queries once it gets 429; a key created by another process works after the next refresh', async () => {
    await fail(20, '192.0.2.7')
    const grant = { scope: 'viewer' as const, name: 'from elsewhere' }
    const { key } = await createKey(service.deps.database, grant, localActor('cli'), service.clock.now())
    expect((await read(key, '192.0.2.7')).status).toBe(429)
    expect((await read(key, '192.0.2.8')).status).toBe(200)
    expect((await read(key, '192.0.2.7')).status).toBe(200)
  })

  // Otherwise one caller behind a NAT could lock out a whole office, or one agent all others on its host.
  it('does not delay valid keys from the same address or another', async () => {
    const { key } = await service.createKey('viewer')
    await fail(50, '192.0.2.7')
    for (const address of ['192.0.2.7', '192.0.2.8']) expect((await read(key, address)).status).toBe(200)
    expect(await fail(1, '192.0.2.7')).toEqual([429])
    expect((await read(key, '192.0.2.7')).status).toBe(200)
    expect(await fail(1, '192.0.2.8')).toEqual([401])
  })

  it('is the whole /64 of an IPv6 address', async () => {
    for (let host = 1; host <= 20; host++) expect(await fail(1, `2001:db8:0:1::${host}`)).toEqual([401])
    expect(await fail(1, '2001:db8:0:1:ffff::9')).toEqual([429])
    expect(await fail(1, '2001:db8:0:2::1')).toEqual([401])
  })

  it('is not delayed after missing keys, malformed cookies or cookies alone, which do not help to guess', async () => {
    const { cookie } = await service.signIn()
    for (let count = 0; count < 50; count++) {
      const answer = await service.call('GET', '/api/status', {
        key: null,
        headers: { 'x-forwarded-for': '192.0.2.7', cookie: count % 2 === 0 ? 'wardline=over' : cookie },
      })
      expect(answer.status).toBe(401)
    }
    expect(await fail(1, '192.0.2.7')).toEqual([401])
  })

  // Each invalid session costs a query and requires no key.
  it('gets 429 without a query after 20 invalid sessions, but not for a valid session', async () => {
    const { headers, cookie: inUse } = await service.signIn()
    const get = (cookie: string, other = {}) =>
      service.call('GET', '/api/status', {
        key: null,
        headers: { ...headers, 'x-forwarded-for': '192.0.2.7', cookie, ...other },
      })
    expect((await get(inUse)).status).toBe(200)
    const guess = (index: number) => `wardline=${String(index).padStart(43, 'x')}`
    const statuses: number[] = []
    for (let index = 0; index < 19; index++) statuses.push((await get(guess(index))).status)
    // A browser left open keeps sending the same ended session.
    for (let index = 0; index < 30; index++) statuses.push((await get(guess(0))).status)
    statuses.push((await get(guess(19))).status)
    expect(new Set(statuses)).toEqual(new Set([401]))
    await service.execute('alter table sessions rename to sessions_away')
    const answer = await get(guess(20))
    await service.execute('alter table sessions_away rename to sessions')
    expect([answer.status, answer.headers['retry-after'], answer.headers['x-error-code']]).toEqual([
      429,
      '60',
      'too_many_failures',
    ])
    service.clock.advance(1_000)
    expect((await get(inUse)).status).toBe(200)
    expect((await get(inUse, { [sessionHeader]: 'x'.repeat(43) })).status).toBe(429)
    expect((await read(badKey(), '192.0.2.7')).status).toBe(429)
    expect(await reports('auth_probing')).toHaveLength(1)
  })

  it('is reported by the service immediately, then once a minute with the number of its requests', async () => {
    await fail(19, '192.0.2.7')
    expect(await reports('auth_probing')).toEqual([])
    await fail(31, '192.0.2.7')
    const [first, ...others] = await reports('auth_probing')
    expect(others).toEqual([])
    expect(first).toMatchObject({
      severity: 'warning',
      source: 'wardline',
      by_service: true,
      description: '20 requests with invalid keys from 192.0.2.7',
      instance_id: null,
      ip_address: '192.0.2.7',
      metadata: { from: '192.0.2.7', count: 20 },
    })
    await passMinute()
    const [, second] = await reports('auth_probing')
    expect(second).toMatchObject({ description: '30 requests with invalid keys from 192.0.2.7' })
    await passMinute()
    await passMinute()
    expect(await reports('auth_probing')).toHaveLength(2)
    const alerts = await service.rows(`select severity, by_service from alerts where event_type = 'auth_probing'`)
    expect(alerts).toEqual([1, 2].map(() => ({ severity: 'warning', by_service: 1 })))
  })

  it('is reported by name only for the first 100 addresses a minute, to leave room for other reports', async () => {
    for (let host = 0; host < 103; host++) await fail(20, `192.0.2.${host}`)
    const rows = await reports('auth_probing&limit=1000')
    expect(new Set(rows.map(({ metadata }) => metadata!.from)).size).toBe(101)
    expect(rows.at(-1)).toMatchObject({
      description: '20 requests with invalid keys from more than 100 addresses',
      ip_address: null,
    })
  })
})

describe('an agent key that is used for another instance', () => {
  const event = { severity: 'info', source: 's', event_type: 'note', description: 'd' }
  const beat = (instance_id: string) => ({ body: { instance_id, name: 'Agent' } })

  it.each([
    ['heartbeat', 'POST', '/api/heartbeat', beat('agent-2')],
    ['event', 'POST', '/api/events', { body: { ...event, instance_id: 'agent-2' } }],
    ['batch', 'POST', '/api/events/batch', { body: [{ ...event, instance_id: 'agent-2' }] }],
    ['poll', 'GET', '/api/instances/agent-2/status', {}],
    ['control stream', 'GET', '/api/instances/agent-2/control', {}],
    ['confirmation', 'POST', '/api/instances/agent-2/ack', { body: { version: 1 } }],
  ] as const)('for a %s is reported with the instance in the request', async (_what, method, path, options) => {
    await service.call('POST', '/api/heartbeat', beat('agent-2'))
    const { id, key } = await service.createKey('agent', ['agent-1'])
    const { status } = await service.call(method, path, { ...options, key, ...from('192.0.2.7') })
    expect(status).toBe(path.endsWith('batch') ? 200 : 403)
    const [row, ...others] = await reports('identity_mismatch')
    expect(others).toEqual([])
    expect(row).toMatchObject({
      severity: 'critical',
      source: 'wardline',
      by_service: true,
      description: `The key ${id} was used for the instance agent-2, which it is not bound to`,
      // The report must name the attacker, not the victim: people and automation act on it.
      instance_id: 'agent-1',
      ip_address: '192.0.2.7',
      metadata: { key_id: id, reached_for: 'agent-2', bound_to: ['agent-1'], count: 1 },
    })
    expect(await service.rows(`select by_service from alerts where event_type = 'identity_mismatch'`)).toEqual([
      { by_service: 1 },
    ])
  })

  it('is reported once a minute for each key, with the latest instance and the number of requests', async () => {
    const keys = [await service.createKey('agent', ['agent-1']), await service.createKey('agent', ['team-*'])]
    const batch = Array.from({ length: 50 }, (_, index) => ({ ...event, instance_id: `other-${index}` }))
    for (const { key } of keys) {
      await service.call('POST', '/api/heartbeat', { key, ...beat('other-x') })
      await service.call('POST', '/api/events/batch', { key, body: batch })
    }
    expect(await reports('identity_mismatch')).toHaveLength(2)
    await passMinute()
    const [, , ...later] = await reports('identity_mismatch')
    expect(later.map(({ metadata, instance_id }) => [metadata!.key_id, metadata!.count, instance_id])).toEqual([
      [keys[0]!.id, 50, 'agent-1'],
      [keys[1]!.id, 50, null],
    ])
    for (const { description } of later) {
      expect(description).toMatch(/instance other-49, .*; 50 such requests since the last report$/)
    }
  })

  it('is not reported if the instance is its own, is missing, or if the scope is insufficient', async () => {
    const { key } = await service.createKey('agent', ['agent-1'])
    await service.call('POST', '/api/heartbeat', { key, ...beat('agent-1') })
    await service.call('POST', '/api/events', { key, body: event })
    expect((await service.call('POST', '/api/kill/agent-2', { key, body: { reason: 'x' } })).status).toBe(403)
    expect(await reports('identity_mismatch')).toEqual([])
  })
})

describe('the log of refused requests', () => {
  it('has one line a minute by key and address, sorted by the number of requests', async () => {
    const { id, key } = await service.createKey('agent', ['agent-1'])
    for (let count = 0; count < 3; count++) {
      await service.call('POST', '/api/kill/agent-1', { key, body: { reason: 'x' }, ...from('192.0.2.8') })
    }
    await fail(25, '192.0.2.7')
    await passMinute()
    const lines = service.logged.filter((line) => line.includes('requests without the required permission'))
    expect(lines).toHaveLength(1)
    const { refused, callers, more } = JSON.parse(lines[0]!)
    expect(Object.entries(refused)).toEqual([
      ['address 192.0.2.7', 25],
      ['address 192.0.2.8', 3],
      [`key ${id}`, 3],
    ])
    expect([callers, more]).toEqual([3, 0])
    await passMinute()
    expect(service.logged.filter((line) => line.includes('requests without the required permission'))).toHaveLength(1)
  })

  it('contains no submitted key, nor do events, alerts, audit log and metrics', async () => {
    const keys = Array.from({ length: 30 }, badKey)
    for (const key of keys) await read(key, '192.0.2.7')
    await passMinute()
    await service.services.ingest.whenIdle()
    const tables = ['events', 'alerts', 'audit_log']
    const stored = JSON.stringify(await Promise.all(tables.map((table) => service.rows(`select * from ${table}`))))
    const metrics = await service.deps.metrics.registry.metrics()
    expect(stored).toContain('auth_probing')
    for (const key of keys) {
      for (const place of [stored, metrics, ...service.logged]) expect(place).not.toContain(key.slice(9))
    }
  })

  // Otherwise an attacker could fill the memory with addresses.
  it('is bounded: an address that was removed starts at zero again', async () => {
    const { probing } = service.services
    for (let count = 0; count < 20; count++) probing.badKey('192.0.2.7')
    expect(probing.badKey('192.0.2.7')).toBe(60)
    for (let address = 0; address < 100_000; address++) {
      const name = `2001:db8:${(address >> 12).toString(16)}:${(address & 0xfff).toString(16)}::1`
      probing.badKey(name)
      probing.refused({ address: name, principal: undefined, reachedFor: undefined })
    }
    expect(probing.badKey('192.0.2.7')).toBeUndefined()
    probing.run()
    const { callers, more } = JSON.parse(
      service.logged.findLast((line) => line.includes('without the required permission'))!,
    )
    expect([callers, more]).toEqual([1_000, 99_000])
  })
})
