import { createServer, type IncomingMessage, request as open, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Transform } from 'node:stream'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { AgentHome } from './testing/agent-command.ts'
import { agentId, eventually, fastPace, type Received, streamOpen, TestFleet } from './testing/service.ts'

interface Tampering {
  /** Changes the answer to a poll; undefined passes it on unchanged. */
  poll?: (answer: Polled) => Polled
  /** Changes a line of the control stream. */
  line?: (line: string) => string
}

interface Polled {
  status: number
  headers: Record<string, string>
  body: string
}

/** Attacker between agent and service who reads and changes every answer. */
async function startTamperer(target: string) {
  const tampering: Tampering = {}
  const polled: Polled[] = []
  const lines: string[] = []
  const streams = new Set<ServerResponse>()
  const carry = (request: IncomingMessage, response: ServerResponse) => {
    const { method, url = '', headers } = request
    const onward = open(new URL(url, target), { method, headers, agent: false }, (answer) => {
      const own = Object.fromEntries(Object.entries(answer.headers).map(([name, value]) => [name, String(value)]))
      if (url.includes('/control')) {
        response.writeHead(answer.statusCode!, own)
        streams.add(response.on('close', () => streams.delete(response)))
        // Relies on the service sending each message in one write.
        const change = new Transform({
          transform(chunk, _encoding, done) {
            const text = String(chunk).replace(/^data: .*$/m, (line) => {
              lines.push(line)
              return tampering.line?.(line) ?? line
            })
            done(null, text)
          },
        })
        answer.pipe(change).pipe(response)
        return
      }
      const parts: Buffer[] = []
      answer.on('data', (part) => parts.push(part))
      answer.on('end', () => {
        let given: Polled = { status: answer.statusCode!, headers: own, body: Buffer.concat(parts).toString() }
        if (url.endsWith('/status')) {
          polled.push(given)
          // Keepalives, which are not signed.
          for (const stream of streams) stream.write(':\n\n')
          given = tampering.poll?.(given) ?? given
        }
        const { 'content-length': _, 'transfer-encoding': __, ...rest } = given.headers
        response.writeHead(given.status, rest).end(given.body)
      })
    })
    onward.on('error', () => response.destroy())
    response.on('close', () => onward.destroy())
    request.pipe(onward)
  }
  const server = createServer(carry)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.close()
    server.closeAllConnections()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, tampering, polled, lines }
}

let fleet: TestFleet
let publicKey = ''
let count = 0
beforeAll(async () => {
  fleet = await TestFleet.open()
  const answer = await fetch(`${fleet.wire.target}/.well-known/wardline-keys.json`)
  publicKey = ((await answer.json()) as { keys: { x: string }[] }).keys[0]!.x
})
afterAll(() => fleet[Symbol.asyncDispose]())

/** Creates an agent behind a tampering proxy. */
async function agentBehindTamperer(options: { publicKey?: string; failMode?: 'closed'; staleAfterMs?: number } = {}) {
  const instanceId = `${agentId}-${count++}`
  const key = await fleet.createKey([instanceId])
  const between = await startTamperer(fleet.wire.target)
  const pace = { poll: 50, heartbeat: 100 }
  const { monitor, heard } = fleet.monitor({ url: between.url, key, instanceId, ...options }, { ...fastPace, ...pace })
  return { instanceId, key, between, monitor, heard }
}

const codes = (heard: Received) => heard.error.map(({ code }) => code)
const polls = (between: { polled: Polled[] }) => between.polled.length

/** Waits until several more polls were answered, so that their content has taken effect. */
async function somePolls(between: { polled: Polled[] }): Promise<void> {
  const before = polls(between)
  await eventually(() => expect(polls(between)).toBeGreaterThan(before + 4))
}

