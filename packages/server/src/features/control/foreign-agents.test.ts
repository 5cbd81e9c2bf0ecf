import type { InstanceDetail, Suspension } from '@wardline/contract'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { listenOnFreePort, openControlStream } from '../../testing/control-stream.ts'
import { openTestService, type TestService } from '../../testing/service.ts'

let service: TestService
let url = ''
let own: { key: string }
let other: { key: string }
beforeAll(async () => {
  service = await openTestService()
  url = await listenOnFreePort(service.app)
  own = await service.createKey('agent', ['bot'])
  other = await service.createKey('agent', ['other'])
  for (const [instance_id, { key }] of [
    ['bot', own],
    ['other', other],
  ] as const) {
    await service.call('POST', '/api/heartbeat', { key, body: { instance_id, name: instance_id } })
  }
  await service.call('POST', '/api/kill/bot', { body: { reason: 'Leak' } })
})
afterAll(() => service[Symbol.asyncDispose]())

const suspension = async () =>
  (await service.call<{ suspensions: Suspension[] }>('GET', '/api/instances/bot/suspensions')).body.suspensions[0]!

// Attack: an agent watches what happens to another one, or confirms for it that it stopped.
it('an agent neither reads the control of another one nor acknowledges for it', async () => {
  const { key } = other
  const refused = { status: 403, body: { error: 'This key is bound to other instances.' } }
  expect(await service.call('GET', '/api/instances/bot/status', { key })).toMatchObject(refused)
  // What memory knows is answered without the framework, and only over a socket.
  const poll = (headers: Record<string, string>) => fetch(`${url}/api/instances/bot/status`, { headers })
  expect(await (await poll({ 'x-monitor-key': own.key })).json()).toEqual({ suspended: true, reason: 'Leak' })
  const polled = await poll({ 'x-monitor-key': key })
  expect([polled.status, await polled.json()]).toEqual([403, refused.body])
  const stream = await fetch(`${url}/api/instances/bot/control`, { headers: { 'x-monitor-key': key } })
  expect(stream.status).toBe(403)
  await stream.body?.cancel()
  expect(await service.call('POST', '/api/instances/bot/ack', { key, body: { version: 1 } })).toMatchObject(refused)
  expect((await service.call<InstanceDetail>('GET', '/api/instances/bot')).body.control).toMatchObject({
    confirmed: false,
  })
})

// Attack: who reads along would be taken for the agent, and the suspension for delivered.
it('a suspension is delivered by what its agent reads, not by what people read', async () => {
  const { key } = await service.createKey('viewer')
  expect((await service.call('GET', '/api/instances/bot/status', { key })).body).toEqual({
    suspended: true,
    reason: 'Leak',
  })
  const read = await openControlStream(url, 'bot', '', key)
  expect(read.messages()).toMatchObject([{ action: 'suspend', reason: 'Leak', version: 1 }])
  await read[Symbol.asyncDispose]()
  await service.services.suspensionFacts.write()
  await service.call('POST', '/api/resume/bot')
  await service.call('POST', '/api/kill/bot', { body: { reason: 'Again' } })
  await service.call('GET', '/api/instances/bot/status', { key })
  await service.services.suspensionFacts.write()
  expect(await suspension()).toMatchObject({ version: 3, delivered_at: null, delivered_by: null })
  await service.call('GET', '/api/instances/bot/status', { key: own.key })
  await service.services.suspensionFacts.write()
  expect(await suspension()).toMatchObject({
    version: 3,
    delivered_at: new Date(service.clock.now()).toISOString(),
    delivered_by: 'poll',
  })
})

it('a stream that opens while its agent is suspended delivers the suspension', async () => {
  await service.call('POST', '/api/resume/bot')
  await service.call('POST', '/api/kill/bot', { body: { reason: 'Third' } })
  await using stream = await openControlStream(url, 'bot', '', own.key)
  expect(stream.messages()).toMatchObject([{ action: 'suspend', reason: 'Third', version: 5 }])
  await service.services.suspensionFacts.write()
  expect(await suspension()).toMatchObject({ version: 5, delivered_by: 'stream' })
})

it('the sentences of refusals say what is wrong', async () => {
  expect((await service.call('POST', '/api/resume/other')).body).toEqual({ error: 'The instance is not suspended.' })
  expect((await service.call('POST', '/api/kill/bot', { body: { reason: 'x' } })).body).toEqual({
    error: 'The instance is already suspended.',
  })
  const ahead = await service.call('POST', '/api/instances/other/ack', { key: other.key, body: { version: 9 } })
  expect(ahead.body).toEqual({ error: 'version must not be above the current control version.' })
})
