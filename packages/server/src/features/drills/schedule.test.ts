import type { KeyCreated } from '@wardline/contract'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { dayMs, hourMs, minuteMs } from '../../clock.ts'
import { listenOnFreePort, openControlStream } from '../../testing/control-stream.ts'
import { openTestService, type TestService } from '../../testing/service.ts'
import { warnOfOverdue } from './overdue.ts'
import { catchUpMs, nextDrillAt, retryDrillMs } from './schedule.ts'

const start = Date.UTC(2026, 0, 15)
const never = { askedAt: null, answeredAt: null }
const periods = fc.integer({ min: 1, max: 168 }).map((hours) => hours * hourMs)
const ids = fc.stringMatching(/^[a-z0-9_-]{1,64}$/)

it('drills a connected agent once per period, always at the same time', () => {
  fc.assert(
    fc.property(ids, periods, fc.integer({ min: 0, max: dayMs }), (id, periodMs, offset) => {
      const openedAt = start + offset
      let answeredAt = nextDrillAt(id, { ...never, openedAt }, periodMs, openedAt)
      // The first drill follows soon after the agent connects.
      expect(answeredAt - openedAt).toBeGreaterThanOrEqual(0)
      expect(answeredAt - openedAt).toBeLessThan(catchUpMs)
      const times: number[] = []
      for (let count = 0; count < 5; count++) {
        const next = nextDrillAt(id, { askedAt: answeredAt, answeredAt, openedAt }, periodMs, answeredAt)
        expect(next).toBeGreaterThan(answeredAt)
        expect(next - answeredAt).toBeLessThanOrEqual(periodMs)
        times.push(next)
        answeredAt = next
      }
      for (const [index, at] of times.entries()) expect(at - times[0]!).toBe(index * periodMs)
    }),
  )
})

it('drills an agent within ten minutes after it connects only if it missed its time', () => {
  fc.assert(
    fc.property(ids, periods, fc.integer({ min: 1, max: 10 * dayMs }), (id, periodMs, awayMs) => {
      const answeredAt = nextDrillAt(id, { ...never, openedAt: start }, periodMs, start)
      const due = nextDrillAt(id, { askedAt: answeredAt, answeredAt, openedAt: start }, periodMs, answeredAt)
      const openedAt = answeredAt + awayMs
      const next = nextDrillAt(id, { askedAt: answeredAt, answeredAt, openedAt }, periodMs, openedAt)
      if (openedAt < due) expect(next).toBe(due)
      else {
        expect(next).toBeGreaterThanOrEqual(openedAt)
        expect(next).toBeLessThan(openedAt + catchUpMs)
      }
    }),
  )
})

it('repeats an unanswered drill after an hour, and ignores stored times that are in the future', () => {
  fc.assert(
    fc.property(ids, periods, (id, periodMs) => {
      const unanswered = { askedAt: start, answeredAt: null, openedAt: start - hourMs }
      expect(nextDrillAt(id, unanswered, periodMs, start)).toBe(start + retryDrillMs)
      const future = { askedAt: start + 400 * dayMs, answeredAt: start + 400 * dayMs, openedAt: start }
      expect(nextDrillAt(id, future, periodMs, start)).toBeLessThan(start + catchUpMs)
    }),
  )
})

it('spreads the drills of a fleet evenly over the day and over the ten minutes after a restart', () => {
  const agents = 10_000
  fc.assert(
    fc.property(fc.stringMatching(/^[a-z]{1,8}-$/), (prefix) => {
      const inHour = new Array<number>(24).fill(0)
      const inMinute = new Array<number>(10).fill(0)
      for (let n = 0; n < agents; n++) {
        const id = `${prefix}${n}`
        const first = nextDrillAt(id, { ...never, openedAt: start }, dayMs, start)
        inMinute[Math.floor((first - start) / minuteMs)]! += 1
        const next = nextDrillAt(id, { askedAt: first, answeredAt: first, openedAt: start }, dayMs, first)
        inHour[Math.floor((next % dayMs) / hourMs)]! += 1
      }
      // Chi-square with 23 and 9 degrees of freedom: an even spread exceeds these bounds once in a million.
      const chiSquare = (counts: number[]) => {
        const expected = agents / counts.length
        return counts.reduce((sum, count) => sum + (count - expected) ** 2 / expected, 0)
      }
      expect(chiSquare(inHour)).toBeLessThan(70)
      expect(chiSquare(inMinute)).toBeLessThan(45)
    }),
    { numRuns: 20 },
  )
})

