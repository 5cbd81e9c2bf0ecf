import {
  type EventFacets,
  type EventHistogram,
  type EventList,
  severities,
  type ToolHistogram,
} from '@wardline/contract'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { dayMs, hourMs, minuteMs } from '../../clock.ts'
import { openTestService, type TestService } from '../../testing/service.ts'
import { bucketsOf } from './aggregates.ts'
import { indexEvents } from './event-index.ts'

let service: TestService
afterAll(() => service?.[Symbol.asyncDispose]())

const pick = <Value>(values: readonly Value[], index: number) => values[index % values.length]!
const histogram = async (query: string) =>
  (await service.call<EventHistogram>('GET', `/api/events/histogram?${query}`)).body
const facets = async (query: string) => (await service.call<EventFacets>('GET', `/api/events/facets?${query}`)).body
const total = ({ buckets }: EventHistogram) =>
  buckets.reduce((sum, bucket) => sum + severities.reduce((of, name) => of + bucket[name], 0), 0)

describe('buckets', () => {
  const noon = Date.UTC(2026, 0, 15, 12)

  it.each([
    [hourMs, 60, minuteMs, 60],
    [hourMs, 61, minuteMs, 60],
    [dayMs, 60, 30 * minuteMs, 48],
    [7 * dayMs, 60, 3 * hourMs, 56],
    [dayMs, 500, 5 * minuteMs, 288],
    [400 * dayMs, 500, dayMs, 401],
    [10, 60, minuteMs, 1],
  ])('split %d ms into at most %d buckets of %d ms', (range, max, widthMs, count) => {
    expect(bucketsOf({ from: noon - range, to: noon }, max, minuteMs)).toMatchObject({ widthMs })
    expect(bucketsOf({ from: noon - range, to: noon }, max, minuteMs).count).toBe(count)
  })

  it('start at whole units and cover the whole range, however long', () => {
    expect(bucketsOf({ from: noon + 7, to: noon + hourMs + 7 }, 60, minuteMs)).toEqual({
      from: noon,
      to: noon + 61 * minuteMs,
      widthMs: minuteMs,
      count: 61,
    })
    for (const max of [1, 7, 500]) {
      const { from, to, widthMs, count } = bucketsOf({ from: 0, to: noon }, max, hourMs)
      expect(from).toBe(0)
      expect(to).toBe(count * widthMs)
      expect(to).toBeGreaterThanOrEqual(noon)
      expect(count).toBeLessThanOrEqual(max + 1)
    }
  })
})

