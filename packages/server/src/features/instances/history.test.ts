import type { InstanceHistory, InstanceList } from '@wardline/contract'
import { expect, it } from 'vitest'
import { dayMs, hourMs, minuteMs } from '../../clock.ts'
import { manualClock } from '../../testing/clock.ts'
import { openTestService, type TestService } from '../../testing/service.ts'
import { forgetHistory } from './history.ts'

/** Starts at a bucket boundary, so that minutes map directly to buckets. */
const clock = () => manualClock(Date.UTC(2026, 0, 15, 12, 0, 0))
const beat = (service: TestService, id: string) =>
  service.call('POST', '/api/heartbeat', { body: { instance_id: id, name: id } })
const report = (service: TestService, instance_id: string, event_type = 'policy_note') =>
  service.call('POST', '/api/events', {
    body: { severity: 'info', source: 'test', event_type, description: 'x', instance_id },
  })
const history = async (service: TestService, id: string) =>
  (await service.call<InstanceHistory>('GET', `/api/instances/${id}/history`)).body
const write = (service: TestService) => service.services.activityCounts.write()
const last = (numbers: readonly number[], count: number) => numbers.slice(-count)
const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0)

it('counts heartbeats, expected heartbeats, events and tool calls per five minutes', async () => {
  await using service = await openTestService({ clock: clock() })
  for (let minute = 0; minute < 12; minute++) {
    // Two heartbeats are missing, those of minutes 6 and 7.
    if (minute !== 6 && minute !== 7) await beat(service, 'agent-1')
    service.clock.advance(minuteMs)
  }
  await report(service, 'agent-1', 'tool_call')
  await report(service, 'agent-1')
  await write(service)
  const shown = await history(service, 'agent-1')
  expect(shown).toMatchObject({ from: '2026-01-14T12:15:00.000Z', bucket_seconds: 300 })
  expect([shown.heartbeats, shown.expected, shown.events, shown.tool_calls].map(({ length }) => length)).toEqual([
    288, 288, 288, 288,
  ])
  expect(last(shown.heartbeats, 3)).toEqual([5, 3, 2])
  // Nothing is expected in the last two minutes: other processes may not have written their counts yet.
  expect(last(shown.expected, 4)).toEqual([0, 5, 5, 0])
  expect(last(shown.events, 3)).toEqual([0, 0, 2])
  expect(last(shown.tool_calls, 3)).toEqual([0, 0, 1])
  expect(sum(shown.expected)).toBe(10)
})

it('adds the counts of several processes and of the time before a restart', async () => {
  await using first = await openTestService({ clock: clock() })
  const shared = { dataDir: first.deps.config.dataDir, clock: first.clock }
  await using second = await openTestService(shared)
  await beat(first, 'agent-1')
  await beat(second, 'agent-1')
  await report(second, 'agent-1')
  await Promise.all([write(first), write(second)])
  // Each write replaces the whole hour: counts written before must not be added twice.
  await beat(first, 'agent-1')
  await write(first)
  await write(first)
  await using restarted = await openTestService(shared)
  await beat(restarted, 'agent-1')
  await write(restarted)
  for (const service of [first, second, restarted]) {
    const { heartbeats, events } = await history(service, 'agent-1')
    expect([last(heartbeats, 1), last(events, 1)]).toEqual([[4], [1]])
  }
})

it('keeps an hour that ended before it was written, and shows the last 24 hours', async () => {
  await using service = await openTestService({ clock: clock() })
  await beat(service, 'agent-1')
  service.clock.advance(hourMs)
  await beat(service, 'agent-1')
  await beat(service, 'agent-1')
  await write(service)
  expect((await history(service, 'agent-1')).heartbeats.filter((count) => count > 0)).toEqual([1, 2])
  service.clock.advance(dayMs - hourMs)
  expect((await history(service, 'agent-1')).heartbeats.filter((count) => count > 0)).toEqual([2])
})

it('retries failed writes and counts them once', async () => {
  await using service = await openTestService({ clock: clock() })
  await beat(service, 'agent-1')
  const allow = await service.refuse('insert', 'instance_hours')
  await expect(write(service)).rejects.toThrow()
  service.clock.advance(hourMs)
  await beat(service, 'agent-1')
  await expect(write(service)).rejects.toThrow()
  await allow()
  await write(service)
  expect((await history(service, 'agent-1')).heartbeats.filter((count) => count > 0)).toEqual([1, 1])
})