// --- Tests with a service

const beat = (service: TestService, id: string) =>
  service.call('POST', '/api/heartbeat', { body: { instance_id: id, name: id } })
const events = async (service: TestService, type: string) =>
  (
    await service.call<{ events: { instance_id: string; severity: string; description: string }[] }>(
      'GET',
      `/api/events?event_type=${type}&limit=1000`,
    )
  ).body.events
const understanding = '?understands=drill'
type Stream = Awaited<ReturnType<typeof openControlStream>>
const drillsOf = (stream: Stream) => stream.messages().filter(({ action }) => action === 'drill')

async function advance(service: TestService, ms: number, beating: readonly string[]): Promise<void> {
  service.clock.advance(ms)
  for (const id of beating) await beat(service, id)
  await service.services.drillSender.askScheduled()
  await warnOfOverdue(service.deps, service.services)
}

it('drills an agent once a day on schedule, and again an hour later when it does not answer', async () => {
  await using service = await openTestService()
  const url = await listenOnFreePort(service.app)
  await beat(service, 'agent-1')
  await using stream = await openControlStream(url, 'agent-1', understanding)
  await advance(service, 0, [])
  await advance(service, catchUpMs, ['agent-1'])
  await expect.poll(() => drillsOf(stream).length).toBe(1)
  for (let count = 0; count < 5; count++) await advance(service, 10 * minuteMs, ['agent-1'])
  expect(drillsOf(stream)).toHaveLength(1)
  await advance(service, 10 * minuteMs, ['agent-1'])
  await expect.poll(() => drillsOf(stream).length).toBe(2)
  const answer = () =>
    service.call('POST', '/api/instances/agent-1/drill', { body: { nonce: drillsOf(stream).at(-1)!.nonce } })
  expect((await answer()).status).toBe(200)
  for (let asked = 3; asked < 6; asked++) {
    for (let hour = 0; hour < 24; hour++) {
      await advance(service, hourMs, ['agent-1'])
      // The drill may still be on its way over the stream.
      await expect
        .poll(async () => {
          await answer()
          return service.rows('select nonce from drill_asks where answered_at is null')
        })
        .toEqual([])
    }
    // The first day is shorter, because the second drill is at the agent's own time of day.
    expect(drillsOf(stream).length).toBeLessThanOrEqual(asked)
  }
  expect(drillsOf(stream).length).toBeGreaterThanOrEqual(5)
  expect(await events(service, 'drill_overdue')).toEqual([])
})

