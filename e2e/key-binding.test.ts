import { afterAll, beforeAll, expect, test } from 'vitest'
import { allEvents, anEvent, beat, createKey, unique } from './fleet.ts'
import { type Service, startService } from './service.ts'
import type { EventRow, StatusView } from './shapes.ts'

/** Yields 2,450 pairs of a key and an instance to which it is not bound. */
const agents = 50
/** Concurrent requests. */
const lanes = 32

let service: Service
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service?.stop())

async function inLanes<Item>(items: readonly Item[], work: (item: Item) => Promise<void>): Promise<void> {
  const waiting = items.values()
  await Promise.all(
    Array.from({ length: lanes }, async () => {
      for (const item of waiting) await work(item)
    }),
  )
}

const ways = {
  heartbeat: (id: string, key: string) =>
    service.call('POST', '/api/heartbeat', { key, body: { instance_id: id, name: 'Agent' } }),
  event: (id: string, key: string) =>
    service.call('POST', '/api/events', { key, body: anEvent({ instance_id: id, description: 'written' }) }),
  poll: (id: string, key: string) => service.call('GET', `/api/instances/${id}/status`, { key }),
}

// A compromised agent may use its key to act for other agents.
test(`${agents} keys give access to their instance and to no other`, { timeout: 120_000 }, async () => {
  const prefix = unique('pair')
  // Some ids are prefixes of others, so a comparison of prefixes would accept them.
  const ids = Array.from({ length: agents }, (_, index) => `${prefix}${index % 2 === 0 ? '-' : ''}${index}`)
  const keys: string[] = []
  for (const id of ids) keys.push(await createKey(service, { scope: 'agent', instances: [id] }))
  await inLanes([...ids.entries()], async ([index, id]) => {
    await beat(service, id, { key: keys[index]! })
    expect((await ways.event(id, keys[index]!)).status).toBe(201)
    expect((await ways.poll(id, keys[index]!)).status).toBe(200)
  })
  const snapshot = async () => {
    const { instances } = (await service.call<StatusView>('GET', '/api/status')).body
    return {
      instances: instances.map(({ id, name, last_heartbeat, suspension_reason }) => [
        id,
        name,
        last_heartbeat,
        suspension_reason,
      ]),
      events: (await allEvents(service)).filter(({ description }) => description === 'written').length,
    }
  }
  const before = await snapshot()
  expect(before.events).toBe(agents)
  const pairs = keys.flatMap((key, index) => ids.filter((_, other) => other !== index).map((id) => ({ key, id })))
  const statuses: Record<string, number> = {}
  await inLanes(pairs, async ({ key, id }) => {
    for (const [way, call] of Object.entries(ways)) {
      const name = `${way} ${(await call(id, key)).status}`
      statuses[name] = (statuses[name] ?? 0) + 1
    }
  })
  const each = agents * (agents - 1)
  expect(statuses).toEqual({ 'heartbeat 403': each, 'event 403': each, 'poll 403': each })
  expect(await snapshot()).toEqual(before)
  const reports = (await allEvents(service)).filter(({ event_type }) => event_type === 'identity_mismatch')
  const ownOf = ({ metadata }: EventRow) => (metadata!.bound_to as string[])[0]
  expect(reports.map(({ by_service, severity }) => [by_service, severity])).toEqual(
    reports.map(() => [true, 'critical']),
  )
  expect(new Set(reports.map(ownOf))).toEqual(new Set(ids))
})
