import { generateKeyPairSync, sign, verify as verifyText } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { createMonitorWith } from '../agent-monitor.ts'
import type { Monitor, MonitorOptions } from '../monitor.ts'
import { sendJson, startHostileService } from '../testing/hostile-service.ts'
import { eventually, fastPace } from '../testing/service.ts'
import { maxSetBytes, readSet, storeSet } from './received-set.ts'

// What an attacker between agent and service, or on its disk, may send in place of the policies.

const { publicKey, privateKey } = generateKeyPairSync('ed25519')
const instanceId = 'agent-1'

const deny = { title: 'Nothing', rules: [{ title: 'No', decision: 'deny', match: { tool: '*' } }] }
const bodyOf = (policies: object[], id = instanceId) =>
  JSON.stringify({
    agent: { id, tags: [] },
    policies: policies.map((document, at) => ({
      id: `01900000-0000-7000-8000-00000000000${at}`,
      title: 'Policy',
      version: 1,
      mode: 'enforce',
      document,
    })),
  })

function signed(version: number, body: string, id = instanceId) {
  const text = `wardline-policy-v1\n${id}\n${version}\n${body}\n`
  return {
    instance_id: id,
    version,
    body,
    signature_ed25519: sign(null, Buffer.from(text), privateKey).toString('base64url'),
  }
}

/** A service that announces a version, and gives an answer for it. */
async function startService() {
  const service = { version: 0, answer: {} as object, fetches: 0 }
  const url = await startHostileService(({ url: path = '' }, response) => {
    if (path.includes('/control')) return sendJson(response, 404, { error: 'no' })
    if (path.endsWith('/policy')) {
      service.fetches += 1
      return sendJson(response, 200, service.answer)
    }
    const headers = { 'x-wardline-decoys': 'none', 'x-wardline-policy': String(service.version), etag: 'W/"0"' }
    sendJson(response, 200, path.endsWith('/status') ? { suspended: false, reason: null } : { ok: true }, headers)
  })
  const start = async (options: Partial<MonitorOptions> = {}) => {
    // The answers to polls are not signed here, so only the policies are verified.
    const monitor = createMonitorWith({ url, key: 'key', instanceId, ...options }, { ...fastPace, refused: 200 })
    onTestFinished(() => monitor.stop())
    const errors: string[] = []
    monitor.on('error', ({ message }) => errors.push(message))
    await monitor.start()
    return { monitor, errors }
  }
  return { service, start }
}

const isDenied = async (monitor: Monitor) => (await monitor.guard({ toolName: 'read' }))?.code === 'policy'

const verify = (text: string, signature: unknown) =>
  typeof signature === 'string' && verifyText(null, Buffer.from(text), publicKey, Buffer.from(signature, 'base64url'))

const body = bodyOf([deny])
test('a set signed for this agent is read', () => {
  expect(readSet(signed(7, body), instanceId, verify)).toEqual(signed(7, body))
})

test.each([
  ['not signed', { ...signed(7, body), signature_ed25519: undefined }, /not signed/],
  ['changed', { ...signed(7, body), body: bodyOf([]) }, /not signed/],
  ['signed for another version', { ...signed(7, body), version: 8 }, /not signed/],
  ['of another agent', signed(7, body, 'agent-2'), /not those of this agent/],
  ['signed for another agent', { ...signed(7, body, 'agent-2'), instance_id: instanceId }, /not signed/],
  ['without a version', { ...signed(7, body), version: '7' }, /has no policies/],
  ['of a negative version', signed(-1, body), /has no policies/],
  ['too large', signed(7, 'x'.repeat(maxSetBytes + 1)), /bytes/],
  ['a list', [], /not those/],
  ['null', null, /not those/],
])('a set that is %s is refused', (_, value, fault) => {
  expect(readSet(value, instanceId, verify)).toMatch(fault)
})

test('an older set replaces neither the known one nor the stored one', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'wardline-set-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const stateFile = join(folder, 'state')
  const { service, start } = await startService()
  Object.assign(service, { version: 9, answer: signed(9, body) })
  const { monitor } = await start({ stateFile })
  expect(await isDenied(monitor)).toBe(true)
  Object.assign(service, { version: 10, answer: signed(8, bodyOf([])) })
  await eventually(() => expect(service.fetches).toBeGreaterThan(2))
  expect(await isDenied(monitor)).toBe(true)
  expect(monitor.health.policyVersion).toBe(9)
  expect(storeSet(`${stateFile}.policy`, signed(8, bodyOf([])) as never, undefined)).toBeUndefined()
  expect(JSON.parse(readFileSync(`${stateFile}.policy`, 'utf8')).version).toBe(9)
})

test.each([
  ['that is not JSON', 'x'],
  ['of another agent', bodyOf([deny], 'agent-2')],
  [
    'of a newer grammar',
    bodyOf([{ title: 'New', rules: [{ title: 'One', decision: 'maybe', match: { tool: '*' } }] }]),
  ],
  ['that is no set', '[]'],
  ['nested deeper than the stack', '['.repeat(200_000)],
])('the last set holds when the next one has a body %s', async (_, unreadable) => {
  const { service, start } = await startService()
  Object.assign(service, { version: 1, answer: signed(1, body) })
  const { monitor, errors } = await start()
  Object.assign(service, { version: 2, answer: signed(2, unreadable) })
  await eventually(() => expect(errors.join()).toMatch(/policies of this agent cannot be read/))
  expect(await isDenied(monitor)).toBe(true)
  // It is fetched again only after a while, or when a newer one is announced.
  Object.assign(service, { version: 3, answer: signed(3, bodyOf([])) })
  await eventually(() => expect(monitor.health.policyVersion).toBe(3))
  expect(await isDenied(monitor)).toBe(false)
})

test.each(['open', 'closed'] as const)('without a readable set the fail mode %s decides', async (failMode) => {
  const { service, start } = await startService()
  Object.assign(service, { version: 1, answer: { error: 'gone' } })
  const { monitor } = await start({ failMode })
  expect(await isDenied(monitor)).toBe(failMode === 'closed')
  Object.assign(service, { version: 2, answer: signed(2, bodyOf([])) })
  await eventually(() => expect(monitor.health.policyVersion).toBe(2))
  expect(await isDenied(monitor)).toBe(false)
})

test('a stored file that is cut, or a link to another file, is ignored', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'wardline-set-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const stateFile = join(folder, 'state')
  writeFileSync(`${stateFile}.policy`, JSON.stringify(signed(7, body)).slice(0, -10))
  const { start } = await startService()
  const { monitor, errors } = await start({ stateFile })
  expect(await isDenied(monitor)).toBe(false)
  expect(errors.join()).toContain('The stored policies are ignored')
})
