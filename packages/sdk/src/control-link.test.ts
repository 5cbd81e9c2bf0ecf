import { execFile } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { createMonitorWith } from './agent-monitor.ts'
import { WardlineDenied } from './denied.ts'
import { answerPlainly, sendJson, startHostileService } from './testing/hostile-service.ts'
import { agentId, eventually, fastPace, streamOpen, TestFleet } from './testing/service.ts'

const stream = /\/control$/
const poll = /\/status$/
const ownStream = /\/agent-1\/control$/
const ownPoll = /\/agent-1\/status$/

test('aborts the signal with the reason when a kill is pushed', async () => {
  await using fleet = await TestFleet.open()
  const suspendLog = join(fleet.folder, 'suspend.log')
  const { monitor, heard } = fleet.monitor({ suspendLog }, { pollWithoutStream: 600_000 })
  await monitor.start()
  await streamOpen(monitor)
  const { signal } = monitor
  const polls = fleet.wire.asked(poll).length

  await fleet.kill('exfiltration')
  await eventually(() => expect(signal.aborted).toBe(true))
  expect(fleet.wire.asked(poll)).toHaveLength(polls)
  expect(signal.reason).toBeInstanceOf(WardlineDenied)
  expect(signal.reason).toMatchObject({ name: 'WardlineDenied', code: 'suspended', retryable: false })
  expect(signal.reason.message).toContain('exfiltration')
  expect(monitor.suspended).toBe(true)
  expect(monitor.health).toMatchObject({ state: 'suspended', reason: 'exfiltration', controlVersion: 1, stale: false })
  expect(heard.suspend).toEqual([{ version: 1, reason: 'exfiltration' }])
  await eventually(async () => expect((await fleet.instance()).control).toMatchObject({ confirmed: true, version: 1 }))

  await fleet.resume()
  await eventually(() => expect(monitor.suspended).toBe(false))
  expect(signal.aborted).toBe(true)
  expect(monitor.signal.aborted).toBe(false)
  expect(heard.resume).toEqual([{ version: 2, reason: undefined }])
  const lines = readFileSync(suspendLog, 'utf8').trim().split('\n')
  const time = expect.stringMatching(/^\d{4}-.*Z$/)
  expect(lines.map((line) => JSON.parse(line))).toEqual([
    { time, instance: agentId, action: 'suspend', version: 1, reason: 'exfiltration' },
    { time, instance: agentId, action: 'resume', version: 2 },
  ])
  expect(heard.error).toEqual([])
})

test('reports its metadata and applied version to the service', async () => {
  await using fleet = await TestFleet.open()
  const tags = ['env:production', 'team:payments']
  const named = { name: 'Support bot', agentType: 'custom', version: '1.4.0', parent: 'lead' }
  const about = { ...named, failMode: 'closed' as const, tags }
  const { monitor } = fleet.monitor(about, { heartbeat: 20 })
  await monitor.start()
  expect(await fleet.instance()).toMatchObject({
    name: 'Support bot',
    agent_type: 'custom',
    version: '1.4.0',
    fail_mode: 'closed',
    agent_tags: tags,
    parent_instance_id: 'lead',
    status: 'active',
  })
  // The heartbeat confirms the version even if every acknowledgement is lost.
  fleet.wire.cut = /\/ack$/
  await fleet.kill('why')
  await eventually(async () => expect((await fleet.instance()).control.confirmed).toBe(true))
})

test('retries a failed acknowledgement at the next contact', async () => {
  await using fleet = await TestFleet.open()
  const { monitor } = fleet.monitor()
  fleet.wire.cut = /\/ack$|\/control$/
  await monitor.start()
  await fleet.kill('why')
  await eventually(() => expect(fleet.wire.asked(/\/ack$/).length).toBeGreaterThan(1))
  fleet.wire.cut = stream
  await eventually(async () => expect((await fleet.instance()).control.confirmed).toBe(true))
})