const freedPoll = (answer: Polled): Polled => ({
  ...answer,
  status: 200,
  headers: { ...answer.headers, etag: 'W/"9"', 'content-type': 'application/json' },
  body: '{"suspended":false,"reason":null}',
})
const freedLine = (line: string) => {
  const message = JSON.parse(line.slice(6))
  return `data: ${JSON.stringify({ ...message, action: 'resume', reason: undefined, version: 9 })}`
}

describe('an agent with the public key', () => {
  test('follows kills and resumes, by stream and by poll, with 200 and 304', async () => {
    const { instanceId, between, monitor, heard } = await agentBehindTamperer({
      publicKey: `AAAA${publicKey.slice(4)}, ${publicKey}`,
    })
    await monitor.start()
    await streamOpen(monitor)
    // 500 characters of two UTF-16 units each.
    const reason = '🦀'.repeat(500)
    await fleet.kill(reason, instanceId)
    await eventually(() => expect(monitor.health).toMatchObject({ state: 'suspended', reason }))
    await eventually(() => expect(between.polled.at(-1)!.status).toBe(304))
    await somePolls(between)
    await fleet.resume(instanceId)
    await eventually(() => expect(monitor.suspended).toBe(false))
    await somePolls(between)
    expect(heard.error).toEqual([])
    expect(between.polled.some(({ status }) => status === 200)).toBe(true)
  })

  // An attacker on the network changes "suspended" to "active" to keep a killed agent running.
  test('ignores a forged resume by stream or poll, and reports each kind once', async () => {
    const { instanceId, between, monitor, heard } = await agentBehindTamperer({ publicKey })
    await monitor.start()
    await fleet.kill('stop', instanceId)
    await eventually(() => expect(monitor.suspended).toBe(true))
    Object.assign(between.tampering, { poll: freedPoll, line: freedLine })
    fleet.wire.cutAll()
    await fleet.resume(instanceId)
    await somePolls(between)
    expect(monitor.health).toMatchObject({ state: 'suspended', controlVersion: 1 })
    expect(heard.resume).toEqual([])
    const unsigned = codes(heard).filter((code) => code === 'unsigned').length
    expect(unsigned).toBe(2)
    expect(heard.error.at(-1)!.message).toContain('not signed')
    Object.assign(between.tampering, { poll: undefined, line: undefined })
    await eventually(() => expect(monitor.suspended).toBe(false))
  })

  test('ignores a forged suspension, which would be a denial of service', async () => {
    const { instanceId, between, monitor, heard } = await agentBehindTamperer({ publicKey })
    between.tampering.poll = (answer) => ({
      ...freedPoll(answer),
      body: '{"suspended":true,"reason":"forged"}',
    })
    await monitor.start()
    await somePolls(between)
    await fleet.kill('x', instanceId)
    await fleet.resume(instanceId)
    await eventually(() => expect(monitor.health.controlVersion).toBe(2))
    expect(heard.suspend.every(({ reason }) => reason === 'x')).toBe(true)
    expect(codes(heard)).toContain('unsigned')
  })

  // A proxy that removes signatures must not count as contact: an agent that fails closed suspends itself.
  test('suspends itself when failing closed if signatures are removed, even while the stream is alive', async () => {
    const { between, monitor, heard } = await agentBehindTamperer({
      publicKey,
      failMode: 'closed',
      staleAfterMs: 1_000,
    })
    await monitor.start()
    await streamOpen(monitor)
    await eventually(() => expect(monitor.suspended).toBe(false))
    between.tampering.poll = ({ headers: { 'x-wardline-control': _, ...headers }, ...answer }) => ({
      ...answer,
      headers,
    })
    await eventually(() => expect(monitor.health).toMatchObject({ state: 'suspended', stale: true }))
    expect(heard.suspend).toContainEqual({ version: undefined, reason: 'no contact with the monitoring service' })
    expect(monitor.health.stream).toBe('open')
    between.tampering.poll = undefined
    await eventually(() => expect(monitor.suspended).toBe(false))
  })

  test('ignores older signed states, and those signed for another agent', async () => {
    const { instanceId, between, monitor } = await agentBehindTamperer({ publicKey })
    const other = await agentBehindTamperer({ publicKey })
    await Promise.all([monitor.start(), other.monitor.start()])
    for (const id of [instanceId, other.instanceId]) {
      await fleet.kill('first', id)
      await fleet.resume(id)
    }
    await eventually(() =>
      expect([monitor.health, other.monitor.health]).toMatchObject([{ controlVersion: 2 }, { controlVersion: 2 }]),
    )
    await somePolls(between)
    const old = between.polled.find(({ headers }) => headers['x-wardline-control']?.startsWith('version=2;'))!
    const oldLine = between.lines.find((line) => line.includes('"version":2')) ?? between.lines[0]!
    await fleet.kill('second', instanceId)
    await eventually(() => expect(monitor.suspended).toBe(true))
    Object.assign(between.tampering, {
      poll: () => ({ ...freedPoll(old), headers: { ...old.headers, 'content-type': 'application/json' } }),
      line: () => oldLine,
    })
    await somePolls(between)
    expect(monitor.health).toMatchObject({ state: 'suspended', controlVersion: 3 })
    const { lastContact } = monitor.health
    await somePolls(between)
    expect(monitor.health.lastContact).toEqual(lastContact)
    // A higher version for another agent.
    for (let turn = 0; turn < 2; turn++) {
      await fleet.kill('more', other.instanceId)
      await fleet.resume(other.instanceId)
    }
    await eventually(() => expect(other.between.polled.at(-1)!.headers['x-wardline-control']).toMatch(/^version=6;/))
    const foreign = other.between.polled.at(-1)!
    between.tampering.poll = () => ({ ...freedPoll(foreign), headers: { ...foreign.headers, etag: 'W/"6"' } })
    await somePolls(between)
    expect(monitor.health).toMatchObject({ state: 'suspended', controlVersion: 3 })
  })
})