describe('histogram and facets of events', () => {
  interface Stored {
    at: number
    severity: (typeof severities)[number]
    event_type: string
    source: string
    instance_id: string | undefined
  }
  const stored: Stored[] = []

  beforeAll(async () => {
    service = await openTestService()
    for (let index = 0; index < 200; index++) {
      service.clock.advance(pick([0, 7, 59_999, 60_001, 600_000], index * 3))
      const report = {
        severity: pick(severities, index * 7),
        source: pick(['probe', 'gateway', 'gateway'], index),
        event_type: pick(['tool_call', 'note', 'note', 'egress_blocked'], index),
        instance_id: pick(['agent-1', 'agent-2', undefined], index),
      }
      stored.push({ at: service.clock.now(), ...report })
      const answer = await service.call('POST', '/api/events', { body: { ...report, description: `event ${index}` } })
      expect(answer.status).toBe(201)
      // The last events are not in the index yet.
      if (index === 150) await indexEvents(service.deps.database)
    }
  })

  const expected = ({ from, bucket_seconds, buckets }: EventHistogram, holds: (event: Stored) => boolean) => {
    const counts = buckets.map(() => ({ critical: 0, warning: 0, info: 0, breach: 0 }))
    for (const event of stored.filter(holds)) {
      const bucket = Math.floor((event.at - Date.parse(from)) / (bucket_seconds * 1_000))
      const counted = counts[bucket]
      if (counted) counted[event.severity]++
    }
    return counts
  }

  it.each<[string, (event: Stored) => boolean, 'counts' | 'events']>([
    ['', () => true, 'counts'],
    ['severity=warning', ({ severity }) => severity === 'warning', 'counts'],
    ['exclude_type=nothing', () => true, 'events'],
    ['severity=breach&exclude_type=nothing', ({ severity }) => severity === 'breach', 'events'],
    ['instance_id=agent-1', ({ instance_id }) => instance_id === 'agent-1', 'events'],
    ['event_type=egress_blocked', ({ event_type }) => event_type === 'egress_blocked', 'events'],
    ['event_type=tool_call', ({ event_type }) => event_type === 'tool_call', 'events'],
    [
      'q=GATE&instance_id=agent-2',
      ({ source, instance_id }) => source === 'gateway' && instance_id === 'agent-2',
      'events',
    ],
  ])('the histogram counts the events that match %o per bucket', async (filter, holds, basis) => {
    for (const more of ['', '&buckets=1', '&buckets=500', '&buckets=20']) {
      const shown = await histogram(`${filter}${more}`)
      expect(shown).toMatchObject({ basis, complete: true, scanned_to: null })
      expect(shown.buckets).toEqual(expected(shown, holds))
      expect(total(shown)).toBe(stored.filter(holds).length)
    }
  })

  it('the histogram counts only events in the range', async () => {
    const [from, to] = [stored[40]!.at, stored[160]!.at]
    const range = `from=${new Date(from).toISOString()}&to=${new Date(to).toISOString()}`
    for (const filter of ['', '&exclude_type=nothing', '&instance_id=agent-2']) {
      const shown = await histogram(`${range}&buckets=24${filter}`)
      const width = shown.bucket_seconds * 1_000
      expect(Date.parse(shown.from)).toBeLessThanOrEqual(from)
      expect(Date.parse(shown.from)).toBeGreaterThan(from - width)
      const isMatch = ({ instance_id }: Stored) => !filter.includes('agent') || instance_id === 'agent-2'
      expect(shown.buckets).toEqual(expected(shown, isMatch))
    }
  })

  it('facets count events by severity, type, source and instance, most frequent first', async () => {
    const count = (of: Stored[], field: 'severity' | 'event_type' | 'source' | 'instance_id') => {
      const counts = new Map<string, number>()
      for (const event of of) {
        const value = event[field]
        if (value !== undefined) counts.set(value, (counts.get(value) ?? 0) + 1)
      }
      return [...counts]
        .map(([value, number]) => ({ value, count: number }))
        .sort((a, b) => b.count - a.count || (a.value < b.value ? -1 : 1))
    }
    const filters: [string, (event: Stored) => boolean][] = [
      ['', () => true],
      ['instance_id=agent-1', ({ instance_id }) => instance_id === 'agent-1'],
      ['severity=critical', ({ severity }) => severity === 'critical'],
      ['event_type=note&q=gate', ({ event_type, source }) => event_type === 'note' && source === 'gateway'],
      ['session_id=none', () => false],
    ]
    for (const [filter, holds] of filters) {
      const of = stored.filter(holds)
      expect(await facets(filter)).toEqual({
        total: of.length,
        severity: count(of, 'severity'),
        event_type: count(of, 'event_type'),
        source: count(of, 'source'),
        instance_id: count(of, 'instance_id'),
        complete: true,
        scanned_to: null,
      })
    }
  })

  it.each([
    ['histogram?buckets=0', 'buckets must be from 1 to 500.'],
    ['histogram?buckets=501', 'buckets must be from 1 to 500.'],
    ['histogram?buckets=x', 'buckets must be from 1 to 500.'],
    ['histogram?from=2026-01-02T00:00:00Z&to=2026-01-02T00:00:00Z', 'from must be before to.'],
    ['histogram?from=2026-13-02T00:00:00Z', 'from must be an ISO 8601 instant.'],
    ['facets?severity=bad', 'severity must be info, warning, critical, or breach.'],
  ])('reject %s', async (path, sentence) => {
    const { status, body } = await service.call<{ error: string }>('GET', `/api/events/${path}`)
    expect([status, body.error]).toEqual([400, sentence])
  })
})

