import type { ProblemList } from '@wardline/contract'
import { expect, test } from 'vitest'
import { hourMs, startOf } from '../../clock.ts'
import { migrate } from '../../db/migrate.ts'
import { openTestDatabase, openTestService, type TestService } from '../../testing/service.ts'
import { indexEvents } from '../events/event-index.ts'
import type { ProblemCount } from '../events/problem-counts.ts'
import { forgetOldEvents } from '../events/retention.ts'
import { groupProblems } from './problems.ts'

interface Report {
  type?: string
  severity?: string
  about?: string | undefined
}

const event = ({ type = 'prompt_injection_detected', severity = 'critical', about }: Report) => ({
  severity,
  source: about ?? 'gateway',
  event_type: type,
  description: `what ${about ?? 'the gateway'} saw`,
  ...(about ? { instance_id: about } : {}),
})

async function report(service: TestService, ...reports: Report[]): Promise<void> {
  for (let from = 0; from < reports.length; from += 1_000) {
    const body = reports.slice(from, from + 1_000).map(event)
    const answer = await service.call<{ ok: boolean }>('POST', '/api/events/batch', { body })
    expect(answer.body.ok, answer.text).toBe(true)
  }
}

const problemsOf = async (service: TestService) => (await service.call<ProblemList>('GET', '/api/problems')).body

const agents = Array.from({ length: 1_667 }, (_, index) => `agent-${String(index).padStart(4, '0')}`)

test('counts a flood of 1,667 agents as one problem, beside what else happened', async () => {
  await using service = await openTestService()
  const start = service.clock.now()
  await report(service, { type: 'data_export', about: 'quiet-one' }, { type: 'proxy_down' })
  service.clock.advance(60_000)
  for (let round = 0; round < 10; round += 1) await report(service, ...agents.map((about) => ({ about })))
  service.clock.advance(3_600_000)
  await report(service, { about: agents[7] })
  const { problems, omitted, complete } = await problemsOf(service)
  expect([omitted, complete]).toEqual([0, true])
  const [flood, proxy, single, ...others] = problems
  expect(others).toEqual([])
  expect(flood).toMatchObject({
    severity: 'critical',
    by_service: false,
    event_type: 'prompt_injection_detected',
    types: 1,
    agents: 1_667,
    events: 16_671,
    first_at: new Date(start + 60_000).toISOString(),
    last_at: new Date(start + 3_660_000).toISOString(),
    source: agents[7],
    description: `what ${agents[7]} saw`,
    open_alert: null,
  })
  expect(flood?.instances.toSorted()).toEqual(agents)
  expect(flood?.instances[0]).toBe(agents[7])
  expect([proxy?.event_type, proxy?.agents, proxy?.instances, proxy?.events]).toEqual(['proxy_down', 0, [], 1])
  expect([single?.event_type, single?.instances, single?.events]).toEqual(['data_export', ['quiet-one'], 1])
})

test.each([0, 1, 2])('each event counts once, from its arrival on, while %i processes count', async (processes) => {
  await using service = await openTestService()
  const { database } = service.deps
  const types = ['data_export', 'proxy_down']
  for (let round = 1; round <= 3; round += 1) {
    const reports = Array.from({ length: 1_500 }, (_, index) => ({
      type: types[index % 2]!,
      about: `agent-${index % 3}`,
    }))
    await report(service, ...reports, { severity: 'breach', type: 'decoy_read' })
    await Promise.all(Array.from({ length: processes }, () => indexEvents(database)))
    const counts: Record<string, number> = {}
    for (const { event_type, events } of (await problemsOf(service)).problems) {
      counts[event_type] = (counts[event_type] ?? 0) + events
    }
    expect(counts).toEqual({ data_export: 750 * round, proxy_down: 750 * round, decoy_read: round })
  }
})

test('forgets a problem a day after its last event, and deletes its counts', async () => {
  await using service = await openTestService()
  await report(service, { about: 'a' }, { about: 'b' })
  service.clock.advance(23 * 3_600_000)
  await report(service, { about: 'b' })
  service.clock.advance(3_600_001)
  const { problems } = await problemsOf(service)
  expect(problems.map(({ instances, events }) => [instances, events])).toEqual([[['b'], 2]])
  service.clock.advance(3_600_000)
  await indexEvents(service.deps.database)
  await forgetOldEvents(service.deps)
  expect(await service.rows('select instance_id, count from problem_counts')).toEqual([{ instance_id: 'b', count: 1 }])
})

