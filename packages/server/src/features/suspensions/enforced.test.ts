import type { EventRow, InstanceDetail, KeyCreated, Suspension } from '@wardline/contract'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { openTestService, type TestService } from '../../testing/service.ts'

let service: TestService
const keys: Record<string, string> = {}
beforeEach(async () => {
  service = await openTestService()
  keys.agent = (await service.createKey('agent', ['bot'])).key
  keys.admin = (await service.createKey('admin')).key
  keys.supervisor = await supervisorKey(['bot'])
  keys.other = await supervisorKey(['other'])
  await beat()
})
afterEach(() => service[Symbol.asyncDispose]())

async function supervisorKey(instances: string[]): Promise<string> {
  const body = { scope: 'agent', instances, supervises: true }
  return (await service.call<KeyCreated>('POST', '/api/keys', { body })).body.key
}
const beat = () =>
  service.call('POST', '/api/heartbeat', { body: { instance_id: 'bot', name: 'bot', control_version: 0 } })
const kill = () => service.call('POST', '/api/kill/bot', { body: { reason: 'Leak' } })
const resume = () => service.call('POST', '/api/resume/bot')
const held = { action: 'freeze', processes: 3, left: 0, ms: 12 }
const ack = async (version: number, supervisor?: object, key = keys.supervisor) => {
  const body = { version, ...(supervisor ? { supervisor } : {}) }
  return (await service.call('POST', '/api/instances/bot/ack', { key, body })).status
}
const list = async () =>
  (await service.call<{ suspensions: Suspension[] }>('GET', '/api/instances/bot/suspensions')).body.suspensions
const shownState = async () => (await service.call<InstanceDetail>('GET', '/api/instances/bot')).body.suspension?.state
async function events(type: string): Promise<EventRow[]> {
  await service.services.countedReports.flush()
  await service.services.ingest.whenIdle()
  return (await service.call<{ events: EventRow[] }>('GET', `/api/events?event_type=${type}`)).body.events
}

describe('what a supervisor says', () => {
  it.each([
    ['supervisor', 200, 'enforced'],
    ['agent', 200, 'confirmed'],
    ['admin', 200, 'confirmed'],
    ['other', 403, 'pending'],
  ])('with the key %s is answered with %i and leaves the suspension %s', async (name, status, state) => {
    await kill()
    expect(await ack(1, held, keys[name])).toBe(status)
    expect((await list())[0]).toMatchObject({
      state,
      enforced_by: state === 'enforced' ? 'supervisor' : null,
      held_processes: state === 'enforced' ? 3 : null,
    })
    expect(await shownState()).toBe(state)
  })

  it('counts after an acknowledgement of the agent, and also if it is repeated', async () => {
    await kill()
    expect(await ack(1, undefined, keys.agent)).toBe(200)
    expect(await shownState()).toBe('confirmed')
    expect(await ack(1, held)).toBe(200)
    const [first] = await list()
    service.clock.advance(1_000)
    expect(await ack(1, { ...held, processes: 9 })).toBe(200)
    expect(await list()).toEqual([first])
    expect(first).toMatchObject({ state: 'enforced', held_processes: 3, left_processes: 0 })
  })

  it.each([
    ['version 0', 0],
    ['an earlier suspension', 1],
  ])('about %s does not count for the current one', async (_, version) => {
    await kill()
    await resume()
    await kill()
    expect(await ack(version, held)).toBe(200)
    expect((await list()).map(({ state, enforced_by }) => [state, enforced_by])).toEqual([
      ['pending', null],
      ['pending', null],
    ])
  })

  it('about a suspension that ended does not count', async () => {
    await kill()
    await resume()
    expect(await ack(1, held)).toBe(200)
    expect((await list())[0]).toMatchObject({ enforced_at: null, held_processes: null })
  })

  it('is reported as critical while processes are left, and enforces once none is', async () => {
    await kill()
    expect(await ack(1, { ...held, left: 2 })).toBe(200)
    expect(await ack(1, { ...held, left: 2 })).toBe(200)
    expect((await list())[0]).toMatchObject({ state: 'confirmed', enforced_at: null, left_processes: 2 })
    expect(await events('supervisor_incomplete')).toMatchObject([
      { severity: 'critical', instance_id: 'bot', metadata: { version: 1, processes: 3, left: 2, occurrences: 1 } },
    ])
    expect(await ack(1, held)).toBe(200)
    expect((await list())[0]).toMatchObject({ state: 'enforced', left_processes: 0 })
  })

  it('ends the enforcement when it no longer holds all, until it does again', async () => {
    await kill()
    expect(await ack(1, held)).toBe(200)
    expect(await ack(1, { ...held, left: 1 })).toBe(200)
    expect((await list())[0]).toMatchObject({
      state: 'confirmed',
      enforced_at: null,
      enforced_by: null,
      left_processes: 1,
    })
    expect(await events('supervisor_incomplete')).toHaveLength(1)
    expect(await ack(1, held)).toBe(200)
    expect((await list())[0]).toMatchObject({ state: 'enforced', enforced_by: 'supervisor', left_processes: 0 })
  })

  it.each([
    [{ action: 'pause', processes: 1, left: 0, ms: 1 }, 'supervisor.action must be freeze, or end.'],
    [{ action: 'end', processes: -1, left: 0, ms: 1 }, 'supervisor.processes must be >= 0.'],
    [{ action: 'end', processes: 1, left: 100_001, ms: 1 }, 'supervisor.left must be <= 100000.'],
  ])('%j is refused', async (supervisor, sentence) => {
    await kill()
    const body = { version: 1, supervisor }
    const answer = await service.call<{ error: string }>('POST', '/api/instances/bot/ack', {
      key: keys.supervisor,
      body,
    })
    expect([answer.status, answer.body.error]).toEqual([400, sentence])
    expect(await shownState()).toBe('pending')
  })
})

describe('an enforced suspension', () => {
  beforeEach(async () => {
    await kill()
    expect(await ack(1, held)).toBe(200)
  })

  it('is violated by later activity of the agent', async () => {
    service.clock.advance(20_000)
    const event = { severity: 'info', source: 'bot', event_type: 'tool_call', description: 'x', instance_id: 'bot' }
    await service.call('POST', '/api/events', { key: keys.agent, body: event })
    await service.services.suspensionWatch.run()
    expect(await shownState()).toBe('violated')
  })

  it('stays so when the agent acknowledges, and when it has been silent', async () => {
    expect(await ack(1, undefined, keys.agent)).toBe(200)
    service.clock.advance(60_000)
    await service.services.suspensionWatch.run()
    expect(await shownState()).toBe('enforced')
    expect(await events('kill_unconfirmed')).toEqual([])
  })

  it('is over with the resume, and its successor begins without it', async () => {
    await resume()
    expect((await list())[0]?.state).toBe('enforced')
    await kill()
    expect((await list()).map(({ state }) => state)).toEqual(['pending', 'enforced'])
  })
})
