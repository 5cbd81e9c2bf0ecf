import type { InstanceDetail, InstanceList, SharedFleet, Witness } from '@wardline/contract'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { dayMs, minuteMs } from '../../clock.ts'
import { openTestService, type TestService } from '../../testing/service.ts'
import { senderOf } from './heard-by.ts'

let service: TestService
beforeEach(async () => {
  service = await openTestService()
})
afterEach(() => service[Symbol.asyncDispose]())

const beat = (id: string, more: object) =>
  service.call('POST', '/api/heartbeat', { body: { instance_id: id, name: id, ...more } })
const detail = async (id = 'bot') => {
  await service.services.heardBy.write()
  return (await service.call<InstanceDetail>('GET', `/api/instances/${id}`)).body
}
const hook = { agent_type: 'claude-code', fail_mode: 'open', control_version: 0, leaving: true }
const sdk = { agent_type: 'my-agent', boot_id: 'b-1' }
const toolCall = { severity: 'info', source: 'bot', event_type: 'tool_call', description: 'Bash', instance_id: 'bot' }

it.each<[Witness | undefined, object]>([
  ['sdk', sdk],
  ['sdk', { ...sdk, leaving: true }],
  ['sdk', {}],
  ['sdk', { agent_type: 'claude-code', boot_id: 'b-1' }],
  ['hook', hook],
  ['mcp', { agent_type: 'mcp-proxy', boot_id: 'b-1' }],
  ['supervisor', { supervisor: { isolated: false } }],
  [undefined, { agent_type: 'otlp' }],
  [undefined, { agent_type: 'model-gateway' }],
])('recognizes %s by its heartbeat %j', (witness, heartbeat) => {
  expect(senderOf({ instance_id: 'bot', name: 'bot', ...heartbeat } as never)).toBe(witness)
})

it('shows by what an agent is heard, since when, and when last', async () => {
  const startedAt = service.clock.now()
  await beat('bot', hook)
  service.clock.advance(minuteMs)
  await beat('bot', sdk)
  await beat('other', {})
  const at = (ms: number) => new Date(ms).toISOString()
  expect(await detail()).toMatchObject({
    heard_by: ['hook', 'sdk'],
    witnesses: [
      { witness: 'hook', since: at(startedAt), last_at: at(startedAt) },
      { witness: 'sdk', since: at(startedAt + minuteMs), last_at: at(startedAt + minuteMs) },
    ],
  })
  const { body } = await service.call<InstanceList>('GET', '/api/instances?witness=hook')
  expect(body.instances).toMatchObject([{ id: 'bot', heard_by: ['hook', 'sdk'] }])
  const fleet = await service.call<SharedFleet>('GET', '/api/fleet')
  expect(fleet.body.instances).toMatchObject([{ heard_by: ['hook', 'sdk'] }, { heard_by: ['sdk'] }])
})

it('counts the calls that a hook reports as signs of it, because between them it sends no heartbeats', async () => {
  await beat('bot', hook)
  await detail()
  service.clock.advance(5 * minuteMs)
  await service.call('POST', '/api/events', { body: toolCall })
  const { witnesses } = await detail()
  expect(witnesses).toMatchObject([{ witness: 'hook', last_at: new Date(service.clock.now()).toISOString() }])
})

it('writes once a minute what it knows already, and nothing of agents that are not registered', async () => {
  const lastAt = () => service.rows<{ last_at: number }>('select last_at from instance_witnesses')
  await beat('bot', sdk)
  await detail()
  const [first] = await lastAt()
  service.clock.advance(minuteMs / 2)
  await beat('bot', sdk)
  service.services.heardBy.note('stranger', 'otlp', service.clock.now())
  await detail()
  expect(await lastAt()).toEqual([first])
  service.clock.advance(minuteMs / 2)
  await beat('bot', sdk)
  await detail()
  expect(await lastAt()).toEqual([{ last_at: service.clock.now() }])
})

it('forgets a witness after 30 days, and those of a deleted agent', async () => {
  await beat('bot', hook)
  await detail()
  service.clock.advance(31 * dayMs)
  await beat('bot', sdk)
  expect((await detail()).heard_by).toEqual(['sdk'])
  await service.call('DELETE', '/api/instances/bot')
  expect(await service.rows('select * from instance_witnesses')).toEqual([])
})
