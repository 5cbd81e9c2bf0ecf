import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { Worker } from 'node:worker_threads'
import type { HoneypotCreated, HoneypotDetail } from '@wardline/contract'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type DecoyListener, type Fetched, openDecoyListener } from '../../http/decoy-listener.ts'
import { openTestService, type TestService } from '../../testing/service.ts'

let service: TestService
let listener: DecoyListener
let id: string
/** The path of a decoy URL, and one of the same form that is none. */
let path: string
const unknownPath = `/d/${'a'.repeat(32)}`

beforeEach(async () => {
  service = await openTestService({
    env: {
      WARDLINE_DECOY_PORT: '0',
      WARDLINE_DECOY_URL: 'https://files.example.com/',
      WARDLINE_TRUSTED_PROXIES: '127.0.0.3',
    },
  })
  listener = await openDecoyListener(service.deps, service.services.decoyFetches)
  const { body } = await service.call<HoneypotCreated>('POST', '/api/honeypots', {
    body: { instanceId: 'wiki-bot', type: 'api_key', keyType: 'url' },
  })
  id = body.id
  path = new URL(body.key!).pathname
  await service.services.decoyFetches.refresh()
})
afterEach(async () => {
  await listener.close()
  await service[Symbol.asyncDispose]()
})

async function open(localAddress = '127.0.0.1', port = listener.port): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1', localAddress }).on('error', () => {})
  await once(socket, 'connect')
  return socket
}

/** Sends a packet, and waits until the listener has read it. */
async function written(socket: Socket, bytes: string): Promise<void> {
  await new Promise((resolve) => socket.write(bytes, 'latin1', resolve))
  for (let turn = 0; turn < 5; turn++) await new Promise(setImmediate)
}

/** Sends bytes, as one packet or several, and returns the raw response without its date. */
async function exchange(bytes: string | string[], localAddress?: string, port = listener.port): Promise<string> {
  const socket = await open(localAddress, port)
  const chunks: Buffer[] = []
  socket.on('data', (chunk: Buffer) => chunks.push(chunk))
  const closed = once(socket, 'close')
  for (const packet of [bytes].flat()) await written(socket, packet)
  await closed
  return Buffer.concat(chunks)
    .toString('latin1')
    .replace(/^date: .*$/im, 'date')
}

async function hits(): Promise<HoneypotDetail> {
  await service.services.decoyFetches.whenIdle()
  return (await service.call<HoneypotDetail>('GET', `/api/honeypots/${id}`)).body
}

/** Sends the same request for the decoy and for another URL. Returns the response, which must be the same for both. */
async function noticed(requestOf: (path: string) => string | string[]): Promise<string> {
  service.clock.advance(60_000)
  const before = (await hits()).hit_count
  const other = await exchange(requestOf(unknownPath))
  expect((await hits()).hit_count).toBe(before)
  const response = await exchange(requestOf(path))
  // The client may see a connection that timed out closed first.
  await expect.poll(async () => (await hits()).hit_count).toBe(before + 1)
  expect(response).toBe(other)
  return response
}

const host = 'Host: files.example.com\r\n'
const get = (target: string) => `GET ${target} HTTP/1.1\r\n${host}\r\n`
/** Percent-encodes every character but the first slash. */
const encoded = (text: string) => text.replace(/(?!^)./g, (one) => `%${one.charCodeAt(0).toString(16)}`)