it('reports a supervisor that answers none of two daily drills in a row beside its agent, once', async () => {
  await using service = await openTestService()
  const url = await listenOnFreePort(service.app)
  const body = { scope: 'agent', instances: ['held'], supervises: true }
  const { key } = (await service.call<KeyCreated>('POST', '/api/keys', { body })).body
  const superviseBy = (by: string | undefined) =>
    service.call('POST', '/api/heartbeat', {
      ...{ key: by, body: { instance_id: 'held', name: 'held', supervisor: { processes: 2, isolated: true } } },
    })
  await superviseBy(key)
  await using stream = await openControlStream(url, 'held', understanding)
  /** Runs a day, in which the agent answers, and its supervisor as well if it gives `supervisor`. */
  const day = async (supervisor?: { processes: number; unreachable: number }) => {
    const asked = drillsOf(stream).length
    let askedAt = 0
    while (askedAt !== service.clock.now()) {
      service.clock.advance(hourMs)
      await superviseBy(key)
      await service.services.drillSender.askScheduled()
      askedAt = (await service.rows<{ asked_at: number }>('select asked_at from drill_asks'))[0]?.asked_at ?? 0
    }
    await expect.poll(() => drillsOf(stream).length).toBe(asked + 1)
    const { nonce } = drillsOf(stream).at(-1)!
    await service.call('POST', '/api/instances/held/drill', { body: { nonce } })
    if (supervisor) await service.call('POST', '/api/instances/held/drill', { key, body: { nonce, supervisor } })
    await service.services.countedReports.run()
    await service.services.ingest.whenIdle()
    return [await events(service, 'supervisor_silent'), await events(service, 'supervisor_incomplete')] as const
  }
  await service.services.drillSender.askScheduled()
  const reach = { processes: 2, unreachable: 0 }
  for (const supervisor of [reach, undefined, reach, undefined]) expect(await day(supervisor)).toEqual([[], []])
  expect(await day()).toEqual([[], []])
  const [silent] = await day()
  expect(silent).toEqual([expect.objectContaining({ severity: 'warning', instance_id: 'held' })])
  expect((await day())[0]).toHaveLength(1)
  expect((await day({ processes: 3, unreachable: 1 }))[1]).toEqual([
    expect.objectContaining({
      ...{ severity: 'warning', instance_id: 'held' },
      description: 'In a drill its supervisor could not reach 1 of 3 processes',
    }),
  ])
})

it('sends no scheduled drills when WARDLINE_DRILLS is off', async () => {
  await using service = await openTestService({ env: { WARDLINE_DRILLS: 'off' } })
  const url = await listenOnFreePort(service.app)
  await beat(service, 'agent-1')
  await using stream = await openControlStream(url, 'agent-1', understanding)
  for (let day = 0; day < 5; day++) await advance(service, dayMs, ['agent-1'])
  expect(drillsOf(stream)).toEqual([])
  expect(await events(service, 'drill_overdue')).toEqual([])
})

it('warns once a day about an online agent that has not answered for three days', async () => {
  await using service = await openTestService()
  const url = await listenOnFreePort(service.app)
  for (const id of ['mute', 'plain', 'away']) await beat(service, id)
  await using _mute = await openControlStream(url, 'mute', understanding)
  await using _plain = await openControlStream(url, 'plain')
  await using _away = await openControlStream(url, 'away', understanding)
  const online = ['mute', 'plain']
  await advance(service, 0, online)
  for (let hour = 0; hour < 72; hour++) await advance(service, hourMs, online)
  expect(await events(service, 'drill_overdue')).toEqual([])
  for (let hour = 0; hour < 4; hour++) await advance(service, hourMs, online)
  expect(await events(service, 'drill_overdue')).toEqual([
    expect.objectContaining({
      severity: 'warning',
      instance_id: 'mute',
      description: expect.stringContaining('Did not answer a drill for 3 days'),
    }),
  ])
  for (let hour = 0; hour < 48; hour++) await advance(service, hourMs, online)
  expect(await events(service, 'drill_overdue')).toHaveLength(3)
  // An agent that comes back after days gets time to answer before a warning.
  for (let minute = 0; minute < 60; minute += 15) await advance(service, 15 * minuteMs, [...online, 'away'])
  expect((await events(service, 'drill_overdue')).map(({ instance_id }) => instance_id)).not.toContain('away')
})

it('names 20 agents and counts the others when a whole fleet does not answer', async () => {
  await using service = await openTestService()
  const fleet = Array.from({ length: 250 }, (_, n) => `agent-${n}`)
  await Promise.all(fleet.map((id) => beat(service, id)))
  await service.execute(`update instances set drills_since = ${service.clock.now() - 4 * dayMs}`)
  const warn = async (ms: number) => {
    service.clock.advance(ms)
    await Promise.all(fleet.map((id) => beat(service, id)))
    await warnOfOverdue(service.deps, service.services)
  }
  await warn(minuteMs)
  await warn(2 * hourMs)
  expect(await events(service, 'drill_overdue')).toHaveLength(20)
  const summaries = await events(service, 'drills_overdue')
  expect(summaries.map(({ description }) => description)).toEqual([
    '230 more instances did not answer a drill for days',
  ])
  await warn(hourMs)
  expect(await events(service, 'drills_overdue')).toHaveLength(1)
})

