import { once } from 'node:events'
import { createServer as createHttpServer, type IncomingMessage, type RequestListener } from 'node:http'
import { createServer as createHttpsServer } from 'node:https'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { Readable } from 'node:stream'
import { createServer as createTlsServer, getCACertificates, setDefaultCACertificates } from 'node:tls'
import { afterEach, describe, expect, it } from 'vitest'
import { createTestCertificate } from '../../../../test-servers/certificate.ts'
import { type Egress, EgressError } from './egress.ts'
import { createEgress, type EgressOptions } from './open-egress.ts'

const loopback = ['127.0.0.1/32']
/** Name of every receiver; each test defines its addresses. */
const name = 'hooks.example.com'
const leadingTo =
  (...addresses: string[]) =>
  async () =>
    addresses

const opened: (() => unknown)[] = []
afterEach(async () => {
  for (const close of opened.splice(0).reverse()) await close()
})

function egressOf(options: Partial<EgressOptions> = {}): Egress {
  const egress = createEgress({ guarded: true, allow: loopback, resolve: leadingTo('127.0.0.1'), ...options })
  opened.push(() => egress.close())
  return egress
}

interface Listener {
  port: number
  /** One promise for each connection so far, which resolves when the connection is closed. */
  ends: Promise<unknown>[]
}