test('knows the problems of the day before an update', async () => {
  await using opened = await openTestDatabase()
  await migrate(opened.database, 1, 46)
  const at = Date.UTC(2026, 1, 3, 12)
  await opened.database.prepareDays(at)
  const seen = [
    [1, at - 30 * hourMs, 'breach', 'a'],
    [2, at - 2 * hourMs, 'breach', 'a'],
    [3, at, 'breach', 'a'],
    [4, at + 1, 'critical', null],
    [5, at + 2, 'breach', 'a'],
    [6, at + 3, 'info', 'a'],
  ] as const
  for (const [seq, created_at, severity, instance_id] of seen) {
    const row = { seq, created_at, severity, instance_id, class: 'none' as const, tool: null, source: 's' }
    const rest = { event_type: 'x', session_id: null, ip_address: null, observed_ip_address: null, metadata: null }
    const { db } = opened.database
    await db
      .insertInto('events')
      .values({ ...row, ...rest, id: `id-${seq}`, description: 'd', by_service: 0 })
      .execute()
    const minute = { minute: startOf(created_at, 60_000), first_seq: seq, last_seq: seq }
    await db
      .insertInto('event_minutes')
      .values(minute)
      .onConflict((conflict) => conflict.column('minute').doUpdateSet({ last_seq: seq }))
      .execute()
  }
  await migrate(opened.database, 2)
  const columns = 'severity, hour, event_type, instance_id, count, first_at, last_at, last_seq'
  const hour = (severity: string, start: number, rest: object) => ({ severity, hour: start, event_type: 'x', ...rest })
  expect(await opened.rows(`select ${columns} from problem_counts order by last_seq`)).toEqual([
    hour('breach', at - 2 * hourMs, {
      instance_id: 'a',
      count: 1,
      first_at: at - 2 * hourMs,
      last_at: at - 2 * hourMs,
      last_seq: 2,
    }),
    hour('critical', at, { instance_id: '', count: 1, first_at: at + 1, last_at: at + 1, last_seq: 4 }),
    hour('breach', at, { instance_id: 'a', count: 2, first_at: at, last_at: at + 2, last_seq: 5 }),
  ])
})

test('leaves out what was acknowledged until it happens again', async () => {
  await using service = await openTestService()
  const channel = { name: 'hook', type: 'webhook', settings: { url: 'https://receiver.example/' } }
  expect((await service.call('POST', '/api/alert-channels', { body: channel })).status).toBe(201)
  await report(service, { about: 'a' }, { about: 'a' }, { about: 'b' })
  const [b, a] = (await problemsOf(service)).problems
  expect([a?.instances, b?.instances]).toEqual([['a'], ['b']])
  service.clock.advance(1_000)
  const acknowledge = async (problem: typeof a) => {
    const body = { status: 'acknowledged', whole_group: true }
    expect((await service.call('PATCH', `/api/alerts/${problem?.open_alert}`, { body })).status).toBe(200)
  }
  await acknowledge(a)
  expect((await problemsOf(service)).problems.map(({ instances }) => instances)).toEqual([['b']])
  service.clock.advance(1_000)
  await report(service, { about: 'a' })
  expect((await problemsOf(service)).problems.map(({ instances }) => instances)).toEqual([['a'], ['b']])
})

// An attacker can give each event another type, and one agent must not push the others out of the list.
test('is one problem where one agent reports many types, after what the service itself reports', () => {
  const count = (fields: Partial<ProblemCount>, seq: number): ProblemCount => ({
    by_service: 0,
    severity: 'critical',
    event_type: 'x',
    instance_id: 'a',
    count: 1,
    first_at: 0,
    last_at: seq,
    last_seq: seq,
    ...fields,
  })
  const invented = Array.from({ length: 3_000 }, (_, index) => count({ event_type: `t${index}` }, 10 + index))
  const groups = groupProblems([
    count({ instance_id: 'b' }, 9_000),
    ...invented,
    count({ by_service: 1, event_type: 'control_version_mismatch', instance_id: 'c' }, 1),
    count({ severity: 'breach', instance_id: 'd' }, 2),
    ...['e', 'f', 'g', 'h'].map((instance_id, index) => count({ event_type: 'y', instance_id }, 3 + index)),
  ])
  expect(groups.map((group) => [group[0].instance_id, group[0].event_type, group.length])).toEqual([
    ['d', 'x', 1],
    ['c', 'control_version_mismatch', 1],
    ['b', 'x', 1],
    ['a', 't2999', 3_000],
    ['h', 'y', 4],
  ])
})

test('the list is bounded, and says how much it leaves out', async () => {
  await using service = await openTestService()
  await report(
    service,
    ...Array.from({ length: 240 }, (_, index) => ({ about: `one-${index}`, type: `type_${index}` })),
  )
  const { problems, omitted, complete } = await problemsOf(service)
  expect([problems.length, omitted, complete]).toEqual([100, 140, true])
  expect(problems[0]?.instances).toEqual(['one-239'])
})

// An attacker may give each report another agent and another type; that must not hide what the service detected.
test('counts the latest 20,000 of callers at most, and all of the service', async () => {
  await using service = await openTestService()
  const { body: decoy } = await service.call<{ key: string }>('POST', '/api/honeypots', {
    body: { instanceId: 'agent-1', type: 'api_key', keyType: 'openai' },
  })
  const check = { key: decoy.key, meta: { instance_id: 'agent-1' } }
  expect((await service.call('POST', '/api/honeypots/check/key', { body: check })).status).toBe(200)
  const invented = Array.from({ length: 21_000 }, (_, index) => ({
    severity: 'breach',
    type: `type_${index % 7}`,
    about: `invented-${index}`,
  }))
  await report(service, ...invented)
  await indexEvents(service.deps.database)
  const { problems, complete } = await problemsOf(service)
  expect(complete).toBe(false)
  expect(problems[0]).toMatchObject({ by_service: true, event_type: 'honeypot_triggered', events: 1 })
  expect(problems.slice(1).reduce((sum, { agents }) => sum + agents, 0)).toBe(20_000)
  // The ids of the whole answer are bounded too.
  expect(problems.reduce((sum, { instances }) => sum + instances.length, 0)).toBe(20_000)
})
