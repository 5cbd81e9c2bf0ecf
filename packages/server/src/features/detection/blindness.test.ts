import { expect, it } from 'vitest'
import { dayMs, hourMs, minuteMs } from '../../clock.ts'
import { openTestService, type TestService } from '../../testing/service.ts'
import { habitText, newHabit } from './report-habit.ts'

const bucketMs = 5 * minuteMs
const registers = { owner: 'k', max: null, tags: null }

/** Runs the jobs for five minutes in which each agent sends a heartbeat, and also an event if `reports` is set. */
async function pass(service: TestService, ids: readonly string[], reports: boolean): Promise<void> {
  const { clock, services } = service
  for (const id of ids) {
    await services.heartbeats.beat({ instance_id: id, name: id }, { registers, instances: null, keyId: 'k' })
    if (!reports) continue
    await service.call('POST', '/api/events', {
      body: { severity: 'info', source: id, event_type: 'tool_call', description: 'x', instance_id: id },
    })
  }
  await services.activityCounts.write()
  clock.advance(bucketMs)
  await services.blindness.sweep()
}

async function passHours(service: TestService, hours: number, reports: boolean, ids = ['bot']): Promise<void> {
  for (let index = 0; index < hours * 12; index++) await pass(service, ids, reports)
}

/** Opens a service with agents whose stored habit says that they reported around the clock for 11 days. */
async function openWithHabit(ids = ['bot']): Promise<TestService> {
  const service = await openTestService()
  await passHours(service, 0.5, true, ids)
  const lastDay = Math.floor(service.clock.now() / dayMs)
  const state = habitText({
    ...newHabit,
    alive: 3_000,
    longest: 2,
    days: 11,
    reportDays: 11,
    lastDay,
    lastReportDay: lastDay,
  })
  await service.execute(`update report_habits set state = '${state}'`)
  return service
}

const found = (service: TestService) =>
  service.rows<{ event_type: string; severity: string; instance_id: string | null }>(
    `select event_type, severity, instance_id from events
      where event_type in ('instance_blind', 'instance_reporting') order by seq`,
  )

it('reports an agent that sends heartbeats but no more events as blind, until its next event', async () => {
  await using service = await openWithHabit()
  await passHours(service, 1, false)
  expect(await found(service)).toEqual([])
  await passHours(service, 4, false)
  const blind = { event_type: 'instance_blind', severity: 'warning', instance_id: 'bot' }
  expect(await found(service)).toEqual([blind])
  await passHours(service, 0.5, true)
  expect(await found(service)).toEqual([
    blind,
    { event_type: 'instance_reporting', severity: 'info', instance_id: 'bot' },
  ])
})

// An event by the service, such as the one that an agent is blind, does not show that the agent works.
it('does not count events by the service about an agent as events of the agent', async () => {
  await using service = await openWithHabit()
  const { ingest } = service.services
  for (let index = 0; index < 24; index++) {
    const event = { severity: 'info', event_type: 'instance_restarted', instance_id: 'bot' } as const
    await ingest.store([ingest.own({ ...event, description: 'x' })])
    await pass(service, ['bot'], false)
  }
  expect(await found(service)).toMatchObject([{ event_type: 'instance_blind' }])
})

it('never reports a suspended agent as blind, and does not learn from its silence', async () => {
  await using service = await openWithHabit()
  await service.call('POST', '/api/kill/bot', { body: { reason: 'stop' } })
  await passHours(service, 6, false)
  await service.call('POST', '/api/resume/bot')
  await passHours(service, 0.5, false)
  expect(await found(service)).toEqual([])
  await passHours(service, 2, false)
  expect(await found(service)).toHaveLength(1)
})

it('reports nothing after hours without heartbeats or after the clock was set', async () => {
  await using service = await openWithHabit()
  const { clock, services } = service
  for (const step of [
    () => clock.advance(9 * hourMs),
    () => clock.jump(9 * hourMs),
    () => clock.jump(-12 * hourMs),
    () => clock.jump(40 * dayMs),
  ]) {
    step()
    await services.blindness.sweep()
    clock.advance(2 * minuteMs)
    await services.blindness.sweep()
    await passHours(service, 0.5, true)
  }
  expect(await found(service)).toEqual([])
})

it('names 20 agents and counts the others in one event when a fleet falls silent, once across two processes', async () => {
  const ids = Array.from({ length: 24 }, (_, index) => `agent-${index}`)
  await using service = await openWithHabit(ids)
  await using other = await openTestService({ dataDir: service.deps.config.dataDir, clock: service.clock })
  for (let index = 0; index < 20; index++) {
    await Promise.all([pass(service, ids, false), other.services.blindness.sweep()])
  }
  const events = await found(service)
  expect(events.filter(({ instance_id }) => instance_id === null)).toHaveLength(1)
  const named = events.flatMap(({ instance_id }) => instance_id ?? [])
  expect(named).toHaveLength(20)
  expect(new Set(named).size).toBe(20)
})

// Otherwise warnings about agents that have recovered stay open until a person resolves them.
it('ends each warning that named an agent when the agents report again, and the count when the last other one does', async () => {
  const ids = Array.from({ length: 48 }, (_, index) => `agent-${index + 10}`)
  await using service = await openWithHabit(ids)
  const blind = async () => (await found(service)).filter(({ event_type }) => event_type === 'instance_blind')
  const over = async () => (await found(service)).filter(({ event_type }) => event_type === 'instance_reporting')
  // In two halves, because one sweep names 20 agents at most.
  const halves = [ids.slice(0, 24), ids.slice(24)]
  await passHours(service, 5, false, halves[0])
  await passHours(service, 5, false, halves[1])
  const named = (await blind()).flatMap(({ instance_id }) => instance_id ?? [])
  expect(named).toHaveLength(40)
  const [last, ...others] = ids.filter((id) => !named.includes(id))
  await pass(service, [...named, ...others], true)
  await pass(service, ids, false)
  await pass(service, ids, false)
  expect((await over()).map(({ instance_id }) => instance_id).toSorted()).toEqual(named.toSorted())
  await pass(service, [last!], true)
  await pass(service, ids, false)
  await pass(service, ids, false)
  expect(await over()).toHaveLength(41)
  expect((await over()).at(-1)).toEqual({ event_type: 'instance_reporting', severity: 'info', instance_id: null })
})