// Otherwise every dashboard refresh by a viewer could read a year of events.
describe('reads of more events than the limit', () => {
  /** One more than is read without an index. */
  const count = 100_001
  let first: string

  beforeAll(async () => {
    first = new Date(service.clock.now() + hourMs).toISOString()
    service.clock.advance(hourMs)
    await service.call('POST', '/api/events', {
      body: { severity: 'info', source: 'bulk', event_type: 'bulk', description: 'x', instance_id: 'agent-9' },
    })
    await indexEvents(service.deps.database)
    const [row] = await service.rows<{ seq: number }>('select max(seq) as seq from events')
    const seq = Number(row!.seq)
    service.clock.advance(minuteMs)
    const now = service.clock.now()
    const minute = now - (now % minuteMs)
    await service.deps.database.prepareDays(now)
    await service.execute(`
      insert into events (seq, created_at, severity, class, source, event_type, instance_id, id, description, by_service)
        select ${seq} + n, ${now}, 'info', 'none', 'bulk', 'bulk', 'agent-9', '00000000-0000-4000-8000-' || substr('000000000000' || n, length('' || n) + 1), 'x', 0
        from (with recursive more(n) as (select 1 union all select n + 1 from more where n < ${count}) select n from more) as m;
      insert into event_minutes (minute, first_seq, last_seq) values (${minute}, ${seq + 1}, ${seq + count});
      update counters set value = ${seq + count} where name = 'event_seq'`)
  })

  const looks = async (filter: string) => {
    const shown = await histogram(`from=${first}&${filter}`)
    const of = await facets(`from=${first}&${filter}`)
    return { shown, of }
  }

  it('count only the newest events and return how far they read', async () => {
    const newest = new Date(service.clock.now()).toISOString()
    for (const filter of ['exclude_type=nothing', 'q=bulk', 'instance_id=agent-9', 'event_type=bulk']) {
      const { shown, of } = await looks(filter)
      expect([filter, shown.complete, shown.scanned_to, total(shown)]).toEqual([filter, false, newest, 100_000])
      expect([of.complete, of.scanned_to, of.total]).toEqual([false, newest, 100_000])
      expect(of.source).toEqual([{ value: 'bulk', count: 100_000 }])
    }
  })

  it('count indexed events only up to the read limit', async () => {
    await service.execute(`
      insert into event_refs (kind, value, seq)
        select 'instance', 'agent-9', seq from events where created_at = ${service.clock.now()} on conflict do nothing;
      update counters set value = (select max(seq) from events) where name = 'indexed_seq'`)
    const { shown, of } = await looks('instance_id=agent-9')
    expect([shown.complete, total(shown), of.complete, of.total]).toEqual([false, 20_000, false, 20_000])
    const one = await looks('instance_id=agent-1')
    expect([one.shown.complete, total(one.shown)]).toEqual([true, 0])
  })

  it('return the time that a search has reached when it fills no page', async () => {
    const list = async (query: string) => (await service.call<EventList>('GET', `/api/events?${query}`)).body
    const page = await list('q=nowhere')
    expect(page).toMatchObject({ events: [], next: expect.any(String) })
    expect(page.scanned_to).toBe(new Date(service.clock.now()).toISOString())
    const last = await list(`q=nowhere&before=${page.next}`)
    expect(last).toEqual({ events: [], next: null })
    expect(await list('q=bulk&limit=2')).not.toHaveProperty('scanned_to')
  })
})

it('counts tool calls by tool and time, and calls of unknown tools together', async () => {
  await using fresh = await openTestService()
  const call = (toolName: string) =>
    fresh.call('POST', '/api/events', {
      body: { severity: 'info', source: 'x', event_type: 'tool_call', description: 'x', metadata: { toolName } },
    })
  for (const tool of ['web-search', 'web-search', 'homemade', '"><b>']) expect((await call(tool)).status).toBe(201)
  fresh.clock.advance(10 * minuteMs)
  await call('shell-exec')
  const to = new Date(fresh.clock.now() + minuteMs).toISOString()
  const read = async (query: string) => (await fresh.call<ToolHistogram>('GET', `/api/events/tools?${query}`)).body
  const { tools, bucket_seconds } = await read(`to=${to}`)
  expect(bucket_seconds).toBe(1_800)
  expect(tools.map(({ tool, calls }) => [tool, calls.reduce((sum, count) => sum + count, 0)])).toEqual([
    ['web-search', 2],
    ['shell-exec', 1],
    ['other', 2],
  ])
  const from = new Date(fresh.clock.now() - 5 * minuteMs).toISOString()
  expect((await read(`from=${from}&to=${to}`)).tools.map(({ tool }) => tool)).toEqual(['shell-exec'])
  expect((await fresh.call('GET', `/api/events/tools?from=${to}&to=${from}`)).status).toBe(400)
})
