import { keyTypes } from '@wardline/contract'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { keysIn } from './credentials.ts'
import { agentId, eventually, TestFleet } from './testing/service.ts'

let fleet: TestFleet
beforeEach(async () => {
  fleet = await TestFleet.open()
})
afterEach(() => fleet[Symbol.asyncDispose]())

const outputRequests = () => fleet.wire.asked(/check\/output/).length
/** Text in which a key may stand: source code, paths, checksums, prose. */
const around = (key: string) =>
  `drwxr-xr-x 3 anna anna 4096 /srv/app/node_modules/.cache/a1b2c3\nexport const token: string = '${key}'\n` +
  `sha512-${'qX7c'.repeat(20)}==\nThe quick brown fox jumps over the lazy dog.`

test('a decoy key of any kind in a result or an answer is found, and its value is in no report', async () => {
  const keys = await Promise.all(keyTypes.map((keyType) => fleet.plantKey(keyType)))
  const { monitor, heard } = fleet.monitor()
  await monitor.start()
  for (const key of keys) {
    await monitor.reportToolCall({ toolName: 'Grep', result: { stdout: around(key) } })
    await monitor.flush(20_000)
  }
  await eventually(async () => expect(await fleet.events('decoy_read')).toHaveLength(keys.length))
  expect((await fleet.events('decoy_read')).map(({ metadata }) => metadata?.keyType).sort()).toEqual(
    [...keyTypes].sort(),
  )
  expect(await fleet.events('honeypot_triggered')).toEqual([])
  for (const key of keys) {
    await monitor.reportAnswer({ answer: [{ type: 'text', text: around(key) }] })
    await monitor.flush(20_000)
  }
  const breaches = await fleet.events('honeypot_triggered', 'breach')
  expect(breaches.map(({ metadata }) => metadata?.keyType).sort()).toEqual([...keyTypes].sort())
  expect(breaches[0]).toMatchObject({ instance_id: agentId, metadata: { found_in: 'answer' } })
  const stored = JSON.stringify([await fleet.events('tool_call'), await fleet.events('model_answer'), breaches])
  for (const key of keys) expect(stored).not.toContain(key)
  expect(heard.error).toEqual([])
})

test('nothing is compared where there is no decoy, or nothing that may be a key', async () => {
  const { monitor } = fleet.monitor()
  await monitor.start()
  await monitor.reportToolCall({ toolName: 'Read', result: around(`ghp_${'a1B2c3D4'.repeat(5)}`) })
  await fleet.plantKey('github')
  await monitor.refresh()
  await monitor.reportToolCall({ toolName: 'Read', result: 'function login(user: string) { return user }' })
  expect(await monitor.flush()).toBe(true)
  expect(outputRequests()).toBe(0)
  expect(await fleet.events('tool_call')).toHaveLength(2)
})

// Attack: a flood of outputs fills the memory of the agent, or uses up its quota of events.
test('a flood of outputs is compared at five a second, with a bounded number waiting', async () => {
  await fleet.plantKey('github')
  const { monitor } = fleet.monitor()
  await monitor.start()
  for (let count = 0; count < 500; count++) {
    void monitor.reportToolCall({ toolName: 'Read', result: `${count} ${around('a1B2c3D4'.repeat(5))}` })
  }
  expect(await monitor.flush(20_000)).toBe(true)
  expect(outputRequests()).toBeLessThanOrEqual(21)
  expect(await fleet.events('tool_call')).toHaveLength(500)
})

test('a service that does not answer holds neither the agent nor its reports', async () => {
  await fleet.plantKey('github')
  const { monitor, heard } = fleet.monitor()
  await monitor.start()
  fleet.wire.stall = /check\/output/
  expect(await monitor.reportAnswer({ answer: around('a1B2c3D4'.repeat(5)) })).toBe(true)
  await eventually(async () => expect(await fleet.events('model_answer')).toHaveLength(1))
  expect(await monitor.flush(10)).toBe(true)
  expect(heard.error).toEqual([])
})

test('an answer without a text and those of a suspended agent are not reported', async () => {
  const { monitor, heard } = fleet.monitor()
  await monitor.start()
  const hostile = Object.defineProperty({}, 'answer', {
    get: () => {
      throw new Error('no')
    },
  })
  for (const answer of [undefined, null, '', [], {}, () => 'x']) {
    expect(await monitor.reportAnswer({ answer })).toBe(false)
  }
  expect(await monitor.reportAnswer(hostile as { answer: unknown })).toBe(false)
  expect(heard.error).toMatchObject([{ code: 'invalid' }])
  await fleet.kill('test')
  await eventually(() => expect(monitor.suspended).toBe(true))
  expect(await monitor.reportAnswer({ answer: 'I am suspended.' })).toBe(false)
})

test('what may be a key is bounded, and read in linear time', () => {
  expect(keysIn('an ordinary text of /usr/lib/node_modules/typescript/lib/lib.es2023.d.ts')).toBe('')
  const key = `-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNz\u0000aC1rZXkt\ud800djE\n-----END OPENSSH PRIVATE KEY-----`
  expect(keysIn(`x ${key} y`)).toBe(key.replace(/[\0\ud800]/g, ''))
  for (const text of [
    'a1B2c3D4'.repeat(32_000),
    'a1B2c3D4e5F6g7H8i9 '.repeat(14_000),
    '-----BEGIN PRIVATE KEY-----'.repeat(9_000),
  ]) {
    const startedAt = performance.now()
    expect(keysIn(text).length).toBeLessThanOrEqual(8_000)
    expect(performance.now() - startedAt).toBeLessThan(500)
  }
})
