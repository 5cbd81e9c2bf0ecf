import type { BrakeView } from '@wardline/contract'
import { expect, it, test } from 'vitest'
import { dayMs } from '../../clock.ts'
import { openRuleService, shellRule, toolCall } from '../../testing/rule-service.ts'
import { openTestService, type TestService } from '../../testing/service.ts'
import { fleetOf, takePlace } from './brake-rules.ts'

const brakeOf = async (service: TestService) => (await service.call<BrakeView>('GET', '/api/brake')).body
const beat = (service: TestService, id: string, key?: string) =>
  service.call('POST', '/api/heartbeat', { body: { instance_id: id, name: id }, ...(key ? { key } : {}) })

// The agent of one exact key would otherwise switch off all automatic suspensions within a minute.
it('is not engaged by one agent that a rule suspends again and again', async () => {
  await using on = await openRuleService({ env: { WARDLINE_AUTO_SUSPEND: 'decoy,breach' } })
  await on.runRules()
  for (let index = 0; index < 20; index++) await beat(on, `agent-${index}`)
  await on.create(shellRule({ mode: 'enforce', response: [{ action: 'suspend', for: '5s' }] }))
  for (let round = 0; round < 9; round++) {
    await on.report(toolCall('shell-exec', 'agent-0'))
    await on.runRules()
    expect(await on.rows('select id from instances where suspended = 1')).toEqual([{ id: 'agent-0' }])
    on.clock.advance(5_001)
    await on.runRules()
    expect(await on.rows('select id from instances where suspended = 1')).toEqual([])
  }
  expect(await brakeOf(on)).toMatchObject({ engaged: false, last_minute: 1, suspended: 0 })
  await on.report({ ...toolCall('x', 'agent-1'), severity: 'breach' })
  expect(await on.rows('select id from instances where suspended = 1')).toEqual([{ id: 'agent-1' }])
})

// Otherwise the holder of a prefix key registers 1,000 instances, and a tenth of them are agents of others.
it('does not allow more because a prefix key registers many instances', async () => {
  await using service = await openTestService()
  for (let index = 0; index < 30; index++) await beat(service, `agent-${index}`)
  const { key: exact } = await service.createKey('agent', ['bot-a', 'bot-b'])
  for (const id of ['bot-a', 'bot-b']) await beat(service, id, exact)
  const { key } = await service.createKey('agent', ['codex-*'])
  await beat(service, 'codex-old', key)
  expect((await brakeOf(service)).limits).toMatchObject({ fleet: 33, fleet_max: 5 })
  for (let index = 0; index < 90; index++) await beat(service, `codex-${index}`, key)
  expect((await brakeOf(service)).limits).toMatchObject({ fleet: 33, fleet_max: 5 })
  // Replicas that replace each other count, up to the number of a day ago.
  service.clock.advance(dayMs + 1)
  for (let index = 0; index < 60; index++) await beat(service, `codex-${100 + index}`, key)
  for (let index = 0; index < 30; index++) await beat(service, `agent-${index}`)
  expect((await brakeOf(service)).limits).toMatchObject({ fleet: 90, fleet_max: 9 })
})

// A tenth of ten agents is one: the second attacker was let go on.
it('suspends five agents of a small fleet before it engages', async () => {
  await using on = await openRuleService({
    env: { WARDLINE_AUTO_SUSPEND: 'breach', WARDLINE_AUTO_SUSPEND_PER_MINUTE: '100' },
  })
  for (let index = 0; index < 10; index++) {
    const { key } = await on.createKey('agent', [`agent-${index}`])
    await beat(on, `agent-${index}`, key)
    const body = { ...toolCall('x', `agent-${index}`), severity: 'breach' }
    await on.call('POST', '/api/events', { key, body })
    const suspended = await on.rows('select id from instances where suspended = 1')
    expect(suspended).toHaveLength(Math.min(index + 1, 5))
  }
  expect(await brakeOf(on)).toMatchObject({
    engaged: true,
    refused: 5,
    limits: { fleet: 10, fleet_max: 5, fleet_min: 5, fleet_percent: 10 },
  })
})

test('a prefix key counts no more instances than it had a day ago, and at least one', () => {
  const owners = new Set(['prefix'])
  const count = (owner: string | null, heard: number, registeredBefore: number) =>
    fleetOf([{ owner, heard, registeredBefore }], owners)
  expect([count('prefix', 0, 5), count('prefix', 9, 0), count('prefix', 9, 5), count('prefix', 3, 5)]).toEqual([
    0, 1, 5, 3,
  ])
  expect([count('other', 9, 0), count(null, 9, 0)]).toEqual([9, 9])
})

test('an instance that was suspended within the minute takes no further place of the minute', () => {
  const limits = { perMinute: 2, fleetPercent: 10, fleetMin: 1 }
  const state = { engaged: false, lastMinute: new Set(['a', 'b']), lasting: 0, fleet: 40 }
  expect(takePlace(state, limits, 'a')).toMatchObject({ lasting: 1 })
  expect(takePlace(state, limits, 'c')).toBeUndefined()
  expect(takePlace({ ...state, lasting: 4 }, limits, 'a')).toBeUndefined()
  expect(takePlace({ ...state, engaged: true }, limits, 'a')).toBeUndefined()
})
