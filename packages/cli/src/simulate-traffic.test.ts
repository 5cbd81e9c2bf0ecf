import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { createTraffic, retryAfterMs, type Traffic } from './simulate-traffic.ts'

const closers: (() => void)[] = []
afterEach(() => {
  for (const close of closers.splice(0)) close()
})

/** The traffic to a service of our own making, which answers as the test says. */
async function trafficTo(listener: RequestListener): Promise<{ traffic: Traffic; end: AbortController }> {
  const server = createServer(listener)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const end = new AbortController()
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const traffic = createTraffic({ url, key: 'key', signal: end.signal })
  closers.push(
    traffic.close,
    () => server.close(),
    () => server.closeAllConnections(),
  )
  return { traffic, end }
}

const heartbeat = { body: { instance_id: 'demo-1', name: 'Demo' } }

test('waits as long as Retry-After says and then sends the same request again', async () => {
  const arrivals: number[] = []
  const { traffic } = await trafficTo((_request, response) => {
    arrivals.push(performance.now())
    if (arrivals.length > 1) return void response.end('{"ok":true}')
    response.writeHead(503, { 'retry-after': '1' }).end('{"error":"The queue is full."}')
  })
  expect(await traffic.call('sendHeartbeat', heartbeat)).toEqual({ ok: true })
  expect(arrivals).toHaveLength(2)
  expect(arrivals[1]! - arrivals[0]!).toBeGreaterThan(950)
  expect(traffic.figures()).toMatchObject({ answered: 1, failed: 0, toldToWait: 1 })
})

test('counts a request as failed after five times "try again"', async () => {
  let arrivals = 0
  const { traffic } = await trafficTo((_request, response) => {
    arrivals++
    response.writeHead(503, { 'retry-after': '0' }).end('{"error":"The queue is full."}')
  })
  await expect(traffic.call('sendHeartbeat', heartbeat)).rejects.toMatchObject({ status: 503 })
  expect(arrivals).toBe(5)
  expect(traffic.figures()).toMatchObject({ answered: 0, failed: 1, toldToWait: 5, lastFailure: 'The queue is full.' })
})

test('counts a refusal as failed and does not repeat it', async () => {
  let arrivals = 0
  const { traffic } = await trafficTo((_request, response) => {
    arrivals++
    response.writeHead(400).end('{"error":"name is required."}')
  })
  await expect(traffic.call('sendHeartbeat', heartbeat)).rejects.toThrow('name is required.')
  expect(arrivals).toBe(1)
  expect(traffic.figures()).toMatchObject({ answered: 0, failed: 1, toldToWait: 0 })
})

test('ends a request under way at once when the run ends, and counts no failure', async () => {
  const { traffic, end } = await trafficTo(() => end.abort())
  await expect(traffic.call('sendHeartbeat', heartbeat)).rejects.toThrow()
  await expect(traffic.call('sendHeartbeat', heartbeat)).rejects.toThrow()
  expect(traffic.figures()).toMatchObject({ answered: 0, failed: 0 })
})

test('reads Retry-After as seconds or as a date, within bounds', () => {
  const now = Date.parse('2026-01-01T00:00:00Z')
  expect(retryAfterMs('3', now)).toBe(3_000)
  expect(retryAfterMs('Thu, 01 Jan 2026 00:00:02 GMT', now)).toBe(2_000)
  expect(retryAfterMs('Thu, 01 Jan 2020 00:00:00 GMT', now)).toBe(0)
  expect(retryAfterMs('999999', now)).toBe(30_000)
  expect([undefined, '', 'soon', '-5'].map((value) => retryAfterMs(value, now))).toEqual([
    1_000,
    1_000,
    1_000,
    expect.any(Number),
  ])
})
