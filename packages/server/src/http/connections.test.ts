import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { sessionHeader } from '@wardline/contract'
import { describe, expect, it } from 'vitest'
import { adminKey, openTestService, type TestService } from '../testing/service.ts'
import { exemptAddresses } from './connections.ts'

interface Client {
  socket: Socket
  /** Sends a request and returns the head of the response, or the bytes before the connection ended. */
  get(path: string, header?: string, method?: string): Promise<string>
}

/** Opens clients with real connections from made-up addresses. */
async function clientsOf(service: TestService): Promise<{ open(address: string): Promise<Client> } & AsyncDisposable> {
  await service.app.ready()
  const clients: Socket[] = []
  const server = createServer({ allowHalfOpen: true, noDelay: true })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  return {
    async open(address) {
      const accepted = once(server, 'connection') as Promise<[Socket]>
      const socket = connect(port, '127.0.0.1')
        .setEncoding('latin1')
        .on('error', () => {})
      clients.push(socket)
      const [other] = await accepted
      Object.defineProperty(other, 'remoteAddress', { value: address })
      service.app.server.emit('connection', other)
      return {
        socket,
        get: (path, header = '', method = 'GET') =>
          new Promise((resolve) => {
            let answer = ''
            const finish = () => resolve(answer)
            socket.on('data', (chunk) => {
              answer += chunk
              if (answer.includes('\r\n\r\n')) finish()
            })
            socket.on('close', finish)
            const length = method === 'GET' ? '' : 'content-length: 0\r\n'
            socket.write(`${method} ${path} HTTP/1.1\r\nhost: localhost\r\n${length}${header}\r\n`)
          }),
      }
    },
    async [Symbol.asyncDispose]() {
      for (const socket of clients) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

const status = (answer: string) => answer.slice(9, 12)
const key = `x-monitor-key: ${adminKey}\r\n`
const openCapped = () => openTestService({ env: { WARDLINE_MAX_CONNECTIONS_PER_ADDRESS: '5' } })

describe('the connections of one address', () => {
  // Without a cap, one machine without a key could use up the connections of the whole fleet.
  it('are capped exactly, independently of other addresses, and closed ones are released', async () => {
    await using service = await openCapped()
    await using clients = await clientsOf(service)
    const clientsOfAddress: Client[] = []
    for (let count = 0; count < 5; count++) clientsOfAddress.push(await clients.open('203.0.113.7'))
    for (const client of clientsOfAddress) expect(status(await client.get('/healthz'))).toBe('200')
    const beyond = await clients.open('203.0.113.7')
    const refused = await beyond.get('/healthz')
    expect(status(refused)).toBe('429')
    expect(refused).toMatch(/^retry-after: 5\r$/m)
    expect(refused).toMatch(/^connection: close\r$/m)
    if (!beyond.socket.closed) await once(beyond.socket, 'close')
    expect(status(await (await clients.open('203.0.113.8')).get('/healthz'))).toBe('200')
    clientsOfAddress[0]!.socket.destroy()
    const statusOfNew = async () => status(await (await clients.open('203.0.113.7')).get('/healthz'))
    await expect.poll(statusOfNew).toBe('200')
    expect((await service.call('GET', '/metrics')).text).toMatch(/connections_refused_total\{reason="address"\} [1-9]/)
  })

  // A caller with the same address as an attacker must still reach the kill switch.
  it('are served over the cap with a valid key, and closed after any other request', async () => {
    await using service = await openCapped()
    await using clients = await clientsOf(service)
    for (let count = 0; count < 5; count++) await clients.open('203.0.113.7')
    expect(status(await (await clients.open('203.0.113.7')).get('/api/status', key))).toBe('200')
    const guessing = await clients.open('203.0.113.7')
    expect(status(await guessing.get('/api/status', 'x-monitor-key: wrong\r\n'))).toBe('401')
    if (!guessing.socket.closed) await once(guessing.socket, 'close')
    const cookie = `cookie: wardline=${'x'.repeat(43)}\r\n`
    for (const headers of ['cookie: wardline=x\r\n', cookie]) {
      expect(status(await (await clients.open('203.0.113.7')).get('/', headers))).toBe('429')
    }
    const session = `${cookie}${sessionHeader}: ${'x'.repeat(43)}\r\n`
    expect(status(await (await clients.open('203.0.113.7')).get('/api/status', session))).toBe('401')
    for (const path of ['/', '/docs', '/api/stream', '/metrics', '/nowhere']) {
      expect(status(await (await clients.open('203.0.113.7')).get(path)), path).toBe('429')
    }
    const bearer = (presented: string) => `authorization: Bearer ${presented}\r\n`
    const exporter = await clients.open('203.0.113.7')
    expect(status(await exporter.get('/v1/traces', bearer(adminKey), 'POST'))).toBe('415')
    expect(status(await (await clients.open('203.0.113.7')).get('/v1/traces', bearer('wrong'), 'POST'))).toBe('401')
    expect(status(await (await clients.open('203.0.113.7')).get('/v1/traces', '', 'POST'))).toBe('429')
    expect(status(await (await clients.open('203.0.113.7')).get('/healthz', bearer(adminKey)))).toBe('429')
  })

  it('are closed without reading at twice the cap', async () => {
    await using service = await openCapped()
    await using clients = await clientsOf(service)
    for (let count = 0; count < 10; count++) await clients.open('203.0.113.7')
    expect(await (await clients.open('203.0.113.7')).get('/api/status', key)).toBe('')
  })

  it('do not count after a valid key was presented', async () => {
    await using service = await openCapped()
    await using clients = await clientsOf(service)
    for (let count = 0; count < 12; count++) {
      expect(status(await (await clients.open('203.0.113.7')).get('/api/status', key))).toBe('200')
    }
    for (let count = 0; count < 5; count++) {
      expect(status(await (await clients.open('203.0.113.7')).get('/healthz'))).toBe('200')
    }
    expect(status(await (await clients.open('203.0.113.7')).get('/healthz'))).toBe('429')
  })

  it('are not capped for loopback', async () => {
    await using service = await openCapped()
    await using clients = await clientsOf(service)
    for (let count = 0; count < 20; count++) {
      expect(status(await (await clients.open('::ffff:127.0.0.1')).get('/healthz'))).toBe('200')
    }
  })
})

describe('an address', () => {
  it('is exempt if it is loopback or a trusted proxy', () => {
    const isExempt = exemptAddresses({ trustedProxies: ['10.0.0.0/8', '192.0.2.1', '2001:db8::/32'] })
    const exempt = [
      '127.0.0.1',
      '127.9.9.9',
      '::1',
      '::ffff:127.0.0.1',
      '10.1.2.3',
      '::ffff:10.1.2.3',
      '192.0.2.1',
      '2001:db8::5',
    ]
    const others = ['11.0.0.1', '192.0.2.2', '::ffff:203.0.113.7', '2001:db9::1', 'fe80::1']
    expect(exempt.filter((address) => !isExempt(address))).toEqual([])
    expect(others.filter(isExempt)).toEqual([])
  })
})
