import type { ServerResponse } from 'node:http'
import { createServer, type Socket } from 'node:net'
import { gzipSync } from 'node:zlib'
import { expect, onTestFinished, test } from 'vitest'
import { PlainService } from './agent/plain-service.ts'
import { createMonitorWith } from './agent-monitor.ts'
import { listen } from './control-stream.ts'
import type { MonitorError } from './faults.ts'
import { usualPace } from './pace.ts'
import { type Answer, Service } from './service.ts'
import { AgentHome, sample } from './testing/agent-command.ts'
import { type Answerer, answerPlainly, sendJson, startHostileService } from './testing/hostile-service.ts'
import { eventually, fastPace } from './testing/service.ts'

// Any server may listen at the url of the service; its answers must not crash the agent.

const settings = (url: string) => ({ url, key: 'the-key-of-the-agent', instanceId: 'agent-1' })
const callers: [string, (url: string) => Service][] = [
  ['the SDK', (url) => new Service(settings(url))],
  ['the hook', (url) => new PlainService(settings(url), performance.now() + 60_000)],
]
const ask = (service: Service, timeoutMs = 30_000): Promise<Answer> =>
  service.call('heartbeat', { body: '{}', timeoutMs })

const listening = (url: string) => ({
  service: new Service(settings(url)),
  path: 'instances/agent-1/control',
  pace: usualPace,
  signal: new AbortController().signal,
})

/** Writes while the other side reads. Returns a counter of the bytes written. */
function writeEndlessly(response: ServerResponse, part = ' '.repeat(64 * 1024)): { bytes: number } {
  const written = { bytes: 0 }
  const write = () => {
    while (!response.destroyed) {
      written.bytes += part.length
      if (!response.write(part)) return
    }
  }
  response.on('drain', write)
  write()
  return written
}

test.each(callers)('%s stops reading an answer that is too long', async (_name, open) => {
  let written = { bytes: 0 }
  let isClosed = false
  const url = await startHostileService((_request, response) => {
    response.writeHead(200).on('close', () => {
      isClosed = true
    })
    written = writeEndlessly(response)
  })
  expect(await ask(open(url))).toMatchObject({ status: 0, fault: expect.stringContaining('too long') })
  await eventually(() => expect(isClosed).toBe(true))
  // Leaves room for the buffers of both ends.
  expect(written.bytes).toBeLessThan(32 * 1024 * 1024)
})

// 4 MB of gzip can expand to gigabytes.
test.each(callers)('%s requests uncompressed answers, and expands none', async (_name, open) => {
  const asked: unknown[] = []
  const url = await startHostileService((request, response) => {
    asked.push(request.headers['accept-encoding'])
    response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync('{"ok":true}'))
  })
  expect(await ask(open(url))).toMatchObject({ status: 0, body: {}, fault: expect.stringContaining('compressed') })
  expect(asked).toEqual(['identity'])
})

test('ignores control messages in a compressed stream', async () => {
  const url = await startHostileService((request, response, body) => {
    if (!request.url?.includes('/control')) return answerPlainly(request, response, body)
    const message = { instance_id: 'agent-1', action: 'resume', version: 1 }
    response.writeHead(200, { 'content-encoding': 'br' }).write(`data: ${JSON.stringify(message)}\n\n`)
  })
  const monitor = createMonitorWith(settings(url), fastPace)
  onTestFinished(() => monitor.stop())
  await monitor.start()
  await new Promise<void>((resolve) => {
    // Wait long enough for several connections.
    let polls = 0
    const count = async () => {
      await monitor.refresh()
      if (++polls === 10) resolve()
      else void count()
    }
    void count()
  })
  expect(monitor.health.stream).toBe('closed')
})

