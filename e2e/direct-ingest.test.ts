import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { allEvents, anEvent, unique } from './fleet.ts'
import { play } from './raw-socket.ts'
import { isExternal, needsOwnProcess, type Service, startService, until } from './service.ts'

// Single events bypass the HTTP framework; authentication and acknowledgement must be the same.

describe.skipIf(isExternal)(`single events${isExternal ? ` (${needsOwnProcess})` : ''}`, () => {
  let behindProxy: Service
  let open: Service
  beforeAll(async () => {
    ;[behindProxy, open] = await Promise.all([
      startService({ env: { WARDLINE_TRUSTED_PROXIES: '127.0.0.1/32' } }),
      startService({ env: {} }),
    ])
  })
  afterAll(() => Promise.all([behindProxy.stop(), open.stop()]))

  const requestOf = ({ port, key }: Service, description: string, headers: Record<string, string> = {}) => {
    const body = JSON.stringify(anEvent({ description }))
    const lines = Object.entries({
      host: `127.0.0.1:${port}`,
      'x-monitor-key': key,
      'content-type': 'application/json',
      'content-length': String(Buffer.byteLength(body)),
      ...headers,
    }).map(([name, value]) => `${name}: ${value}\r\n`)
    return `POST /api/events HTTP/1.1\r\n${lines.join('')}\r\n${body}`
  }
  const addressOf = async (service: Service, description: string) =>
    (await allEvents(service)).find((row) => row.description === description)?.ip_address

  test.each([
    ['the client that the proxy names', { 'x-forwarded-for': '203.0.113.7' }, '203.0.113.7'],
    ['the last client that no trusted proxy is', { 'x-forwarded-for': '198.51.100.1, 203.0.113.9' }, '203.0.113.9'],
    ['the proxy itself, which named no client', {}, '127.0.0.1'],
  ])('behind a trusted proxy come from %s', async (_, headers, address) => {
    const description = unique('proxied')
    const { status } = await behindProxy.call('POST', '/api/events', { body: anEvent({ description }), headers })
    expect(status).toBe(201)
    expect(await addressOf(behindProxy, description)).toBe(address)
  })

  // A caller who could choose its address would hide the origin of an attack.
  test('have the address of their peer if no proxy is trusted, whatever they claim', async () => {
    const description = unique('claimed')
    const headers = { 'x-forwarded-for': '203.0.113.7' }
    await open.call('POST', '/api/events', { body: anEvent({ description }), headers })
    expect(await addressOf(open, description)).toBe('127.0.0.1')
  })

  test('of several clients on one connection of a proxy keep their addresses and their order', async () => {
    const name = unique('mixed')
    const clients = ['203.0.113.1', undefined, '203.0.113.2', undefined, '203.0.113.3']
    const requests = clients.map((client, index) =>
      requestOf(behindProxy, `${name} ${index}`, {
        ...(client ? { 'x-forwarded-for': client } : {}),
        ...(index === clients.length - 1 ? { connection: 'close' } : {}),
      }),
    )
    const { text, closed } = await play(behindProxy.port, [{ write: requests.join('') }], 30_000)
    expect(closed).toBe(true)
    expect(text.match(/HTTP\/1\.1 201/g)).toHaveLength(clients.length)
    const rows = (await allEvents(behindProxy)).filter(({ description }) => description.startsWith(name)).reverse()
    expect(rows.map(({ ip_address }) => ip_address)).toEqual(clients.map((client) => client ?? '127.0.0.1'))
    expect(rows.map(({ id }) => id)).toEqual([...text.matchAll(/"id":"([^"]+)"/g)].map(([, id]) => id))
  })

  test('that are cut off store nothing', async () => {
    const description = unique('cut')
    const request = requestOf(open, description)
    for (const share of [0.3, 0.7, 0.99])
      await play(open.port, [{ write: request.slice(0, request.length * share) }, 'abort'], 1_000)
    const after = unique('after')
    expect((await open.call('POST', '/api/events', { body: anEvent({ description: after }) })).status).toBe(201)
    expect(await addressOf(open, after)).toBe('127.0.0.1')
    expect(await addressOf(open, description)).toBeUndefined()
  })

  // A reset may arrive before, during or after the commit: the service must neither fail nor keep the connection.
  test('whose clients reset the connection disturb no others', async () => {
    const name = unique('reset')
    const resets = Array.from({ length: 50 }, (_, index) =>
      play(open.port, [{ write: requestOf(open, `${name} ${index}`) }, 'abort'], 1_000),
    )
    const others = Array.from({ length: 50 }, (_, index) =>
      open.call('POST', '/api/events', { body: anEvent({ description: `${name} kept ${index}` }) }),
    )
    for (const { status } of await Promise.all(others)) expect(status).toBe(201)
    await Promise.all(resets)
    const kept = (await allEvents(open)).filter(({ description }) => description.startsWith(`${name} kept`))
    expect(kept).toHaveLength(50)
    expect(open.logs()).not.toMatch(/"level":"(error|fatal)"|uncaught|unhandled/i)
  })

  test('that were acknowledged while the service stopped are stored after its restart', async () => {
    const name = unique('ending')
    const acknowledged: string[] = []
    let isOver = false
    const sender = async (lane: number) => {
      for (let index = 0; !isOver; index++) {
        const description = `${name} ${lane} ${index}`
        const status = await open.call('POST', '/api/events', { body: anEvent({ description }) }).then(
          (answer) => answer.status,
          () => 0,
        )
        expect([0, 201, 503]).toContain(status)
        if (status === 201) acknowledged.push(description)
        else await pause(20)
      }
    }
    const senders = Array.from({ length: 8 }, (_, lane) => sender(lane))
    await until(
      'acknowledged events',
      () => acknowledged.length,
      (count) => count >= 100,
    )
    const ended = await open.terminate()
    isOver = true
    await Promise.all(senders)
    expect(ended.code).toBe(0)
    await open.start()
    const stored = new Set((await allEvents(open)).map(({ description }) => description))
    expect(acknowledged.filter((description) => !stored.has(description))).toEqual([])
  })
})
