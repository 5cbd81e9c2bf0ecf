import { expect, onTestFinished, test } from 'vitest'
import { createMonitorWith } from './agent-monitor.ts'
import type { Monitor } from './monitor.ts'
import { answerPlainly, sendJson, startHostileService } from './testing/hostile-service.ts'
import { agentId, eventually, fastPace, streamOpen, TestFleet } from './testing/service.ts'
import { announcedSuspension } from './wire.ts'

// The header of any answer announces a suspension. It is not signed: it only causes a poll, which decides.

/** Then only the header of an answer can bring a suspension. */
const deaf = { heartbeat: 600_000, poll: 600_000, pollWithoutStream: 600_000 }
const ownPoll = /\/agent-1\/status$/
const note = { severity: 'info', eventType: 'note', description: 'a' } as const

test.each<[string, (monitor: Monitor) => Promise<unknown>]>([
  ['an event', (monitor) => monitor.report(note)],
  ['a decoy check', (monitor) => monitor.checkPath('/etc/harmless')],
])('the answer to %s after a kill suspends at once', async (_name, act) => {
  await using fleet = await TestFleet.open()
  await fleet.plantKey('openai')
  fleet.wire.cut = /\/control$/
  const publicKey = await fleet.publicKeys()
  const { monitor, heard } = fleet.monitor({ publicKey }, { ...deaf, announced: 5 })
  await monitor.start()
  const polls = fleet.wire.asked(ownPoll).length
  await fleet.kill('exfiltration')
  await act(monitor)
  await eventually(() => expect(monitor.suspended).toBe(true))
  expect(heard.suspend).toEqual([{ version: 1, reason: 'exfiltration' }])
  expect(await monitor.guard({ toolName: 'a', args: ['b'] })).toMatchObject({ denied: true })
  await eventually(async () => expect((await fleet.instance()).control).toMatchObject({ confirmed: true, version: 1 }))
  // Later answers announce what is applied, and cause nothing.
  await monitor.report(note)
  await monitor.flush()
  await fleet.letTimePass()
  expect(fleet.wire.asked(ownPoll)).toHaveLength(polls + 1)
})

// A stream that is open and silent lets usual polls wait for 30 seconds.
test('a poll that fails is repeated soon', async () => {
  let isFailing = false
  let isKilled = false
  let polls = 0
  const url = await startHostileService((request, response, body) => {
    if (request.url?.includes('/control')) {
      const message = { instance_id: agentId, action: 'resume', version: 0 }
      return response.writeHead(200).write(`data: ${JSON.stringify(message)}\n\n`)
    }
    const isPoll = request.url?.endsWith('/status')
    if (isPoll) polls += 1
    if (isKilled && !isPoll) response.setHeader('wardline-suspended', '1')
    if (!isKilled || !isPoll) return answerPlainly(request, response, body)
    if (isFailing) sendJson(response, 503, {})
    else sendJson(response, 200, { suspended: true, reason: 'exfiltration' }, { etag: 'W/"1"' })
    isFailing = false
  })
  const pace = { ...fastPace, ...deaf, announced: 600_000 }
  const monitor = createMonitorWith({ url, key: 'key', instanceId: agentId }, { ...pace, pollWithoutStream: 300 })
  onTestFinished(() => monitor.stop())
  await monitor.start()
  await streamOpen(monitor)
  // The one of the start, and one after which the open stream lets the next one wait.
  await eventually(() => expect(polls).toBe(2))
  isKilled = true
  isFailing = true
  await monitor.report(note)
  await eventually(() => expect(monitor.health.reason).toBe('exfiltration'))
  expect(isFailing).toBe(false)
})

/** A server that sends a header with every answer, and a monitor of it. Counts its polls. */
async function announce(header: () => string, pace: object, settings = {}) {
  const seen = { polls: 0 }
  const url = await startHostileService((request, response, body) => {
    if (request.url?.endsWith('/status')) seen.polls += 1
    response.setHeader('wardline-suspended', header())
    answerPlainly(request, response, body)
  })
  const monitor = createMonitorWith({ url, key: 'key', instanceId: agentId, ...settings }, { ...fastPace, ...pace })
  onTestFinished(() => monitor.stop())
  await monitor.start()
  return { monitor, seen }
}

async function reportOften(monitor: Monitor) {
  for (let sent = 0; sent < 30; sent++) {
    await monitor.report(note)
    await monitor.flush()
    await monitor.checkPath('/etc/harmless')
  }
}

test('a header that is always there causes one poll in an interval, and neither suspends nor resumes', async () => {
  let version = 0
  const { monitor, seen } = await announce(() => `${++version}`, { ...deaf, announced: 600_000 })
  await reportOften(monitor)
  await eventually(() => expect(seen.polls).toBe(2))
  await reportOften(monitor)
  expect(seen.polls).toBe(2)
  expect(monitor.health).toMatchObject({ state: 'active', controlVersion: 0 })
})

test('a header is followed again after the interval', async () => {
  const { monitor, seen } = await announce(() => '7', { ...deaf, announced: 20 })
  await monitor.report(note)
  await eventually(() => expect(seen.polls).toBeGreaterThan(3))
  expect(monitor.suspended).toBe(false)
})

test('an unsigned answer to the poll does not suspend an agent with a public key', async () => {
  const seen = { polls: 0 }
  const url = await startHostileService((request, response, body) => {
    response.setHeader('wardline-suspended', '9')
    if (!request.url?.endsWith('/status')) return answerPlainly(request, response, body)
    seen.polls += 1
    sendJson(response, 200, { suspended: true, reason: 'forged' }, { etag: 'W/"9"' })
  })
  const publicKey = 'A6EHv_POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg'
  const settings = { url, key: 'key', instanceId: agentId, publicKey }
  const monitor = createMonitorWith(settings, { ...fastPace, ...deaf, announced: 5 })
  onTestFinished(() => monitor.stop())
  await monitor.start()
  await monitor.report(note)
  await eventually(() => expect(seen.polls).toBeGreaterThan(2))
  expect(monitor.suspended).toBe(false)
})

const garbage = [
  '',
  '-1',
  '1.5',
  '1e3',
  '0x10',
  'suspended',
  '9'.repeat(16),
  '1'.repeat(17),
  '7'.padStart(17, '0'),
  '1, 1',
  '١',
  '1;2',
]
test.each(garbage)('ignores the header %o', async (header) => {
  expect(announcedSuspension(header)).toBeUndefined()
  if (!/^[ -~]*$/.test(header)) return
  const { monitor, seen } = await announce(() => header, { ...deaf, announced: 0 })
  await reportOften(monitor)
  expect(seen.polls).toBe(1)
})
