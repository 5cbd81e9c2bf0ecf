import type { EventRow, Suspension } from '@wardline/contract'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { openTestService, type TestService } from '../../testing/service.ts'

let service: TestService
beforeEach(async () => {
  service = await openTestService()
})
afterEach(() => service[Symbol.asyncDispose]())

const beat = (id: string, parent?: string, key?: string) =>
  service.call('POST', '/api/heartbeat', {
    body: { instance_id: id, name: id, control_version: 0, ...(parent && { parent_instance_id: parent }) },
    ...(key && { key }),
  })
const kill = async (id: string) => {
  await service.call('POST', `/api/kill/${id}`, { body: { reason: 'Leak' } })
  await service.services.childSuspensions.run()
}
/** Advances the clock, and runs the watch and the reports of what repeats every second, as their timers do. */
async function pass(seconds: number): Promise<void> {
  for (let passed = 0; passed < seconds; passed++) {
    service.clock.advance(1_000)
    await service.services.suspensionWatch.run()
    await service.services.countedReports.run()
    await service.services.ingest.whenIdle()
  }
}
const events = async (type: string) =>
  (await service.call<{ events: EventRow[] }>('GET', `/api/events?event_type=${type}`)).body.events.toReversed()
const family = (parent: string, prefix: string, count: number, key?: string) =>
  Promise.all(Array.from({ length: count }, (_, n) => beat(`${prefix}-${n}`, parent, key)))

it('children that do not confirm are one event of their parent, and later ones another after a minute', async () => {
  await beat('lead')
  await family('lead', 'early', 150)
  await kill('lead')
  await pass(40)
  expect(await events('kill_unconfirmed')).toMatchObject([{ instance_id: 'lead' }])
  expect(await events('children_unconfirmed')).toMatchObject([
    {
      ...{ severity: 'critical', by_service: true, instance_id: 'lead' },
      description: expect.stringMatching(/^150 agents below lead did not confirm within 35.0 seconds.*, …\)\.$/),
      metadata: { children: 150, latest: expect.objectContaining({ length: 5 }) },
    },
  ])
  const { body } = await service.call<{ suspensions: Suspension[] }>('GET', '/api/instances/early-7/suspensions')
  expect(body.suspensions[0]).toMatchObject({ state: 'unconfirmed' })
  // A key that goes on registering children of the suspended parent.
  for (let round = 0; round < 4; round++) {
    await family('lead', `late-${round}`, 3)
    await pass(15)
  }
  await pass(90)
  const [, ...later] = await events('children_unconfirmed')
  expect(later.length).toBeLessThanOrEqual(2)
  expect(later.reduce((sum, { metadata }) => sum + Number(metadata?.children), 0)).toBe(12)
})

it('a single child is named, and one that confirms causes neither event nor alert', async () => {
  await beat('lead')
  await family('lead', 'child', 2)
  await kill('lead')
  await service.call('POST', '/api/instances/child-0/ack', { body: { version: 1 } })
  await pass(40)
  expect(await events('children_unconfirmed')).toMatchObject([
    {
      description: expect.stringMatching(/^1 agent below lead did not confirm .* \(child-1\)\.$/),
      metadata: { children: 1, latest: ['child-1'] },
    },
  ])
  expect(await service.rows(`select event_type from alerts where instance_id like 'child-%'`)).toEqual([])
})

// A tree in which each parent has one child would else be as many events.
it('children of many parents of one key are counted together', async () => {
  const { key } = await service.createKey('agent', ['mine-*'])
  await beat('mine-root', undefined, key)
  for (let n = 0; n < 30; n++) await beat(`mine-p-${n}`, 'mine-root', key)
  for (let n = 0; n < 30; n++) await beat(`mine-c-${n}`, `mine-p-${n}`, key)
  await beat('other')
  await family('other', 'others', 1)
  await kill('mine-root')
  for (let level = 0; level < 3; level++) await service.services.childSuspensions.run()
  await kill('other')
  await pass(110)
  const found = await events('children_unconfirmed')
  const together = found.filter(({ metadata }) => metadata?.counted_together)
  expect(found.length).toBeLessThanOrEqual(24)
  expect(together.length).toBeGreaterThan(0)
  expect(together.every(({ instance_id }) => instance_id === null)).toBe(true)
  expect(found.reduce((sum, { metadata }) => sum + Number(metadata?.children), 0)).toBe(61)
  // Those of another key do not displace it.
  expect(found.find(({ instance_id }) => instance_id === 'other')).toMatchObject({ metadata: { children: 1 } })
})