async function listen(server: Server): Promise<Listener> {
  const sockets: Socket[] = []
  const ends: Promise<unknown>[] = []
  server.on('connection', (socket) => {
    sockets.push(socket)
    ends.push(new Promise((resolve) => socket.on('error', () => {}).on('close', resolve)))
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  opened.push(async () => {
    for (const socket of sockets) socket.destroy()
    await once(server.close(), 'close')
  })
  return { port: (server.address() as AddressInfo).port, ends }
}

const serve = (answer: RequestListener): Promise<Listener> => listen(createHttpServer(answer))
const serveRaw = (accept: (socket: Socket) => void): Promise<Listener> => listen(createServer(accept))
/** Answers every request with these bytes; closes the connection by default. */
const answering = (bytes: string) => serveRaw((socket) => void socket.once('data', () => socket.end(bytes)))

const requestTo = (port: number, scheme = 'http', host = name) => ({
  url: `${scheme}://${host}:${port}/in/s3cret?key=s3cret`,
  headers: { authorization: 'Bearer s3cret' },
  body: '{"text":"s3cret"}',
})

/** Returns the message of a failure, and asserts that it contains nothing of the request. */
async function failureOf(work: Promise<unknown>): Promise<string> {
  const fault = await work.then(
    () => new Error('Nothing failed.'),
    (reason: unknown) => reason,
  )
  expect(fault).toBeInstanceOf(EgressError)
  const { message } = fault as EgressError
  expect(message).toMatch(/^[^\n]+\.$/)
  expect(message).not.toContain('s3cret')
  return message
}

describe('a request', () => {
  it('is sent unchanged, and resolves with the response', async () => {
    const received: { request: IncomingMessage; body: string }[] = []
    const { port } = await serve(async (request, response) => {
      const chunks: Buffer[] = await request.toArray()
      received.push({ request, body: Buffer.concat(chunks).toString() })
      response.writeHead(202, ['X-Twice', 'first', 'X-Twice', 'second', 'Retry-After', '7']).end('über')
    })
    const body = '{"text":"größer 🦊"}'
    const answer = await egressOf().post({ ...requestTo(port), headers: { 'X-Own': 'a', Host: 'other' }, body })
    expect(answer).toMatchObject({ status: 202, headers: { 'x-twice': 'first', 'retry-after': '7' }, body: 'über' })
    const [{ request, body: text }] = received as [(typeof received)[0]]
    expect([request.method, request.url, text]).toEqual(['POST', '/in/s3cret?key=s3cret', body])
    expect(request.headers).toMatchObject({
      host: `${name}:${port}`,
      'x-own': 'a',
      'content-length': String(Buffer.byteLength(body)),
      // A compressed response could exceed the limit when decompressed.
      'accept-encoding': 'identity',
    })
  })

  it('reuses a connection, which close() closes', async () => {
    const { port, ends } = await serve((request, response) => {
      request.resume()
      response.end('ok')
    })
    const egress = egressOf()
    for (let round = 0; round < 3; round++) expect(await egress.post(requestTo(port))).toMatchObject({ body: 'ok' })
    expect(ends).toHaveLength(1)
    const closedAt = performance.now()
    egress.close()
    await Promise.all(ends)
    // An idle connection would be closed 4 seconds after its last response anyway.
    expect(performance.now() - closedAt).toBeLessThan(3_500)
  })

  it('connects to another address of a name if the first one refuses', async () => {
    const { port } = await serve((_, response) => response.end())
    const egress = egressOf({ allow: ['127.0.0.0/8', '::1'], resolve: leadingTo('::1', '127.0.0.1') })
    expect(await egress.post(requestTo(port))).toMatchObject({ status: 200 })
  })
})

// Endless interim responses used up a CPU core until the deadline.
describe('a receiver that sends interim 1xx responses', () => {
  const interim = 'HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n'

  it.each([interim, 'HTTP/1.1 100 Continue\r\n\r\n'])('is disconnected after a few of %j', async (interim) => {
    let written = 0
    const { port, ends } = await serveRaw((socket) => {
      const more = () => {
        while (!socket.destroyed && socket.write(interim.repeat(100))) written += 100
      }
      socket.once('data', more).on('drain', more)
    })
    const sentence = await failureOf(egressOf({ deadlineMs: 60_000 }).post(requestTo(port)))
    expect(sentence).toContain('headers of the answer')
    await Promise.all(ends)
    // The amount that fits into the buffers of the system, not into the deadline.
    expect(written * interim.length).toBeLessThan(64 * 1024 * 1024)
  })

  it('is disconnected after a few large ones', async () => {
    const large = `HTTP/1.1 102 Processing\r\nx: ${'y'.repeat(9_000)}\r\n\r\n`
    const { port } = await serveRaw((socket) => void socket.once('data', () => socket.write(large.repeat(2))))
    expect(await failureOf(egressOf({ deadlineMs: 60_000 }).post(requestTo(port)))).toContain('are too large')
  })

  it('is accepted if the response follows after two', async () => {
    const { port } = await answering(`${interim}${interim}HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok`)
    expect(await egressOf().post(requestTo(port))).toMatchObject({ status: 200, body: 'ok' })
  })
})

describe('a guarded egress', () => {
  // DNS rebinding: a name resolves first to an allowed address and a moment later to a forbidden one.
  it('resolves a name once per request, and connects only to the addresses it checked', async () => {
    const { port, ends } = await serve((_, response) => response.end())
    const answers = [['127.0.0.1'], ['0.0.0.0'], ['127.0.0.1']]
    let asked = 0
    const egress = egressOf({ resolve: async () => answers[asked++]! })
    expect(await egress.post(requestTo(port))).toMatchObject({ status: 200 })
    expect(asked).toBe(1)
    // A pooled connection is not reused either.
    expect(await failureOf(egress.post(requestTo(port)))).toBe(
      `${name} resolves to 0.0.0.0, which WARDLINE_ALERT_ALLOW_CIDRS does not allow.`,
    )
    const socket = await egress.connect({ host: name, port, tls: false })
    socket.destroy()
    await expect.poll(() => ends.length).toBe(2)
    expect(asked).toBe(3)
  })

  // Any address may be used, so an attacker could mix a forbidden one with others and wait.
  it.each([[['127.0.0.1', '10.0.0.7']], [['10.0.0.7', '127.0.0.1']], [['127.0.0.1', '::1']]])(
    'refuses a name with the addresses %j',
    async (addresses) => {
      const { port, ends } = await serve((_, response) => response.end())
      const egress = egressOf({ resolve: leadingTo(...addresses) })
      const refused = /resolves to (10\.0\.0\.7|::1), which WARDLINE_ALERT_ALLOW_CIDRS does not allow\.$/
      expect(await failureOf(egress.post(requestTo(port)))).toMatch(refused)
      expect(await failureOf(egress.connect({ host: name, port, tls: false }))).toMatch(refused)
      expect(ends).toHaveLength(0)
    },
  )

  it('refuses a forbidden address in a URL', async () => {
    const sentence = 'The URL leads to 10.0.0.7, which WARDLINE_ALERT_ALLOW_CIDRS does not allow.'
    expect(await failureOf(egressOf().post(requestTo(443, 'https', '10.0.0.7')))).toBe(sentence)
    expect(await failureOf(egressOf().connect({ host: '10.0.0.7', port: 514, tls: true }))).toBe(sentence)
  })

  // An allowed receiver could redirect the service to a forbidden one.
  it.each([301, 302, 303, 307, 308])('returns a redirect with status %i without following it', async (status) => {
    const inner = await serve((_, response) => response.end())
    const { port } = await serve((_, response) => {
      response.writeHead(status, { location: `http://127.0.0.1:${inner.port}/` }).end()
    })
    expect(await egressOf().post(requestTo(port))).toMatchObject({ status })
    expect(inner.ends).toHaveLength(0)
  })

  // Secrets of receivers would cross the internet unencrypted, and the response would not be authenticated.
  it('uses plain HTTP only for addresses in the allow-list', async () => {
    const sentence = `${name} must use https://: http:// is only allowed for addresses in WARDLINE_ALERT_ALLOW_CIDRS.`
    const egress = egressOf({ resolve: leadingTo('127.0.0.1', '93.184.215.14') })
    expect(await failureOf(egress.post(requestTo(8080)))).toBe(sentence)
  })

  // Some services below port 1024 would take a POST or a line of syslog for a command.
  it('refuses ports of other services', async () => {
    const asked: string[] = []
    const egress = egressOf({ resolve: async (host) => [asked.push(host), '127.0.0.1'].slice(1) as string[] })
    for (const port of [0, 1, 22, 25, 79, 81, 444, 514, 1023]) {
      const sentence = `${name} must use port 80, 443 or a port of at least 1024.`
      expect(await failureOf(egress.post(requestTo(port)))).toBe(sentence)
      expect(await failureOf(egress.post({ ...requestTo(port), url: `https://${name}:${port}/` }))).toBe(sentence)
    }
    for (const port of [0, 22, 80, 443, 515, 1023]) {
      const sentence = `${name} must use port 25, 465, 514, 587, 601 or a port of at least 1024.`
      expect(await failureOf(egress.connect({ host: name, port, tls: false }))).toBe(sentence)
    }
    expect(asked).toEqual([])
  })
})

describe('every egress', () => {
  // The part before the @ could be mistaken for the host, and proxies would log a password.
  it.each([true, false])('refuses a user in a URL (guarded: %s)', async (guarded) => {
    const { port, ends } = await serve((_, response) => response.end())
    for (const user of ['user', 'user:s3cret', ':s3cret', 'other.example.com:s3cret']) {
      const url = `http://${user}@${name}:${port}/`
      expect(await failureOf(egressOf({ guarded }).post({ ...requestTo(port), url }))).toBe(
        `The URL of ${name} must not contain a user or a password.`,
      )
    }
    expect(ends).toHaveLength(0)
  })

  it('connects to any address and port if it is not guarded', async () => {
    const { port } = await serve((_, response) => response.end())
    const egress = egressOf({ guarded: false, allow: [] })
    expect(await egress.post(requestTo(port))).toMatchObject({ status: 200 })
    expect(await failureOf(egress.connect({ host: name, port: 1, tls: false }))).toBe(`${name} refused the connection.`)
  })

  it('posts only to valid HTTP URLs', async () => {
    const url = 'tcp://127.0.0.1:8080/s3cret'
    const sentence = 'The URL of 127.0.0.1 must begin with https:// or http://.'
    expect(await failureOf(egressOf({ guarded: false }).post({ ...requestTo(0), url }))).toBe(sentence)
    const broken = { ...requestTo(0), url: 'https://a b/s3cret' }
    expect(await failureOf(egressOf().post(broken))).toBe('The URL of the receiver is not valid.')
  })

  it('reports a name without addresses as not resolved', async () => {
    const egress = egressOf({ resolve: leadingTo() })
    expect(await failureOf(egress.post(requestTo(443, 'https')))).toBe(
      `The name ${name} could not be resolved (ENOTFOUND).`,
    )
  })

  // Line breaks in a header would inject another header or request.
  it('rejects a header with a line break', async () => {
    const { port, ends } = await serve((_, response) => response.end())
    const headers = { authorization: 's3cret\r\nhost: other' }
    expect(await failureOf(egressOf().post({ ...requestTo(port), headers }))).toBe(
      `Nothing could be sent to ${name} (ERR_INVALID_CHAR).`,
    )
    expect(ends).toHaveLength(0)
  })
})

/** Writes a few bytes every 5 ms until the other side closes the connection. */
function drip(socket: Socket, start: string, drop: string): void {
  socket.write(start)
  const timer = setInterval(() => socket.write(drop), 5)
  socket.on('close', () => clearInterval(timer))
}

// A receiver that never completes a response would block an attempt and the alerts behind it.
describe('the deadline', () => {
  const deadlineMs = 100
  const late = `${name} did not answer within 0.1 seconds.`

  it.each<[string, (socket: Socket) => void]>([
    ['that says nothing', () => {}],
    ['that drips a status', (socket) => drip(socket, 'HTTP/1.1 100', ' ')],
    ['that drips headers', (socket) => drip(socket, 'HTTP/1.1 200 OK\r\n', 'a: b\r\n')],
  ])('ends a request to a receiver %s', async (_, accept) => {
    const { port, ends } = await serveRaw((socket) => accept(socket.resume()))
    expect(await failureOf(egressOf({ deadlineMs }).post(requestTo(port)))).toBe(late)
    await Promise.all(ends)
  })

  it('ends a slow response, of which the received part is returned', async () => {
    const start = 'HTTP/1.1 503 No\r\nretry-after: 9\r\ncontent-length: 100000\r\n\r\nbusy'
    const { port, ends } = await serveRaw((socket) => drip(socket.resume(), start, '.'))
    const { status, headers, body } = await egressOf({ deadlineMs }).post(requestTo(port))
    expect([status, headers['retry-after'], body]).toEqual([503, '9', expect.stringMatching(/^busy\.*$/)])
    await Promise.all(ends)
  })

  it('applies in addition to a signal of the caller', async () => {
    const { port } = await serveRaw((socket) => void socket.resume())
    const { signal } = new AbortController()
    expect(await failureOf(egressOf({ deadlineMs }).post(requestTo(port), signal))).toBe(late)
  })

  it('ends a request that waits for the name service', async () => {
    const egress = egressOf({ deadlineMs, resolve: () => new Promise(() => {}) })
    expect(await failureOf(egress.post(requestTo(443)))).toBe(late)
    expect(await failureOf(egress.connect({ host: name, port: 514, tls: true }))).toBe(late)
  })

  it('ends a TLS handshake', async () => {
    const { port, ends } = await serveRaw((socket) => void socket.resume())
    const egress = egressOf({ deadlineMs })
    expect(await failureOf(egress.post(requestTo(port, 'https')))).toBe(late)
    expect(await failureOf(egress.connect({ host: name, port, tls: true }))).toBe(late)
    await Promise.all(ends)
  })
})

// No response may fill the memory or crash the service.
describe('a response', () => {
  it('is read up to 64 KiB', async () => {
    const { port, ends } = await serve((_, response) => {
      const endless = Readable.from(
        (function* () {
          for (;;) yield 'x'.repeat(10_000)
        })(),
      )
      endless.pipe(response).on('close', () => endless.destroy())
    })
    const { status, body } = await egressOf().post(requestTo(port))
    expect([status, body]).toEqual([200, 'x'.repeat(65_536)])
    await Promise.all(ends)
  })

  it('is not truncated within a character', async () => {
    const { port } = await serve((_, response) => response.end('€'.repeat(30_000)))
    expect((await egressOf().post(requestTo(port))).body).toBe('€'.repeat(21_845))
  })

  it('is accepted once its status is received, even if its body is interrupted or invalid', async () => {
    const ends = ['', 'zzz\r\nbroken', '5\r\nhel', '5;x=y\r\nhello\r\n0\r\nbad trailer\r\n\r\n']
    for (const end of ends) {
      const { port } = await answering(`HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n${end}`)
      const { status, body } = await egressOf().post(requestTo(port))
      expect([status, 'hello'.startsWith(body)]).toEqual([200, true])
    }
  })

  it.each([
    ['nothing', '', `${name} closed the connection without an answer.`],
    ['half a status', 'HTTP/1.1 20', /closed the connection|not HTTP/],
    ['a banner of SMTP', '220 mail.example.com ESMTP\r\n', /not HTTP \(HPE_INVALID_CONSTANT\)/],
    ['HTML without HTTP', '<!doctype html>\n<title>x</title>', /not HTTP/],
    ['bytes of all kinds', String.fromCharCode(...Array(256).keys()).repeat(300), /not HTTP/],
    ['a status that is none', 'HTTP/1.1 abc OK\r\n\r\n', /not HTTP/],
    ['a version that is none', 'HTTP/9.9 200 OK\r\n\r\n', /not HTTP/],
    ['a header without a name', 'HTTP/1.1 200 OK\r\n: x\r\n\r\n', /not HTTP/],
    ['a header with NUL', 'HTTP/1.1 200 OK\r\na: \0\r\n\r\n', /not HTTP/],
    ['two lengths', 'HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab', /not HTTP/],
    ['a flood of headers', `HTTP/1.1 200 OK\r\n${'a: b\r\n'.repeat(100_000)}\r\n`, /are too large\.$/],
    ['one long header', `HTTP/1.1 200 OK\r\na: ${'b'.repeat(1_000_000)}\r\n\r\n`, /are too large\.$/],
    ['another protocol', 'HTTP/1.1 101 Yes\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n!', /closed the connection/],
  ])('of %s fails with one sentence', async (_, bytes, sentence) => {
    const { port, ends } = await answering(bytes)
    expect(await failureOf(egressOf().post(requestTo(port)))).toMatch(sentence)
    await Promise.all(ends)
  })

  it('may have headers named like properties of Object.prototype', async () => {
    const { port } = await answering('HTTP/1.1 200 OK\r\n__proto__: a\r\nconstructor: b\r\ncontent-length: 0\r\n\r\n')
    const { headers } = await egressOf().post(requestTo(port))
    expect(Object.entries(headers)).toEqual([
      ['__proto__', 'a'],
      ['constructor', 'b'],
      ['content-length', '0'],
    ])
  })
})

describe('TLS', () => {
  const certificate = createTestCertificate()
  /** Server names (SNI) of the handshakes. */
  let asked: string[] = []
  const secure = () => {
    asked = []
    const SNICallback = (servername: string, done: (fault: null) => void) => {
      asked.push(servername)
      done(null)
    }
    return listen(createHttpsServer({ ...certificate, SNICallback }, (_, response) => response.end('ok')))
  }
  const trust = () => {
    const before = getCACertificates('default')
    setDefaultCACertificates([certificate.cert])
    opened.push(() => setDefaultCACertificates(before))
  }

  // An attacker between the service and the receiver could read and drop alerts.
  it('rejects a certificate without a trusted issuer', async () => {
    const { port, ends } = await secure()
    for (const guarded of [true, false]) {
      const egress = egressOf({ guarded })
      const sentence = `${name} presented a certificate that is not trusted (DEPTH_ZERO_SELF_SIGNED_CERT).`
      expect(await failureOf(egress.post(requestTo(port, 'https')))).toBe(sentence)
      expect(await failureOf(egress.connect({ host: name, port, tls: true }))).toBe(sentence)
    }
    await Promise.all(ends)
  })

  // An attacker who controls DNS and has a valid certificate of another host could pose as the receiver.
  it('rejects the certificate of another host', async () => {
    trust()
    const { port, ends } = await secure()
    const egress = egressOf()
    const sentence = `${name} presented the certificate of another host.`
    expect(await failureOf(egress.post(requestTo(port, 'https')))).toBe(sentence)
    expect(await failureOf(egress.connect({ host: name, port, tls: true }))).toBe(sentence)
    await Promise.all(ends)
    // SNI contains the name without its trailing dot.
    expect(await failureOf(egress.post(requestTo(port, 'https', `${name}.`)))).toMatch(/another host/)
    expect(await failureOf(egress.connect({ host: `${name}.`, port, tls: true }))).toMatch(/another host/)
    expect(new Set(asked)).toEqual(new Set([name]))
  })

  it('accepts the certificate of the host', async () => {
    trust()
    const { port, ends } = await secure()
    const egress = egressOf()
    const request = requestTo(port, 'https', '127.0.0.1')
    for (let round = 0; round < 2; round++) expect(await egress.post(request)).toMatchObject({ status: 200 })
    expect(ends).toHaveLength(1)
    const socket = await egress.connect({ host: '127.0.0.1', port, tls: true })
    expect(socket).toMatchObject({ authorized: true, encrypted: true })
    socket.destroy()
  })

  it('reports a receiver that does not support TLS', async () => {
    const { port } = await serve((_, response) => response.end())
    expect(await failureOf(egressOf().post(requestTo(port, 'https')))).toMatch(
      /^hooks\.example\.com and this service could not agree on TLS \(\w+\)\.$/,
    )
  })
})

describe('a connection', () => {
  it('transfers bytes in both directions, with and without TLS', async () => {
    const certificate = createTestCertificate()
    const before = getCACertificates('default')
    setDefaultCACertificates([certificate.cert])
    opened.push(() => setDefaultCACertificates(before))
    const echo = (socket: Socket) => void socket.pipe(socket)
    for (const server of [createServer(echo), createTlsServer(certificate, echo)]) {
      const { port } = await listen(server)
      const socket = await egressOf().connect({
        host: '127.0.0.1',
        port,
        tls: server.listenerCount('secureConnection') > 0,
      })
      socket.end('hello')
      expect(Buffer.concat(await socket.toArray()).toString()).toBe('hello')
    }
  })

  // An error without a listener would end the process.
  it('may fail before the caller adds a listener', async () => {
    const { port } = await serveRaw((socket) => void socket.once('data', () => socket.resetAndDestroy()))
    const socket = await egressOf().connect({ host: name, port, tls: false })
    socket.write('x')
    await new Promise((resolve) => socket.resume().on('close', resolve))
    expect(socket.destroyed).toBe(true)
  })
})

describe('a signal', () => {
  const brokenOff = `${name} did not answer before the attempt was cancelled.`

  it('cancels a request', async () => {
    const stop = new AbortController()
    const { port, ends } = await serveRaw((socket) => void socket.resume().once('data', () => stop.abort()))
    expect(await failureOf(egressOf().post(requestTo(port), stop.signal))).toBe(brokenOff)
    await Promise.all(ends)
  })

  it('cancels a TLS handshake and a name look-up', async () => {
    const stop = new AbortController()
    const { port, ends } = await serveRaw((socket) => void socket.resume().once('data', () => stop.abort()))
    expect(await failureOf(egressOf().connect({ host: name, port, tls: true }, stop.signal))).toBe(brokenOff)
    await Promise.all(ends)
    const second = new AbortController()
    const resolve = () => new Promise<string[]>(() => queueMicrotask(() => second.abort()))
    expect(await failureOf(egressOf({ resolve }).post(requestTo(port), second.signal))).toBe(brokenOff)
  })

  it('that is already aborted prevents the look-up and the connection', async () => {
    const { port, ends } = await serve((_, response) => response.end())
    let asked = 0
    const egress = egressOf({ resolve: async () => [`127.0.0.${++asked}`] })
    expect(await failureOf(egress.post(requestTo(port), AbortSignal.abort()))).toBe(brokenOff)
    expect(await failureOf(egress.connect({ host: name, port, tls: false }, AbortSignal.abort()))).toBe(brokenOff)
    expect([asked, ends.length]).toEqual([0, 0])
  })

  it('of a completed request does not affect the next request on the connection', async () => {
    const { port, ends } = await serve((_, response) => response.end('ok'))
    const egress = egressOf()
    const stop = new AbortController()
    await egress.post(requestTo(port), stop.signal)
    const next = egress.post(requestTo(port))
    stop.abort()
    expect(await next).toMatchObject({ body: 'ok' })
    expect(ends).toHaveLength(1)
  })
})

it('close() closes all connections after completed, failed and cancelled requests', async () => {
  const { port, ends } = await serve((request, response) => {
    request.resume()
    if (request.headers['x-kind'] === 'hang') return
    if (request.headers['x-kind'] === 'break') request.socket.destroy()
    else response.end('x'.repeat(request.headers['x-kind'] === 'long' ? 1_000_000 : 1))
  })
  const egress = egressOf()
  const kinds = ['short', 'long', 'break', 'hang', 'short', 'long', 'break', 'hang']
  const stop = new AbortController()
  const all = kinds.map((kind) => egress.post({ ...requestTo(port), headers: { 'x-kind': kind } }, stop.signal))
  await Promise.allSettled(all.filter((_, index) => kinds[index] !== 'hang'))
  stop.abort()
  await Promise.allSettled(all)
  egress.close()
  await Promise.all(ends)
  expect(ends.length).toBeGreaterThan(0)
})