/** Starts a TCP server. Calls `begin` with each connection once it has sent something. */
async function startRaw(begin: (socket: Socket) => void): Promise<string> {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    socket.once('data', () => begin(socket))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as { port: number }).port}`
}

/** Start of an answer, and the part that is repeated after it. */
const raw: [string, begin: string, part: string][] = [
  ['drips a status', '', 'x'],
  ['drips headers', 'HTTP/1.1 200 OK\r\n', 'a: b\r\n'],
  ['sends endless headers', 'HTTP/1.1 200 OK\r\n', `a: ${'b'.repeat(50_000)}\r\n`],
  ['says 100 for ever', '', 'HTTP/1.1 100 Continue\r\n\r\n'],
  ['says 103 for ever', '', 'HTTP/1.1 103 Early Hints\r\nlink: a\r\n\r\n'],
  ['drips a body', 'HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n', ' '],
  ['drips chunks', 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n', '1\r\n \r\n'],
  ['switches protocols', 'HTTP/1.1 101 Switching Protocols\r\nupgrade: a\r\nconnection: upgrade\r\n\r\n', ''],
  ['sends garbage', '\0\x01\x02 no HTTP at all\r\n\r\n', ''],
]

// One deadline applies to the whole request, so an answer that keeps arriving counts as none.
test.each(raw)('gives up in time on a service that %s', async (_name, begin, part) => {
  const url = await startRaw((socket) => {
    socket.write(begin)
    const timer = setInterval(() => socket.write(part), 5)
    socket.on('close', () => clearInterval(timer))
  })
  const answers = await Promise.all(callers.map(([, open]) => ask(open(url), 300)))
  for (const answer of answers) expect(answer).toMatchObject({ status: 0, body: {} })
  const errors: MonitorError[] = []
  const monitor = createMonitorWith(settings(url), { ...fastPace, request: 200, streamStart: 200 })
  monitor.on('error', (error) => errors.push(error))
  await monitor.start()
  expect(monitor.health).toMatchObject({ state: 'active', lastContact: undefined, stream: 'closed' })
  expect(errors.map(({ code }) => code)).toContain('unreachable')
  await monitor.stop()
})

test('closes a control stream that floods it, and limits its retry time', async () => {
  let streams = 0
  let written = { bytes: 0 }
  let isClosed = false
  const url = await startHostileService((request, response, body) => {
    if (!request.url?.includes('/control')) return answerPlainly(request, response, body)
    response.writeHead(200)
    streams += 1
    if (streams === 1) return response.end('retry: 999999\n\n')
    response.on('close', () => {
      isClosed = true
    })
    written = writeEndlessly(response, ':\n'.repeat(32 * 1024))
  })
  const ended = await listen({ ...listening(url), onData: () => {}, onAlive: () => {} })
  expect(ended.retryMs).toBe(60_000)
  await listen({ ...listening(url), onData: () => {}, onAlive: () => {} })
  await eventually(() => expect(isClosed).toBe(true))
  expect(written.bytes).toBeLessThan(32 * 1024 * 1024)
})

const odd: unknown[] = [
  null,
  7,
  'text',
  [],
  { errors: null, ids: 7, matched: 'yes', suspended: 'no' },
  { errors: 7 },
  { errors: { length: 1e9 } },
  { errors: 'xxxxx' },
  { errors: [null, 7, { index: 'a', error: { a: 1 } }] },
  { errors: Array.from({ length: 5_000 }, () => ({ error: 'no' })) },
  JSON.parse('{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}},"errors":[]}'),
]

test('ignores answers with unexpected shapes', async () => {
  for (const body of odd) {
    const url = await startHostileService((_request, response) =>
      sendJson(response, 200, body as object, { etag: 'W/"x"' }),
    )
    const monitor = createMonitorWith(settings(url), fastPace)
    const errors: MonitorError[] = []
    monitor.on('error', (error) => errors.push(error))
    await monitor.refresh()
    await monitor.report({ severity: 'info', eventType: 'note', description: 'a' })
    await monitor.flush()
    expect(await monitor.guard({ toolName: 'a', args: ['/etc/a'] })).toBeUndefined()
    expect(monitor.health).toMatchObject({ state: 'active', controlVersion: undefined })
    // At most the one reported event can be lost, whatever the answer contains.
    expect([0, 1]).toContain(monitor.health.droppedEvents)
    await monitor.stop()
  }
  expect(({} as { polluted?: unknown }).polluted).toBeUndefined()
})

// These texts reach logs, terminals and the model.
test('shortens error texts of the service to one line without control characters', async () => {
  const error = `\u001b[2J\u202e\r\nfake: line\u0000${'x'.repeat(5_000)}`
  const answer: Answerer = (_request, response) => sendJson(response, 418, { error })
  const monitor = createMonitorWith(settings(await startHostileService(answer)), fastPace)
  const errors: MonitorError[] = []
  monitor.on('error', (fault) => errors.push(fault))
  await monitor.refresh()
  const [first] = errors
  expect(first?.message).toMatch(/^[ -~…]{1,400}$/)
  await monitor.stop()
})

test('cuts the reason of a suspension to the maximum length of the service', async () => {
  const url = await startHostileService((request, response, body) => {
    if (!request.url?.endsWith('/status')) return answerPlainly(request, response, body)
    sendJson(response, 200, { suspended: true, reason: 'long '.repeat(100_000) }, { etag: 'W/"3"' })
  })
  const home = new AgentHome({ WARDLINE_URL: url, WARDLINE_KEY: 'key', WARDLINE_INSTANCE_ID: 'agent-1' })
  const { code, stderr } = await home.hook(['claude-code'], sample('claude-code.PreToolUse.Bash.agent-sdk-0.3.330'))
  expect(code).toBe(2)
  expect(stderr.length).toBeLessThan(700)
})
