import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { type Traffic, watchTraffic } from './traffic.ts'

/** Starts a fake service and watches the traffic to it. */
async function watched(listener: RequestListener) {
  const server = createServer((request, response) => {
    request.resume()
    listener(request, response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const traffic: Traffic = watchTraffic(url)
  onTestFinished(() => {
    traffic.close()
    server.close()
    server.closeAllConnections()
  })
  const ask = async (path: string) => {
    const answer = await fetch(url + path).catch(() => undefined)
    await answer?.arrayBuffer()
    return traffic.figures()
  }
  return { ask, server, traffic }
}

test('counts and times requests by agents, but not by their operator', async () => {
  const { ask } = await watched((_request, response) => void response.end('{"ok":true}'))
  await ask('/api/heartbeat')
  await ask('/api/instances/demo-1/status')
  await ask('/api/instances/demo-1/ack')
  const figures = await ask('/api/honeypots/check/key')
  expect(figures).toMatchObject({ heartbeats: 1, answered: 4, failed: 0, throttled: 0 })
  expect(figures.latencyMs.p50).toBeGreaterThan(0)
  expect(figures.latencyMs.p99).toBeGreaterThanOrEqual(figures.latencyMs.p50)
  for (const path of ['/api/events?limit=1', '/api/honeypots', '/api/status']) await ask(path)
  expect(await ask('/healthz')).toMatchObject({ answered: 4, failed: 0 })
})

test('counts failed requests, including lost connections, and throttled requests separately', async () => {
  const statuses = [200, 400, 401, 503, 429, 500, 302]
  const { ask, server } = await watched((_request, response) => {
    const status = statuses.shift()
    if (status === undefined) response.destroy()
    else response.writeHead(status, { location: '/elsewhere' }).end()
  })
  while (statuses.length > 0) await ask('/api/heartbeat')
  expect(await ask('/api/events/batch')).toMatchObject({ heartbeats: 1, answered: 1, failed: 5, throttled: 2 })
  server.close()
  server.closeAllConnections()
  expect(await ask('/api/heartbeat')).toMatchObject({ answered: 1, failed: 6, throttled: 2 })
})

test('a status of 404 for a new instance and of 304 are not counted as failures', async () => {
  const { ask } = await watched((request, response) => {
    response.writeHead(request.url!.includes('demo-new') ? 404 : 304).end()
  })
  await ask('/api/instances/demo-new/status')
  expect(await ask('/api/instances/demo-1/status')).toMatchObject({ answered: 2, failed: 0 })
  expect(await ask('/api/instances/demo-new/ack')).toMatchObject({ answered: 2, failed: 1 })
})

test('ignores requests to other services, and all requests after close()', async () => {
  const one = await watched((_request, response) => void response.end())
  const other = await watched((_request, response) => void response.end())
  await one.ask('/api/heartbeat')
  expect(other.traffic.figures().answered).toBe(0)
  other.traffic.close()
  expect(await other.ask('/api/heartbeat')).toMatchObject({ answered: 0, failed: 0 })
})
