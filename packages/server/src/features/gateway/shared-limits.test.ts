import { once } from 'node:events'
import { createServer, get, request as startRequest } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { SharedRoom } from '../../shared-room.ts'
import { openTestGateway } from '../../testing/model-gateway.ts'
import { startProvider } from '../../testing/model-provider.ts'
import { CallBytes } from './call-body.ts'
import { Exchange } from './exchange.ts'

const mebibyte = 1024 * 1024
const chat = '/openai/v1/chat/completions'

let test: Awaited<ReturnType<typeof openTestGateway>>
beforeEach(async () => {
  test = await openTestGateway()
})
afterEach(() => test[Symbol.asyncDispose]())

const open = new Set<Socket>()
afterEach(() => {
  for (const socket of open) socket.destroy()
  open.clear()
})

/** Begins a call whose body does not come. Resolves with the status of a refusal. */
function begin(key: string, instanceId: string, bytes = Buffer.alloc(0)): Promise<string> {
  const socket = connect(test.gateway.port, '127.0.0.1')
  open.add(socket)
  socket.on('error', () => {})
  const head = ['POST ', chat, ' HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ', key, '\r\nwardline-instance: ']
  socket.write(`${head.join('')}${instanceId}\r\ncontent-length: ${bytes.length + 1}\r\n\r\n`)
  socket.write(bytes)
  return once(socket, 'data').then(([answer]) => /^HTTP\/1\.1 (\d+)/.exec(String(answer))![1]!)
}

/** Begins this many calls, and waits until the gateway has them. */
async function beginAll(count: number, key: string, instanceId: string): Promise<void> {
  const before = await openCalls()
  let refused = 0
  for (let begun = 0; begun < count; begun += 250) {
    const more = Math.min(250, count - begun)
    for (let call = 0; call < more; call++) void begin(key, instanceId).then(() => (refused += 1))
    await expect.poll(openCalls, { timeout: 30_000 }).toBe(before + begun + more)
  }
  expect(refused).toBe(0)
}

const openCalls = async () => {
  const { values } = await test.service.deps.metrics.gatewayOpenCalls.get()
  return values.reduce((sum, { value }) => sum + value, 0)
}

// Attack: an agent, or a key for several agents, opens all calls that the gateway has.
it('leaves calls to the other agents of a key, and to other keys', async () => {
  const shared = (await test.service.createKey('agent', ['a', 'b', 'c'])).key
  const own = (await test.service.createKey('agent', ['own'])).key
  await beginAll(2_500, shared, 'a')
  expect(await begin(shared, 'a')).toBe('429')
  await beginAll(1_250, shared, 'b')
  expect(await begin(shared, 'b')).toBe('429')
  expect((await test.send(chat, { key: shared, headers: { 'wardline-instance': 'c' } })).status).toBe(200)
  expect((await test.send(chat, { key: own })).status).toBe(200)
  for (const socket of open) socket.destroy()
  await expect.poll(openCalls, { timeout: 30_000 }).toBe(0)
  expect((await test.send(chat, { key: shared, headers: { 'wardline-instance': 'a' } })).status).toBe(200)
}, 120_000)

// Attack: agents send bodies of the maximum, and never their last byte.
it('reads the body of an agent while several other keys hold as many bytes as they may', async () => {
  const bytes = Buffer.alloc(32 * mebibyte - 1, 'a')
  bytes.write('{"x":"')
  const outcomes: string[] = []
  for (const [place, bodies] of [11, 6, 2].entries()) {
    const { key } = await test.service.createKey('agent', [`other-${place}`])
    const slow = Array.from({ length: bodies }, () => {
      const headers = { authorization: `Bearer ${key}`, 'content-length': bytes.length + 1 }
      const request = startRequest({ port: test.gateway.port, path: chat, method: 'POST', headers })
      request.on('error', () => {})
      request.on('socket', (socket) => open.add(socket))
      const refused = once(request, 'response').then(([{ statusCode }]) => String(statusCode))
      const sent = new Promise<string>((resolve) => request.write(bytes, (fault) => fault ?? resolve('sent')))
      return Promise.race([sent, refused.catch(() => 'closed')])
    })
    outcomes.push(...(await Promise.all(slow)))
  }
  // The connection of a refused one may be closed before its answer is read.
  expect(outcomes.filter((outcome) => outcome !== 'sent').length).toBeGreaterThan(0)
  expect(outcomes).toContain('sent')
  const { key } = await test.service.createKey('agent', ['bot'])
  const body = JSON.stringify({ model: 'm-1', user: 'u'.repeat(6 * mebibyte) })
  expect((await test.send(chat, { key, body })).status).toBe(200)
}, 120_000)

it('breaks an answer off whose client reads slowly when there is no room for it, and holds no body meanwhile', async () => {
  await using provider = await startProvider(({ response }) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.write('a'.repeat(32 * mebibyte))
  })
  const room = new SharedRoom(16 * mebibyte)
  const upstream = { name: 'slow', kind: 'openai', url: new URL(provider.url), key: 'key' } as const
  const passed: Exchange[] = []
  const server = createServer((request, response) => {
    const exchange = new Exchange(request, response, upstream)
    passed.push(exchange)
    exchange.pass('/v1/chat/completions', new CallBytes(), room, { keyId: request.url! })
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo
  const ask = (path: string) =>
    once(
      get({ port, path }).on('error', () => {}),
      'response',
    )
  const [asked] = await ask('/first')
  await passed[0]!.bodyLeft
  // All that the key may have is taken.
  while (room.take(1024, { keyId: '/slow' }));
  await ask('/slow')
  expect((await passed[1]!.ended).end).toBe('broken')
  asked.destroy()
  expect((await passed[0]!.ended).end).toBe('left')
  server.closeAllConnections()
  server.close()
})