test('an agent without the public key accepts unsigned states', async () => {
  const { instanceId, between, monitor, heard } = await agentBehindTamperer()
  await monitor.start()
  await fleet.kill('stop', instanceId)
  await eventually(() => expect(monitor.suspended).toBe(true))
  between.tampering.poll = freedPoll
  await eventually(() => expect(monitor.suspended).toBe(false))
  expect(codes(heard)).not.toContain('unsigned')
})

describe('a hook with the public key', () => {
  const call = { hook_event_name: 'PreToolUse', tool_name: 'Read', tool_input: {}, session_id: 's', tool_use_id: 't' }

  test('applies a signed suspension, and ignores forged states', async () => {
    const instanceId = `hook-${count++}`
    const key = await fleet.createKey([instanceId])
    const between = await startTamperer(fleet.wire.target)
    const access = { WARDLINE_URL: between.url, WARDLINE_KEY: key, WARDLINE_INSTANCE_ID: instanceId }
    const home = new AgentHome({ ...access, WARDLINE_PUBLIC_KEY: publicKey })
    const free = await home.hook(['claude-code'], call)
    expect(free).toMatchObject({ code: 0, stderr: '' })
    between.tampering.poll = (answer) => ({
      ...answer,
      headers: { ...answer.headers, etag: 'W/"8"' },
      body: '{"suspended":true,"reason":"forged"}',
    })
    const forged = await home.hook(['claude-code'], call)
    expect(forged).toMatchObject({ code: 0, stderr: expect.stringContaining('not signed') })
    expect(await home.hook(['claude-code', '--fail-closed'], call)).toMatchObject({ code: 2 })
    between.tampering.poll = undefined
    await fleet.kill('real', instanceId)
    expect(await home.hook(['claude-code'], call)).toMatchObject({ code: 2, stderr: expect.stringContaining('real') })
    between.tampering.poll = freedPoll
    expect(await home.hook(['claude-code'], call)).toMatchObject({ code: 2, stderr: expect.stringContaining('real') })
  })
})
