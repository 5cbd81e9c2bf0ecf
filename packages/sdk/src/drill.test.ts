import { generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import { createServer, request as open } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { readDrill } from './drill.ts'
import { openTextVerifier } from './signed-control.ts'
import { agentId, eventually, streamOpen, TestFleet } from './testing/service.ts'

const nonce = 'q83vEjRWeJCrze8SNFZ4kA'
const issuedAt = '2026-01-15T12:00:30.000Z'

function signedDrill(privateKey: KeyObject, changed: Record<string, unknown> = {}): string {
  const text = `wardline-drill-v1\n${agentId}\n${nonce}\n${issuedAt}\n`
  const signature_ed25519 = sign(null, Buffer.from(text), privateKey).toString('base64url')
  return JSON.stringify({
    action: 'drill',
    instance_id: agentId,
    nonce,
    issued_at: issuedAt,
    signature_ed25519,
    ...changed,
  })
}

test('answers a drill without effect on the agent', async () => {
  await using fleet = await TestFleet.open()
  const { monitor, heard } = fleet.monitor({}, { pollWithoutStream: 600_000 })
  await monitor.start()
  await streamOpen(monitor)
  const { signal } = monitor
  const { lastContact: _, ...before } = monitor.health
  expect(await fleet.drill()).toMatchObject({ asked: 1, answered: 1, missing: [] })
  expect((await fleet.instance()).last_proven_stoppable_at).not.toBeNull()
  const { lastContact: __, ...after } = monitor.health
  expect(after).toEqual(before)
  expect([monitor.signal, signal.aborted, monitor.suspended]).toEqual([signal, false, false])
  expect(heard).toEqual({ suspend: [], resume: [], error: [] })
  await monitor.stop()
  for (const type of ['tool_call', 'session_metrics', 'control_version_mismatch'])
    expect(await fleet.events(type)).toEqual([])
  expect(fleet.wire.asked(/\/drill$/)).toHaveLength(1)
})

test('answers a drill while suspended, and stays suspended', async () => {
  await using fleet = await TestFleet.open()
  const { monitor, heard } = fleet.monitor()
  await monitor.start()
  await streamOpen(monitor)
  await fleet.kill('why')
  await eventually(() => expect(monitor.suspended).toBe(true))
  expect(await fleet.drill()).toMatchObject({ asked: 1, answered: 1 })
  expect([monitor.suspended, monitor.health.controlVersion]).toEqual([true, 1])
  expect(heard).toEqual({ suspend: [{ version: 1, reason: 'why' }], resume: [], error: [] })
})

test('reports no error when its answer to a drill fails', async () => {
  await using fleet = await TestFleet.open({ WARDLINE_DRILL_ANSWER_SECONDS: '1' })
  const { monitor, heard } = fleet.monitor()
  await monitor.start()
  await streamOpen(monitor)
  fleet.wire.cut = /\/drill$/
  expect(await fleet.drill()).toMatchObject({
    asked: 1,
    answered: 0,
    missing: [{ instance_id: agentId, reason: 'no_answer' }],
  })
  expect(heard.error).toEqual([])
  expect(monitor.health.stream).toBe('open')
})

/** Proxy between agent and service that adds messages to the control stream. */
async function startForger(target: string, added: string) {
  const answers: string[] = []
  let sent = 0
  const server = createServer((request, response) => {
    const { method, url = '', headers } = request
    const onward = open(new URL(url, target), { method, headers, agent: false }, (answer) => {
      response.writeHead(answer.statusCode!, answer.headers)
      answer.pipe(response)
      if (!url.includes('/control')) return
      answer.once('data', () => {
        response.write(added)
        sent += 1
      })
    })
    onward.on('error', () => response.destroy())
    response.on('close', () => onward.destroy())
    if (url.endsWith('/drill')) request.on('data', (body) => answers.push(String(body)))
    request.pipe(onward)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.close()
    server.closeAllConnections()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, answers, sent: () => sent }
}

const { privateKey: strangersKey } = generateKeyPairSync('ed25519')
const forged = `data: ${signedDrill(strangersKey)}\n\n`

test('answers only drills signed by its deployment if it has the public key', async () => {
  await using fleet = await TestFleet.open()
  const keys = await fetch(new URL('/.well-known/wardline-keys.json', fleet.wire.url))
  const {
    keys: [{ x: publicKey }],
  } = (await keys.json()) as { keys: [{ x: string }] }
  const forger = await startForger(fleet.wire.url, forged)
  const { monitor, heard } = fleet.monitor({ url: forger.url, publicKey })
  await monitor.start()
  await streamOpen(monitor)
  await eventually(() => expect(forger.sent()).toBe(1))
  // The real drill arrives after the forged one.
  expect(await fleet.drill()).toMatchObject({ asked: 1, answered: 1 })
  expect(forger.answers).toHaveLength(1)
  expect(forger.answers[0]).not.toContain(nonce)
  expect(heard.error).toEqual([])
})

// The service may send another drill before it has the first answer. If that one stayed unanswered, the agent would
// count as not stoppable.
test('answers only the latest drill of those that arrive during an answer', async () => {
  await using fleet = await TestFleet.open()
  const drills = ['first', 'passed-over', 'latest'].map((name) => signedDrill(strangersKey, { nonce: name }))
  const forger = await startForger(fleet.wire.url, drills.map((drill) => `data: ${drill}\n\n`).join(''))
  const { monitor } = fleet.monitor({ url: forger.url })
  await monitor.start()
  await eventually(() => expect(forger.answers).toHaveLength(2))
  expect(forger.answers).toEqual(['first', 'latest'].map((name) => JSON.stringify({ nonce: name })))
  expect(await fleet.drill()).toMatchObject({ asked: 1, answered: 1 })
  expect(forger.answers).toHaveLength(3)
})

test('answers a flood of drills one at a time', async () => {
  await using fleet = await TestFleet.open()
  const forger = await startForger(fleet.wire.url, forged.repeat(200))
  const { monitor, heard } = fleet.monitor({ url: forger.url })
  await monitor.start()
  await streamOpen(monitor)
  await eventually(() => expect(forger.answers.length).toBeGreaterThan(0))
  expect(await fleet.drill()).toMatchObject({ asked: 1, answered: 1 })
  expect(forger.answers.length).toBeLessThan(20)
  expect(heard.error).toEqual([])
})

test('ignores invalid and forged drills', async () => {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519')
  const { x } = publicKey.export({ format: 'jwk' })
  const verify = await openTextVerifier(x)
  expect(readDrill(signedDrill(privateKey), agentId, verify)).toEqual({ isDrill: true, nonce })
  expect(readDrill(signedDrill(privateKey), agentId)).toEqual({ isDrill: true, nonce })
  for (const changed of [
    { nonce: 'AAAAAAAAAAAAAAAAAAAAAA' },
    { issued_at: '2026-01-15T12:00:31.000Z' },
    { issued_at: null },
    { signature_ed25519: '' },
    { signature_ed25519: 7 },
    { signature_ed25519: undefined },
  ])
    expect(readDrill(signedDrill(privateKey, changed), agentId, verify), JSON.stringify(changed)).toEqual({
      isDrill: true,
    })
  expect(readDrill(signedDrill(strangersKey), agentId, verify).nonce).toBeUndefined()
  for (const changed of [{ instance_id: 'agent-2' }, { nonce: 'a b' }, { nonce: 'a'.repeat(65) }, { nonce: {} }])
    expect(readDrill(signedDrill(privateKey, changed), agentId)).toEqual({ isDrill: true })
  for (const text of ['', 'null', '7', '[]', '{"action":"suspend"}', '{"action":"drill"'])
    expect(readDrill(text, agentId)).toEqual({ isDrill: false })
})
