import { severities } from '@wardline/contract'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { isoTime } from '../../clock.ts'
import { openTestService, type TestService } from '../../testing/service.ts'
import { indexEvents } from './event-index.ts'
import { eventToStore } from './new-event.ts'

interface Row {
  id: string
  seq: number
  severity: string
  event_type: string
  instance_id: string | null
  session_id: string | null
  description: string
  source: string
  created_at: string
}
interface Page {
  events: Row[]
  next: string | null
}

/** Every row of the list, page by page. */
async function walk(service: TestService, query: Record<string, string>): Promise<Row[]> {
  const rows: Row[] = []
  let before: string | null = null
  for (;;) {
    const search = new URLSearchParams({ ...query, ...(before === null ? {} : { before }) })
    const { status, body } = await service.call<Page>('GET', `/api/events?${search}`)
    expect(status).toBe(200)
    rows.push(...body.events)
    if (body.next === null) return rows
    if (before !== null) expect(Number(body.next)).toBeLessThan(Number(before))
    before = body.next
  }
}

describe('the list of events', () => {
  let service: TestService
  let all: Row[]
  const moments: number[] = []

  beforeAll(async () => {
    service = await openTestService()
    const pick = <Value>(values: readonly Value[], index: number) => values[index % values.length]!
    for (let index = 0; index < 120; index++) {
      // Now and then the clock is set back.
      service.clock.advance(pick([0, 7, 59_999, 60_001, -90_000, 3_600_000], index))
      moments.push(service.clock.now())
      const instance = pick(['agent-1', 'agent-2', undefined], index)
      const session = pick(['s1', undefined, 's2', 's3'], index)
      const report = {
        severity: pick(severities, index * 7),
        source: pick(['probe', 'gateway'], index),
        event_type: pick(['tool_call', 'note', 'egress_blocked'], index * 3 + 1),
        description: `event ${index} ${pick(['100% sure', 'under_score', 'back\\slash', 'UPPER', 'plain'], index)}`,
        ...(instance ? { instance_id: instance } : {}),
        ...(session ? { session_id: session } : {}),
      }
      await service.services.ingest.store([eventToStore(report, null, service.clock.now())])
      // The newest third is found without the index.
      if (index === 80) await indexEvents(service.deps.database)
    }
    all = (await service.call<Page>('GET', '/api/events?limit=1000')).body.events
  })
  afterAll(() => service[Symbol.asyncDispose]())

  it('contains every event, newest first', () => {
    expect(all.map(({ seq }) => seq)).toEqual(Array.from({ length: 120 }, (_, index) => 120 - index))
  })

  it('returns each matching row exactly once over its pages, for every filter and every page size', async () => {
    const optional = <Value>(value: fc.Arbitrary<Value>) => fc.option(value, { nil: undefined, freq: 2 })
    const moment = fc.nat(119).chain((index) => fc.constantFrom(-1, 0, 1).map((ms) => isoTime(moments[index]! + ms)))
    const filters = fc.record({
      severity: optional(fc.constantFrom(...severities)),
      instance_id: optional(fc.constantFrom('agent-1', 'agent-2', 'agent-3')),
      session_id: optional(fc.constantFrom('s1', 's2')),
      event_type: optional(fc.constantFrom('tool_call', 'note', 'missing')),
      exclude_type: optional(fc.constantFrom('note', 'tool_call,egress_blocked', 'missing,note')),
      q: optional(fc.constantFrom('%', '_', '\\', 'upper', 'event 1', 'probe', 'NOTE', '100%')),
      from: optional(moment),
      to: optional(moment),
    })
    await fc.assert(
      fc.asyncProperty(filters, fc.constantFrom(1, 2, 7, 50, 120), async (filter, limit) => {
        const query = Object.fromEntries(Object.entries(filter).filter(([, value]) => value !== undefined))
        const { severity, instance_id, session_id, event_type, exclude_type, q, from, to } = filter
        const holds = (row: Row) => {
          const text = [row.description, row.source, row.event_type].map((part) => part.toLowerCase())
          return (
            (severity === undefined || row.severity === severity) &&
            (instance_id === undefined || row.instance_id === instance_id) &&
            (session_id === undefined || row.session_id === session_id) &&
            (event_type === undefined || row.event_type === event_type) &&
            !exclude_type?.split(',').includes(row.event_type) &&
            (q === undefined || text.some((part) => part.includes(q.toLowerCase()))) &&
            (from === undefined || row.created_at >= from) &&
            (to === undefined || row.created_at < to)
          )
        }
        const rows = await walk(service, { ...query, limit: String(limit) } as Record<string, string>)
        expect(rows).toEqual(all.filter(holds))
      }),
      { numRuns: 60 },
    )
  })

  // % and _ are SQL wildcards: a search for them must not match everything.
  it.each(['%', '100% s', '_', 'under_', 'underXscore', '\\', '%plain'])(
    'matches %s literally in a search',
    async (q) => {
      const rows = await walk(service, { q })
      const expected = all.filter(({ description, source, event_type }) =>
        [description, source, event_type].some((part) => part.includes(q)),
      )
      expect(rows).toEqual(expected)
    },
  )

  it.each([
    'limit=0',
    'limit=1001',
    'limit=ten',
    'limit=-1',
    'before=x',
    'severity=bad',
    'from=yesterday',
    'q=',
    'exclude_type=',
    'exclude_type=a,,b',
    'from=2026-13-45T00:00:00Z',
  ])('rejects %s with an error message', async (query) => {
    const { status, body } = await service.call<{ error: string }>('GET', `/api/events?${query}`)
    expect(status).toBe(400)
    expect(body.error).toContain(query.split('=')[0])
    expect(body.error).toMatch(/\.$/)
  })

  it('reads a bounded number of rows for a page without an index, and returns where to continue', async () => {
    await using large = await openTestService()
    await large.services.ingest.store([
      eventToStore(
        { severity: 'info', source: 'x', event_type: 'note', description: 'needle' },
        null,
        large.clock.now(),
      ),
    ])
    await large.execute(`insert into events (seq, created_at, severity, class, source, event_type, id, description, by_service)
        with recursive more(n) as (select 2 union all select n + 1 from more where n < 100050)
        select n, created_at, severity, class, source, event_type, id, 'hay', by_service from more, events where seq = 1;
      update event_minutes set last_seq = 100050;
      update counters set value = 100050`)
    const first = await large.call<Page>('GET', '/api/events?q=needle')
    expect(first.body).toEqual({ events: [], next: '51', scanned_to: isoTime(large.clock.now()) })
    const second = await large.call<Page>('GET', '/api/events?q=needle&before=51')
    expect(second.body.events.map(({ seq }) => seq)).toEqual([1])
    expect(second.body.next).toBeNull()
  })
})