// A proxy that buffers the stream must not delay a kill.
test.each([
  ['cut', { cut: stream }],
  ['silent', { stall: stream }],
])('receives a kill by polling while the stream is %s', async (_state, fault) => {
  await using fleet = await TestFleet.open()
  Object.assign(fleet.wire, fault)
  const { monitor } = fleet.monitor()
  await monitor.start()
  await fleet.kill('exfiltration')
  await eventually(() => expect(monitor.signal.aborted).toBe(true))
  expect(monitor.health.stream).toBe('closed')
})

test('closes a silent stream, polls meanwhile, and reconnects', async () => {
  await using fleet = await TestFleet.open()
  const { monitor } = fleet.monitor({}, { streamSilence: 1_000 })
  await monitor.start()
  await streamOpen(monitor)
  await fleet.letTimePass()
  const polls = fleet.wire.asked(ownPoll).length
  await eventually(() => expect(fleet.wire.asked(ownPoll).length).toBeGreaterThan(polls))
  await eventually(() => expect(fleet.wire.asked(ownStream).length).toBeGreaterThan(1))
  await streamOpen(monitor)
})

// A restart of the service or a network outage must not release a suspended agent even for a moment.
test('stays suspended across a restart of the service until it is resumed', async () => {
  await using fleet = await TestFleet.open()
  const { monitor, heard } = fleet.monitor()
  await monitor.start()
  await streamOpen(monitor)
  await fleet.kill('exfiltration')
  await eventually(() => expect(monitor.suspended).toBe(true))

  await fleet.stopService()
  const asked = fleet.wire.asked(poll).length
  await eventually(() => expect(fleet.wire.asked(poll).length).toBeGreaterThan(asked + 3))
  expect(monitor.suspended).toBe(true)
  await fleet.startService()
  await streamOpen(monitor)
  expect(monitor.suspended).toBe(true)
  expect(heard.resume).toEqual([])
  expect(heard.error.map(({ code }) => code)).toEqual(['unreachable'])

  await fleet.resume()
  await eventually(() => expect(monitor.suspended).toBe(false))
})

// Otherwise a suspended agent would run again if it is restarted while the service is unreachable.
test('starts suspended from its state file without contact', async () => {
  await using fleet = await TestFleet.open()
  const stateFile = join(fleet.folder, 'state.json')
  const first = fleet.monitor({ stateFile })
  await first.monitor.start()
  await fleet.kill('exfiltration')
  await eventually(() => expect(first.monitor.suspended).toBe(true))
  await first.monitor.stop()
  await fleet.stopService()

  const { monitor, heard } = fleet.monitor({ stateFile })
  expect(monitor.signal.aborted).toBe(true)
  expect(monitor.health).toMatchObject({ state: 'suspended', reason: 'exfiltration', controlVersion: 1 })
  await monitor.start()
  expect(heard.suspend).toEqual([{ version: 1, reason: 'exfiltration' }])
  expect(await monitor.guard({ toolName: 'shell-exec', args: ['ls'] })).toMatchObject({
    denied: true,
    retryable: false,
  })

  await fleet.startService()
  await fleet.resume()
  await eventually(() => expect(monitor.suspended).toBe(false))
})

// A poll with the version from such a file would be answered "not changed".
test('polls without a version until the service itself sent the state that the file gave', async () => {
  await using fleet = await TestFleet.open()
  const stateFile = join(fleet.folder, 'state.json')
  await fleet.monitor().monitor.start()
  await fleet.kill('exfiltration')
  writeFileSync(stateFile, JSON.stringify({ instance_id: agentId, version: 1, suspended: false }))
  fleet.wire.cut = poll
  const { monitor, heard } = fleet.monitor({ stateFile }, { start: 50 })
  await monitor.start()
  await streamOpen(monitor)
  expect(monitor.suspended).toBe(false)
  fleet.wire.cut = /(?!)/
  await eventually(() => expect(monitor.suspended).toBe(true))
  expect(heard.suspend).toEqual([{ version: 1, reason: 'exfiltration' }])
})