describe('an alert about unanswered drills', () => {
  const statuses = (service: TestService, type: string) =>
    service.rows<{ instance_id: string | null; status: string }>(
      `select instance_id, status from alerts where event_type = '${type}' order by instance_id`,
    )
  const withChannel = { ALERT_WEBHOOK_URL: 'https://alerts.invalid/' }

  it('is resolved by the next answer of its agent, not by one of another agent', async () => {
    await using service = await openTestService({ env: withChannel })
    const url = await listenOnFreePort(service.app)
    for (const id of ['first', 'second']) await beat(service, id)
    await using first = await openControlStream(url, 'first', understanding)
    await using _second = await openControlStream(url, 'second', understanding)
    const both = ['first', 'second']
    await advance(service, 0, both)
    for (let hour = 0; hour < 76; hour++) await advance(service, hourMs, both)
    const open = both.map((instance_id) => ({ instance_id, status: 'open' }))
    expect(await statuses(service, 'drill_overdue')).toEqual(open)
    await advance(service, hourMs, both)
    expect(await statuses(service, 'drill_overdue')).toEqual(open)
    const asked = drillsOf(first).length
    await service.call('POST', '/api/drills', { body: { selector: { instances: ['first'] } } })
    await service.services.openStreams.write()
    await service.services.drillSender.ask()
    await expect.poll(() => drillsOf(first).length).toBeGreaterThan(asked)
    const { nonce } = drillsOf(first).at(-1)!
    expect((await service.call('POST', '/api/instances/first/drill', { body: { nonce } })).status).toBe(200)
    await advance(service, minuteMs, both)
    expect(await statuses(service, 'drill_overdue')).toEqual([{ instance_id: 'first', status: 'resolved' }, open[1]])
    expect(await events(service, 'drill_answered')).toEqual([
      expect.objectContaining({ severity: 'info', instance_id: 'first' }),
    ])
    await advance(service, minuteMs, both)
    expect(await events(service, 'drill_answered')).toHaveLength(1)
  })

  it('that counts several agents is resolved with the answer of the last one', async () => {
    await using service = await openTestService({ env: withChannel })
    const fleet = Array.from({ length: 230 }, (_, n) => `agent-${n}`)
    await Promise.all(fleet.map((id) => beat(service, id)))
    await service.execute(`update instances set drills_since = ${service.clock.now() - 4 * dayMs}`)
    const turn = async (ms: number) => {
      service.clock.advance(ms)
      await Promise.all(fleet.map((id) => beat(service, id)))
      await warnOfOverdue(service.deps, service.services)
    }
    await turn(minuteMs)
    await turn(2 * hourMs)
    const named = (await events(service, 'drill_overdue')).map(({ instance_id }) => instance_id)
    expect(named).toHaveLength(20)
    const whole = { instance_id: null, status: 'open' }
    expect(await statuses(service, 'drills_overdue')).toEqual([whole])
    const last = fleet.find((id) => !named.includes(id))!
    service.clock.advance(1_000)
    await service.execute(`update instances set last_proven_at = ${service.clock.now()} where id <> '${last}'`)
    await turn(minuteMs)
    expect(new Set((await statuses(service, 'drill_overdue')).map(({ status }) => status))).toEqual(
      new Set(['resolved']),
    )
    expect(await events(service, 'drill_answered')).toHaveLength(20)
    expect(await statuses(service, 'drills_overdue')).toEqual([whole])
    await service.execute(`update instances set last_proven_at = ${service.clock.now()} where id = '${last}'`)
    await turn(minuteMs)
    expect(await statuses(service, 'drills_overdue')).toEqual([{ ...whole, status: 'resolved' }])
    expect(await events(service, 'drills_answered')).toHaveLength(1)
  })
})
