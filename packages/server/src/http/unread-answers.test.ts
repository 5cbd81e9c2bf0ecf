import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { adminKey, openTestService, type TestService } from '../testing/service.ts'
import { httpLimits } from './limits.ts'

let service: TestService
let port: number
const clients: Socket[] = []
beforeAll(async () => {
  service = await openTestService()
  port = Number(new URL(await service.app.listen({ host: '127.0.0.1', port: 0 })).port)
})
afterAll(async () => {
  for (const client of clients) client.destroy()
  await service[Symbol.asyncDispose]()
})

/** Opens a client that sends this text and reads nothing. Also returns the service's end of the connection. */
async function unread(text: string): Promise<{ client: Socket; socket: Socket }> {
  const accepted = once(service.app.server, 'connection')
  const client = connect(port, '127.0.0.1')
    .on('error', () => {})
    .pause()
  clients.push(client)
  client.write(text)
  const [socket] = (await accepted) as [Socket]
  return { client, socket }
}

const list = `GET /api/events?limit=1000 HTTP/1.1\r\nhost: localhost\r\nx-monitor-key: ${adminKey}\r\n\r\n`

// Otherwise each such client could occupy a connection and megabytes of memory indefinitely.
test('a client that never reads its large responses is disconnected', async () => {
  const text = 'x'.repeat(15 * 1024)
  const event = { severity: 'info', source: 'a', event_type: 'note', description: 'd', metadata: { text } }
  for (let batch = 0; batch < 3; batch++) {
    expect((await service.call('POST', '/api/events/batch', { body: Array(60).fill(event) })).status).toBe(200)
  }
  const { server } = service.app
  expect(server.timeout).toBe(httpLimits.stallMs)
  server.timeout = 200
  const { client, socket } = await unread(list.repeat(10))
  if (!socket.destroyed) await once(socket, 'close')
  const one = (await service.call('GET', '/api/events?limit=1000')).text.length
  let received = 0
  client.on('data', (chunk) => {
    received += chunk.length
  })
  client.resume()
  await once(client, 'close')
  expect(received).toBeLessThan(10 * one)
  expect((await fetch(`http://127.0.0.1:${port}/healthz`)).status).toBe(200)
})

// A stream is silent for 30 seconds between two keep-alives.
test('an idle stream is not disconnected', async () => {
  const { client, socket } = await unread('GET /api/stream HTTP/1.1\r\nhost: localhost\r\n\r\n')
  client.resume()
  await once(client, 'data')
  expect(socket.timeout).toBe(0)
})