describe('a fetch of a decoy URL is noticed, and answered like any other', () => {
  const targets: [string, (path: string) => string][] = [
    ['with a query', (path) => `${path}?a=b`],
    ['with a file name', (path) => `${path}/codes.csv`],
    ['with a trailing slash', (path) => `${path}/`],
    ['with a trailing dot', (path) => `${path}.`],
    ['with a double slash', (path) => path.replaceAll('/', '//')],
    ['with dot segments', (path) => `/x/..${path}`],
    ['behind the path of a proxy', (path) => `/shared/files${path}`],
    ['as a whole URL', (path) => `http://files.example.com${path}`],
    ['as the URL of another host', (path) => `https://other.example:8443${path}`],
    ['within a query', (path) => `/?url=${encodeURIComponent(`https://files.example.com${path}`)}`],
    ['percent-encoded', encoded],
    ['percent-encoded in upper case', (path) => encoded(path).toUpperCase()],
    ['percent-encoded twice', (path) => `/${encodeURIComponent(encodeURIComponent(path))}`],
    ['beside an invalid sequence', (path) => `${path}/%zz%ff%`],
    ...[',', ')', ').', ';', '"', "'", '>', '%22', '%3E', '*', '`', ']', '}', '!', ':', '\\', '|', '&'].map(
      (mark): [string, (path: string) => string] => [`followed by ${mark}`, (path) => `${path}${mark}`],
    ),
  ]
  it.each(targets)('is found %s', async (_form, targetOf) => {
    expect(await noticed((path) => get(targetOf(path)))).toMatch(/^HTTP\/1\.1 404 /)
  })

  const requests: [string, (path: string) => string][] = [
    ['HEAD', (path) => `HEAD ${path} HTTP/1.1\r\n${host}\r\n`],
    ['OPTIONS', (path) => `OPTIONS ${path} HTTP/1.1\r\n${host}\r\n`],
    ['PROPFIND', (path) => `PROPFIND ${path} HTTP/1.1\r\n${host}\r\n`],
    ['CONNECT', (path) => `CONNECT files.example.com:443${path} HTTP/1.1\r\n${host}\r\n`],
    ['a POST with a body', (path) => `POST ${path} HTTP/1.1\r\n${host}Content-Length: 999999\r\n\r\nbody`],
    ['a missing Host', (path) => `GET ${path} HTTP/1.1\r\n\r\n`],
    ['two Hosts', (path) => `GET ${path} HTTP/1.1\r\n${host}${host}\r\n`],
    ['HTTP/0.9', (path) => `GET ${path}\r\n\r\n`],
    ['HTTP/1.0', (path) => `GET ${path} HTTP/1.0\r\n\r\n`],
    ['HTTP/1.0 with keep-alive', (path) => `GET ${path} HTTP/1.0\r\nConnection: keep-alive\r\n\r\n`],
    [
      'Expect: 100-continue',
      (path) => `PUT ${path} HTTP/1.1\r\n${host}Expect: 100-continue\r\nContent-Length: 9\r\n\r\n`,
    ],
    ['another Expect', (path) => `GET ${path} HTTP/1.1\r\n${host}Expect: 200-ok\r\n\r\n`],
    ['an upgrade', (path) => `GET ${path} HTTP/1.1\r\n${host}Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n`],
    ['an upgrade to HTTP/2', (path) => `GET ${path} HTTP/1.1\r\n${host}Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n`],
  ]
  it.each(requests)('by a request with %s', async (_form, requestOf) => {
    expect(await noticed(requestOf)).toMatch(/^HTTP\/1\.1 404 Not Found\r\n/)
  })

  const invalid: [string, (path: string) => string][] = [
    ['an unknown method', (path) => `FETCH ${path} HTTP/1.1\r\n${host}\r\n`],
    ['a method in lower case', (path) => `get ${path} HTTP/1.1\r\n${host}\r\n`],
    ['bytes above ASCII', (path) => get(`${path}\xe2\x80\xa6`)],
    ['a tab instead of a space', (path) => `GET\t${path} HTTP/1.1\r\n${host}\r\n`],
    ['spaces in the target', (path) => `GET /shared files${path} HTTP/1.1\r\n${host}\r\n`],
    ['an unknown version', (path) => `GET ${path} HTTP/7.1\r\n${host}\r\n`],
    ['an invalid header', (path) => `GET ${path} HTTP/1.1\r\n${host}A B: c\r\n\r\n`],
    ['two lengths', (path) => `POST ${path} HTTP/1.1\r\n${host}Content-Length: 1\r\nContent-Length: 2\r\n\r\n`],
    [
      'a request behind one with a length and chunks',
      (path) =>
        `POST / HTTP/1.1\r\n${host}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${get(path)}`,
    ],
    ['too large headers', (path) => `GET ${path} HTTP/1.1\r\n${host}Cookie: ${'a'.repeat(20_000)}\r\n\r\n`],
  ]
  it.each(invalid)('by bytes that are not HTTP: %s', async (_form, requestOf) => {
    expect(await noticed(requestOf)).toBe('')
  })

  // What node refuses in a later packet has no request line in that packet.
  const split: [string, (path: string) => string[]][] = [
    ['an invalid header', (path) => [`GET ${path} HTTP/1.1\r\n${host}`, 'A B: c\r\n\r\n']],
    [
      'too large headers',
      (path) => [`GET ${path} HTTP/1.1\r\n`, ...Array.from({ length: 9 }, () => `Cookie: ${'a'.repeat(1_000)}\r\n`)],
    ],
    ['half of the target', (path) => [`GET ${path.slice(0, 9)}`, `${path.slice(9)} HTTP/7.1\r\n${host}\r\n`]],
    ['HTTP/0.9 without a blank line', (path) => [`GET ${path}\r\n`]],
    ['headers that do not end', (path) => [`GET ${path} HTTP/1.1\r\n`, host]],
  ]
  it.each(split)('in several packets: %s', async (_form, packetsOf) => {
    expect(await noticed(packetsOf)).toBe('')
  })

  it.each(split)('when the client closes after several packets: %s', async (_form, packetsOf) => {
    const socket = await open()
    for (const packet of packetsOf(path)) await written(socket, packet)
    socket.destroy()
    await expect.poll(async () => (await hits()).hit_count).toBe(1)
  })

  it('behind other requests of the same connection', async () => {
    expect(await noticed((path) => get('/') + get(path))).toMatch(/^HTTP\/1\.1 404 /)
  })

  const connectTo = (target: string) => `CONNECT ${target} HTTP/1.1\r\n${host}\r\n`
  const upgradeOf = (target: string) =>
    `GET ${target} HTTP/1.1\r\n${host}Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n`
  // Each of these ended the process, or could: the response to the first request is still on its way.
  it.each<[string, (path: string) => string]>([
    ['a CONNECT behind a GET', (path) => get('/') + connectTo(`b:1${path}`)],
    ['a GET behind a CONNECT', (path) => connectTo('b:1') + get(path)],
    ['a CONNECT behind many GETs', (path) => get('/').repeat(50) + connectTo(`b:1${path}`)],
    ['a CONNECT behind a CONNECT', (path) => connectTo('b:1') + connectTo(`b:1${path}`)],
    ['an upgrade behind a GET', (path) => get('/') + upgradeOf(path)],
    ['a GET behind an upgrade', (path) => upgradeOf('/') + get(path)],
    ['a CONNECT behind an upgrade', (path) => upgradeOf('/') + connectTo(`b:1${path}`)],
    ['an upgrade behind a CONNECT', (path) => connectTo('b:1') + upgradeOf(path)],
    ['invalid bytes behind a GET', (path) => `${get('/')}FETCH ${path} HTTP/1.1\r\n${host}\r\n`],
  ])('in one packet: %s', async (_form, requestOf) => {
    const response = await noticed(requestOf)
    expect(response.match(/HTTP/g) ?? []).toHaveLength(1)
    expect(await exchange(get('/'))).toMatch(/^HTTP\/1\.1 404 /)
  })

  it('by a CONNECT, with the same response as by a GET', async () => {
    expect(await exchange(connectTo(`b:1${path}`))).toBe(await exchange(get('/')))
  })

  // What a body contains was not fetched.
  it('but not in the body of a request', async () => {
    const text = `see ${path} for more\r\n`
    await exchange(`POST / HTTP/1.1\r\n${host}Content-Length: ${text.length}\r\n\r\n${text}`)
    expect((await hits()).hit_count).toBe(0)
  })

  // Anyone can reach the port: whatever fails there must not end the process.
  it('and a fault in the look-up closes the connection, not the service', async () => {
    const lines: unknown[] = []
    const log = { ...service.deps.log, error: (...line: unknown[]) => void lines.push(line) }
    const take = () => {
      throw new Error('look-up failed')
    }
    const failing = await openDecoyListener({ ...service.deps, log } as never, { take, dropped: () => {} })
    const requests = [
      get('/'),
      connectTo('b:1'),
      upgradeOf('/'),
      'FETCH / HTTP/1.1\r\n\r\n',
      get('/') + connectTo('b:1'),
    ]
    for (const request of requests) await exchange(request, undefined, failing.port)
    expect(lines.length).toBeGreaterThanOrEqual(requests.length)
    await failing.close()
  })

  it('only once if invalid bytes follow the request', async () => {
    await noticed((path) => `POST ${path} HTTP/1.1\r\n${host}Transfer-Encoding: chunked\r\n\r\nno length\r\n`)
  })

  // Node leaves the errors of such a connection to its listener; without one, a reset ends the process.
  it('by a CONNECT whose connection is reset', async () => {
    const requests = Array.from({ length: 30 }, async () => {
      const socket = await open()
      socket.write(`CONNECT files.example.com:443${path} HTTP/1.1\r\n\r\n${'a'.repeat(100_000)}`)
      socket.resetAndDestroy()
    })
    await Promise.all(requests)
    const uncaught: unknown[] = []
    const note = (fault: unknown) => uncaught.push(fault)
    process.on('uncaughtExceptionMonitor', note)
    await expect.poll(async () => (await hits()).hit_count).toBeGreaterThan(0)
    expect(await exchange(get('/'))).toMatch(/^HTTP\/1\.1 404 /)
    process.off('uncaughtExceptionMonitor', note)
    expect(uncaught).toEqual([])
  })

  it('with the address that a trusted proxy forwards, and no other', async () => {
    const from = (forwarded: string, localAddress?: string) =>
      exchange(`GET ${path} HTTP/1.1\r\nX-Forwarded-For: ${forwarded}\r\n\r\n`, localAddress)
    await from('198.51.100.1, 203.0.113.7', '127.0.0.3')
    await from('203.0.113.8')
    await from('unknown', '127.0.0.3')
    const addresses = (await hits()).hits.map(({ ip_address }) => ip_address)
    expect(addresses.toSorted()).toEqual(['127.0.0.1', '127.0.0.3', '203.0.113.7'])
  })
})

describe('the time of the response', () => {
  // Otherwise the longer work on a hit would delay its response, and show an attacker which URLs are decoys.
  it('is before any work on the request: the client has the whole response first', async () => {
    const shared = new Int32Array(new SharedArrayBuffer(4))
    const received: boolean[] = []
    const take = (_fetched: Fetched) => {
      // Holds the event loop: a response that is not with the client yet cannot be sent before the deadline.
      received.push(Atomics.wait(shared, 0, 0, 10_000) !== 'timed-out')
    }
    const blocking = await openDecoyListener(service.deps, { take, dropped: () => {} })
    const client = new Worker(
      `const { workerData: { port, shared, request } } = require('node:worker_threads')
      let response = ''
      require('node:net').connect(port, '127.0.0.1').setEncoding('latin1').on('data', (chunk) => {
        response += chunk
        if (!response.endsWith('\\r\\n\\r\\nNot Found\\n')) return
        Atomics.store(shared, 0, 1)
        Atomics.notify(shared, 0)
      }).write(request)`,
      { eval: true, workerData: { port: blocking.port, shared, request: get(path) } },
    )
    await expect.poll(() => received).toEqual([true])
    await client.terminate()
    await blocking.close()
  })

  // The look-up of a hit takes longer too, and would delay the response to the attacker's next request.
  it('is independent of look-ups, which follow at a random later time for hits and misses alike', async () => {
    const { decoyFetches } = service.services
    const looked = async () => {
      const { values } = await service.deps.metrics.decoyFetches.get()
      return Object.fromEntries(values.map(({ labels, value }) => [labels.outcome, value]))
    }
    for (const target of [path, unknownPath])
      decoyFetches.take({ target, method: 'GET', address: '203.0.113.7', headers: {} })
    const atOnce = looked()
    await decoyFetches.whenIdle()
    expect(await atOnce).toEqual({})
    expect(await looked()).toEqual({ decoy: 1, unknown: 1 })
    decoyFetches.take({ target: path, method: 'GET', address: '203.0.113.7', headers: {} })
    await expect.poll(looked).toEqual({ decoy: 2, unknown: 1 })
  })

  // An attacker could otherwise displace a hit by many misses before it is looked up.
  it('is the only thing that a flood of misses changes: the hit among them is recorded', async () => {
    const { decoyFetches } = service.services
    const missed = { target: unknownPath, method: 'GET', address: '203.0.113.7', headers: {} }
    for (let count = 0; count < 5_000; count++) decoyFetches.take(count === 777 ? { ...missed, target: path } : missed)
    expect((await hits()).hit_count).toBe(1)
  })
})

describe('a flood of connections without a request', () => {
  const slow = 'GET / HTTP/1.1\r\nA: '
  const dropped = async (): Promise<Record<string, number>> => {
    const { values } = await service.deps.metrics.decoyConnectionsDropped.get()
    return Object.fromEntries(values.map(({ labels, value }) => [labels.reason, value]))
  }
  /** On a busy machine some connections time out before they are replaced. */
  const droppedFor = async (reason: 'address' | 'total') => {
    const { timeout = 0, [reason]: replaced = 0 } = await dropped()
    expect(replaced).toBeGreaterThan(0)
    return replaced + timeout
  }
  const events = () =>
    service.rows<{ severity: string; description: string; ip_address: string; metadata: string }>(
      `select severity, description, ip_address, metadata from events where event_type = 'decoy_connections_dropped' order by seq`,
    )
  async function flood(count: number, localAddress: string): Promise<Disposable> {
    const sockets: Socket[] = []
    for (let opened = 0; opened < count; opened += 50) {
      const some = await Promise.all(Array.from({ length: 50 }, () => open(localAddress)))
      for (const socket of some) socket.write(slow)
      sockets.push(...some)
    }
    return { [Symbol.dispose]: () => sockets.forEach((socket) => void socket.destroy()) }
  }

  // One machine that held every connection could open decoy URLs from another one, and nobody would notice.
  it.each(['127.0.0.2', '127.0.0.1'])('from one address hides no fetch from %s', async (address) => {
    using _flood = await flood(500, '127.0.0.1')
    const responses = await Promise.all(Array.from({ length: 20 }, () => exchange(get(path), address)))
    expect(responses.every((response) => response.startsWith('HTTP/1.1 404'))).toBe(true)
    expect((await hits()).hit_count).toBe(20)
    expect(await droppedFor('address')).toBeGreaterThanOrEqual(450)
  })

  // Twenty machines can hold every connection, each within the limit of its address.
  it('from many addresses hides no fetch', async () => {
    const floods = await Promise.all(Array.from({ length: 20 }, (_, number) => flood(50, `127.0.0.${10 + number}`)))
    const responses = await Promise.all(Array.from({ length: 20 }, () => exchange(get(path), '127.0.0.2')))
    expect(responses.every((response) => response.startsWith('HTTP/1.1 404'))).toBe(true)
    expect((await hits()).hit_count).toBe(20)
    expect(await droppedFor('total')).toBeGreaterThanOrEqual(500)
    for (const one of floods) one[Symbol.dispose]()
  })

  it('is reported at once, and then once a minute with the count', async () => {
    {
      using _flood = await flood(100, '127.0.0.2')
      expect(await exchange(get('/'))).toMatch(/ 404 /)
      await service.services.ingest.whenIdle()
      expect(await events()).toMatchObject([{ severity: 'warning', ip_address: '127.0.0.2' }])
    }
    const { address = 0 } = await dropped()
    service.clock.advance(60_000)
    await service.services.countedReports.run()
    const [, later, ...more] = await events()
    expect(more).toEqual([])
    expect(address).toBeGreaterThan(1)
    expect(later!.description).toContain(`WARDLINE_DECOY_PORT is flooded: ${address - 1} connections`)
    expect(JSON.parse(later!.metadata)).toMatchObject({ beyond_address_limit: address - 1, beyond_total_limit: 0 })
  })

  it('ends by itself: a connection without a whole request is closed after a second, without an event', async () => {
    const idle = await open()
    const trickling = await open()
    trickling.write(slow)
    idle.resume()
    trickling.resume()
    await Promise.all([once(idle, 'close'), once(trickling, 'close')])
    expect(await dropped()).toEqual({ timeout: 2 })
    expect(await events()).toEqual([])
  })
})