// Otherwise an agent that may write files could block every kill with one line in its state file.
test.each([0, 900])('starts suspended although its file contains a resume %i versions later', async (later) => {
  await using fleet = await TestFleet.open()
  const stateFile = join(fleet.folder, 'state.json')
  const first = fleet.monitor({ stateFile })
  await first.monitor.start()
  await fleet.kill('exfiltration')
  await eventually(() => expect(first.monitor.suspended).toBe(true))
  await first.monitor.stop()
  writeFileSync(stateFile, JSON.stringify({ instance_id: agentId, version: 1 + later, suspended: false }))

  const { monitor, heard } = fleet.monitor({ stateFile })
  expect(monitor.suspended).toBe(false)
  await monitor.refresh()
  expect(monitor.health).toMatchObject({ state: 'suspended', controlVersion: 1 })
  expect(heard.suspend).toEqual([{ version: 1, reason: 'exfiltration' }])
  await monitor.flush()
  expect((await fleet.events('control_version_mismatch', 'critical'))[0]).toMatchObject({
    instance_id: agentId,
    metadata: { applied_version: 1 + later, service_version: 1 },
  })
  // The suspension is stored, in case the service is unreachable at the next start.
  expect(fleet.monitor({ stateFile }).monitor.suspended).toBe(true)
  await fleet.resume()
  await monitor.refresh()
  expect(monitor.suspended).toBe(false)
})

// One process of the service may learn of a resume later than another; a single poll of it must not suspend an agent.
test('applies a suspension of a lower version when two polls in a row return it', async () => {
  const said = [
    { version: 5, suspended: false },
    { version: 3, suspended: true },
    { version: 5, suspended: false },
    { version: 3, suspended: true },
    { version: 3, suspended: true },
  ]
  const url = await startHostileService((request, response, body) => {
    if (!request.url?.endsWith('/status')) return answerPlainly(request, response, body)
    const { version, suspended } = said.shift()!
    sendJson(response, 200, { suspended, reason: null }, { etag: `W/"${version}"` })
  })
  const monitor = createMonitorWith({ url, key: 'key', instanceId: agentId }, fastPace)
  const states: boolean[] = []
  while (said.length > 0) {
    await monitor.refresh()
    states.push(monitor.suspended)
  }
  expect(states).toEqual([false, false, false, false, true])
  await monitor.stop()
})

// A service restored from an older copy of its database does not know the kill.
test('ignores a lower version, and reports it once', async () => {
  await using fleet = await TestFleet.open()
  await using other = await TestFleet.open()
  const { monitor, heard } = fleet.monitor({ key: 'the-administrator-key-of-the-tests-of-the-sdk' })
  await monitor.start()
  await fleet.kill('first')
  await fleet.resume()
  await fleet.kill('second')
  await eventually(() => expect(monitor.health.controlVersion).toBe(3))

  await fleet.stopService()
  fleet.wire.target = other.wire.target
  await eventually(() => expect(heard.error.map(({ code }) => code)).toContain('unexpected'))
  await streamOpen(monitor)
  const polls = fleet.wire.asked(poll).length
  fleet.wire.cutAll()
  await eventually(() => expect(fleet.wire.asked(poll).length).toBeGreaterThan(polls))
  expect(monitor.health).toMatchObject({ state: 'suspended', reason: 'second', controlVersion: 3 })
  expect(heard.error.filter(({ code }) => code === 'unexpected')).toHaveLength(1)
  expect(heard.error.find(({ code }) => code === 'unexpected')?.message).toContain('is at control version 0')
})

