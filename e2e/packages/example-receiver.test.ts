import { spawn } from 'node:child_process'
import { createHmac, randomBytes, randomUUID } from 'node:crypto'
import { fileURLToPath } from 'node:url'
import { Webhook } from 'standardwebhooks'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { postEvent, unique } from '../fleet.ts'
import { isExternal, needsOwnProcess, type Service, startService, until } from '../service.ts'

const program = fileURLToPath(new URL('../../examples/alert-receiver/receiver.ts', import.meta.url))
const newSecret = () => `whsec_${randomBytes(32).toString('base64')}`
const [secret, older] = [newSecret(), newSecret()]

let output = ''
let url = ''
let service: Service | undefined
const receiver = isExternal
  ? undefined
  : spawn(process.execPath, [program], {
      env: { PATH: process.env.PATH ?? '', PORT: '0', ALERT_WEBHOOK_SECRET: `${secret} ${older}` },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
for (const stream of [receiver?.stdout, receiver?.stderr]) {
  stream?.setEncoding('utf8').on('data', (text) => {
    output += text
  })
}
afterAll(() => void receiver?.kill('SIGKILL'))

beforeAll(async () => {
  if (isExternal) return
  await until(
    'a port',
    () => output,
    (text) => text.includes('listening on'),
  )
  url = /http:\S+/.exec(output)![0]
  service = await startService({ env: { ALERT_WEBHOOK_URL: url, ALERT_WEBHOOK_SECRET: secret } })
})
afterAll(() => service?.stop())

const seconds = () => Math.floor(Date.now() / 1_000)
const bodyOf = (description: string) =>
  JSON.stringify({
    type: 'alert.policy_note',
    timestamp: new Date().toISOString(),
    data: {
      created_at: new Date().toISOString(),
      severity: 'critical',
      event_type: 'policy_note',
      instance_id: null,
      description,
    },
  })

interface Sent {
  id?: string
  at?: number
  key?: string
  headers?: Record<string, string>
}

/** Sends a message signed by the reference implementation. */
function send(body: string, { id = randomUUID(), at = seconds(), key = secret, headers = {} }: Sent = {}) {
  const signature = new Webhook(key).sign(id, new Date(at * 1_000), body)
  const signed = { 'webhook-id': id, 'webhook-timestamp': String(at), 'webhook-signature': signature }
  return fetch(url, { method: 'POST', body, headers: { ...signed, ...headers } }).then(({ status }) => status)
}

test('the example receiver prints what the service sends it', async ({ skip }) => {
  if (!service) return skip(needsOwnProcess)
  const tested = await service.call<{ ok: boolean; answer: string }>('POST', '/api/alert-channels/env-webhook/test')
  expect(tested.body).toMatchObject({ ok: true, answer: 'thank you' })
  const description = unique('needle')
  await postEvent(service, { severity: 'breach', instance_id: 'receiver-bot', description })
  await until(
    'the alert',
    () => output,
    (text) => text.includes(description),
  )
  expect(output).toMatch(new RegExp(`^\\S+Z breach receiver-bot policy_note: ${description}$`, 'm'))
  expect(output).toContain('channel.test: Test message of Wardline')
})

test('the example receiver takes a message once, by either secret', async ({ skip }) => {
  if (isExternal) return skip(needsOwnProcess)
  const [id, body] = [randomUUID(), bodyOf('only once')]
  expect([await send(body, { id }), await send(body, { id }), await send(bodyOf('older'), { key: older })]).toEqual([
    200, 200, 200,
  ])
  await until(
    'the last one',
    () => output,
    (text) => text.includes('older'),
  )
  expect(output.match(/only once/g)).toHaveLength(1)
})

// Anyone who knows the address could send false alarms, or replay a recorded message.
test('the example receiver refuses what is forged, changed, old or not signed', async ({ skip }) => {
  if (isExternal) return skip(needsOwnProcess)
  const forged = unique('forged')
  const body = bodyOf(forged)
  const id = randomUUID()
  const at = seconds()
  const withoutKey = createHmac('sha256', '').update(`${id}.${at}.${body}`).digest('base64')
  const refused = [
    await send(body, { key: newSecret() }),
    await send(body, { headers: { 'webhook-id': randomUUID() } }),
    await send(body, { at, headers: { 'webhook-timestamp': String(at + 1) } }),
    await send(body, { at: at - 301 }),
    await send(body, { at: at + 400 }),
    await send(body, { id, at, headers: { 'webhook-signature': `v1,${withoutKey}` } }),
    await send(body, { headers: { 'webhook-signature': '' } }),
    await fetch(url, { method: 'POST', body }).then(({ status }) => status),
  ]
  expect(refused).toEqual(Array(8).fill(401))
  expect(await send('x'.repeat(70_000))).toBe(413)
  await until(
    'the last refusal',
    () => output,
    (text) => text.includes('refused: too long'),
  )
  expect(output).not.toContain(forged)
})

// The description comes from an agent and could contain terminal escapes.
test('the example receiver lets no text act on the terminal', async ({ skip }) => {
  if (isExternal) return skip(needsOwnProcess)
  expect(await send(bodyOf('ok\u001b[2J\u202e\nrefused: hidden'))).toBe(200)
  await until(
    'the alert',
    () => output,
    (text) => text.includes('hidden\n'),
  )
  expect(output).toMatch(/^\S+Z critical - policy_note: ok.\[2J..refused: hidden$/m)
})