// Otherwise reports about invented instances would fill memory and the table.
it('stores nothing about unregistered instances', async () => {
  await using service = await openTestService({ clock: clock(), env: { WARDLINE_MAX_INSTANCES: '3' } })
  for (const id of ['invented-1', 'invented-2', 'invented-3', 'invented-4']) await report(service, id)
  await beat(service, 'agent-1')
  await write(service)
  expect(await service.rows('select instance_id from instance_hours')).toEqual([])
  await beat(service, 'agent-1')
  await write(service)
  expect(await service.rows('select instance_id from instance_hours')).toEqual([{ instance_id: 'agent-1' }])
  expect((await service.call('GET', '/api/instances/invented-1/history')).status).toBe(404)
})

it('deletes the history with its instance, and after a day', async () => {
  await using service = await openTestService({ clock: clock() })
  for (const id of ['agent-1', 'agent-2']) await beat(service, id)
  await write(service)
  await service.call('DELETE', '/api/instances/agent-1')
  expect(await service.rows('select instance_id from instance_hours')).toEqual([{ instance_id: 'agent-2' }])
  service.clock.advance(dayMs)
  await forgetHistory(service.deps)
  expect(await service.rows('select instance_id from instance_hours')).toHaveLength(1)
  service.clock.advance(2 * hourMs)
  await forgetHistory(service.deps)
  expect(await service.rows('select instance_id from instance_hours')).toEqual([])
})

it('includes the history in a page of instances per half hour, below 800 bytes each', async () => {
  await using service = await openTestService({ clock: clock() })
  const start = service.clock.now() - dayMs
  const full = JSON.stringify([...Array(12).fill(5), ...Array(12).fill(99), ...Array(12).fill(60)])
  for (const id of ['agent-1', 'agent-2']) await beat(service, id)
  await service.execute(`update instances set first_seen_at = 0`)
  await service.execute(`update schema_version set applied_at = 0`)
  for (let hour = 0; hour <= 24; hour++) {
    await service.execute(`insert into instance_hours values ('agent-2', ${start + hour * hourMs}, 'x', '${full}')`)
  }
  const page = async (query: string) => (await service.call<InstanceList>('GET', `/api/instances?${query}`)).body
  const { instances, next } = await page('include=history&limit=2')
  expect(instances.map(({ id }) => id)).toEqual(['agent-1', 'agent-2'])
  expect(next).toBe('agent-2')
  const shown = instances[1]!.history!
  expect(shown).toMatchObject({ from: '2026-01-14T12:30:00.000Z', bucket_seconds: 1800 })
  expect(shown.heartbeats).toEqual(Array(48).fill(30))
  expect(shown.events).toEqual(Array(48).fill(594))
  expect(shown.expected).toEqual([...Array(46).fill(30), 28, 0])
  expect(JSON.stringify(shown).length).toBeLessThan(800)
  expect((await page('limit=2')).instances[0]).not.toHaveProperty('history')
  const hour = (await page('include=hour&ids=agent-2')).instances[0]!.history!
  expect(hour).toMatchObject({ from: '2026-01-15T11:05:00.000Z', bucket_seconds: 300 })
  expect(hour.heartbeats).toEqual(Array(12).fill(5))
  expect(hour.tool_calls).toEqual(Array(12).fill(60))
  expect(hour.expected).toEqual([...Array(10).fill(5), 3, 0])
  for (const query of ['include=history&limit=201', 'include=hour&limit=201', 'include=everything']) {
    expect((await service.call('GET', `/api/instances?${query}`)).status).toBe(400)
  }
})

// A commit that began before the hour ended is counted after one that began later; a clock that is set back does the same.
it('keeps the counts of an hour to which a late count is added', async () => {
  await using service = await openTestService({ clock: clock() })
  const { activityCounts } = service.services
  for (let minute = 0; minute < 60; minute++) {
    await beat(service, 'agent-1')
    service.clock.advance(minuteMs)
  }
  await write(service)
  await beat(service, 'agent-1')
  activityCounts.noteEvents([{ instance_id: 'agent-1', tool: null, by_service: 0 }], service.clock.now() - 1)
  await beat(service, 'agent-1')
  await write(service)
  service.clock.advance(1)
  const shown = await history(service, 'agent-1')
  expect(last(shown.heartbeats, 4)).toEqual([5, 5, 5, 2])
  expect(last(shown.events, 2)).toEqual([1, 0])
  expect(activityCounts.lastRequestAt('agent-1')).toBe(service.clock.now() - 2)
})