test('polls rarely with a refused key, and reports the remedy once without the key', async () => {
  await using fleet = await TestFleet.open()
  const key = `${fleet.agentKey.slice(0, -4)}0000`
  const { monitor, heard } = fleet.monitor({ key })
  await monitor.start()
  await eventually(() => expect(fleet.wire.asked(stream)).toHaveLength(1))
  await eventually(() => expect(heard.error.map(({ code }) => code)).toEqual(expect.arrayContaining(['unauthorized'])))
  expect(new Set(heard.error.map(({ code }) => code))).toEqual(new Set(['unauthorized']))
  for (const { message } of heard.error) {
    expect(message).toContain('wardline keys create')
    expect(message).not.toContain(key)
  }
  // A heartbeat and a poll at startup, then a poll and a stream. The next requests follow a minute later.
  await eventually(() => expect(fleet.wire.asked(poll)).toHaveLength(2))
  expect(fleet.wire.requests.length).toBeLessThanOrEqual(4)
})

test('keeps the last known state without contact when failing open', async () => {
  await using fleet = await TestFleet.open()
  const { monitor } = fleet.monitor({ failMode: 'open', staleAfterMs: 50 })
  await monitor.start()
  fleet.wire.mode = 'refuse'
  fleet.wire.cutAll()
  await eventually(() => expect(monitor.health.stale).toBe(true))
  expect(monitor.health).toMatchObject({ state: 'active', failMode: 'open' })
  expect(await monitor.guard({ toolName: 'file-read', args: [] })).toBeUndefined()
})

// Otherwise an agent without network could run unmonitored.
test('suspends itself without contact when failing closed, and resumes once contact is restored', async () => {
  await using fleet = await TestFleet.open()
  const suspendLog = join(fleet.folder, 'suspend.log')
  const { monitor, heard } = fleet.monitor({ failMode: 'closed', staleAfterMs: 300, suspendLog })
  await monitor.start()
  const { signal } = monitor
  fleet.wire.mode = 'stall'
  await eventually(() => expect(signal.aborted).toBe(true))
  expect(heard.suspend).toEqual([{ version: undefined, reason: 'no contact with the monitoring service' }])
  expect(monitor.health).toMatchObject({ state: 'suspended', stale: true, failMode: 'closed' })

  fleet.wire.mode = 'pass'
  fleet.wire.cutAll()
  await eventually(() => expect(monitor.suspended).toBe(false))
  expect(heard.resume).toContainEqual({ version: undefined, reason: undefined })
  const [suspended] = readFileSync(suspendLog, 'utf8').split('\n')
  expect(JSON.parse(suspended!)).toMatchObject({ action: 'suspend', reason: 'no contact with the monitoring service' })
})

test('stays suspended when restored contact brings a kill', async () => {
  await using fleet = await TestFleet.open()
  const { monitor, heard } = fleet.monitor({ failMode: 'closed', staleAfterMs: 100 })
  await monitor.start()
  fleet.wire.mode = 'refuse'
  fleet.wire.cutAll()
  await eventually(() => expect(monitor.suspended).toBe(true))
  await fleet.kill('meanwhile')
  fleet.wire.mode = 'pass'
  await eventually(() => expect(monitor.health.reason).toBe('meanwhile'))
  expect(monitor.suspended).toBe(true)
  expect(heard.resume).toEqual([])
})

test('starts suspended when failing closed without any contact', async () => {
  await using fleet = await TestFleet.open()
  fleet.wire.mode = 'refuse'
  const { monitor, heard } = fleet.monitor({ failMode: 'closed' })
  expect(await monitor.guard({ toolName: 'file-read', args: [] })).toMatchObject({ denied: true })
  await monitor.start()
  expect(monitor.signal.aborted).toBe(true)
  expect(heard.error.map(({ code }) => code)).toEqual(['unreachable'])
  fleet.wire.mode = 'pass'
  await eventually(() => expect(monitor.suspended).toBe(false))
})

test('finishes start() in bounded time although the service does not answer', async () => {
  await using fleet = await TestFleet.open()
  fleet.wire.mode = 'stall'
  const { monitor } = fleet.monitor({}, { start: 50, request: 600_000 })
  await monitor.start()
  expect(monitor.health).toMatchObject({ running: true, state: 'active', lastContact: undefined })
  fleet.wire.cutAll()
})

test('makes a guard wait for the first contact', async () => {
  await using fleet = await TestFleet.open()
  const first = fleet.monitor()
  await first.monitor.start()
  await fleet.kill('before')
  const { monitor } = fleet.monitor()
  void monitor.start()
  expect(await monitor.guard({ toolName: 'file-read', args: [] })).toMatchObject({ code: 'suspended' })
})

test('does not follow a redirect, which would leak the key', async () => {
  const strays: unknown[] = []
  const elsewhere = createServer((request, response) => {
    strays.push(request.headers['x-monitor-key'])
    response.end()
  })
  await new Promise<void>((resolve) => elsewhere.listen(0, '127.0.0.1', resolve))
  const place = `http://127.0.0.1:${(elsewhere.address() as AddressInfo).port}`
  const front = createServer((request, response) => response.writeHead(307, { location: place + request.url }).end())
  await new Promise<void>((resolve) => front.listen(0, '127.0.0.1', resolve))
  await using fleet = await TestFleet.open()
  const { monitor, heard } = fleet.monitor({ url: `http://127.0.0.1:${(front.address() as AddressInfo).port}` })
  await monitor.start()
  await monitor.stop()
  expect(heard.error.map(({ code }) => code)).toContain('unexpected')
  expect(heard.error[0]?.message).toContain('redirect')
  expect(strays).toEqual([])
  elsewhere.close()
  front.close()
})

test('does not keep the process alive while it listens', async () => {
  await using fleet = await TestFleet.open()
  const index = fileURLToPath(new URL('./index.ts', import.meta.url))
  const program = `
    const { createMonitor } = await import(${JSON.stringify(index)})
    const monitor = createMonitor(${JSON.stringify({ url: fleet.wire.url, key: fleet.agentKey, instanceId: agentId })})
    await monitor.start()
    while (monitor.health.stream !== 'open') await new Promise((resolve) => setTimeout(resolve, 5))
    console.log('listening')`
  const run = promisify(execFile)(process.execPath, ['--input-type=module', '-e', program], { timeout: 20_000 })
  expect((await run).stdout).toBe('listening\n')
})

test('refresh() returns whether the service answered', async () => {
  await using fleet = await TestFleet.open()
  const { monitor } = fleet.monitor()
  expect(await monitor.refresh()).toBe(true)
  await fleet.kill('why')
  expect(await monitor.refresh()).toBe(true)
  expect(monitor.suspended).toBe(true)
  fleet.wire.mode = 'refuse'
  fleet.wire.cutAll()
  expect(await monitor.refresh()).toBe(false)
  expect(monitor.suspended).toBe(true)
})

test('stops listening and polling on stop(), and stays suspended', async () => {
  await using fleet = await TestFleet.open()
  const { monitor } = fleet.monitor({}, { heartbeat: 20, poll: 20 })
  await monitor.start()
  await fleet.kill('why')
  await eventually(() => expect(monitor.suspended).toBe(true))
  await monitor.stop()
  expect(monitor.health).toMatchObject({ running: false, stream: 'closed', state: 'suspended' })

  const asked = () => fleet.wire.asked(/\/agent-1\//).length
  // Let requests in flight finish first.
  await fleet.letTimePass()
  const before = asked()
  await fleet.letTimePass()
  expect(asked()).toBe(before)
})

test('announces its shutdown on stop() once, and only to a service that knows it', async () => {
  await using fleet = await TestFleet.open()
  const { monitor } = fleet.monitor({}, { heartbeat: 20 })
  await monitor.stop()
  expect(fleet.wire.asked(/heartbeat$/)).toEqual([])
  await monitor.start()
  expect(await fleet.instance()).toMatchObject({ left_at: null })
  await monitor.stop()
  expect(await fleet.instance()).toMatchObject({ left_at: expect.any(String) })
  const beats = fleet.wire.asked(/heartbeat$/).length
  await monitor.stop()
  expect(fleet.wire.asked(/heartbeat$/)).toHaveLength(beats)
  await monitor.start()
  await eventually(async () => expect(await fleet.instance()).toMatchObject({ left_at: null }))
  await monitor.stop()
})
