import { describe, expect, it } from 'vitest'
import { manualClock } from '../../testing/clock.ts'
import { openTestService, type TestService } from '../../testing/service.ts'
import { severityCounts } from './counts.ts'
import { indexEvents } from './event-index.ts'
import { eventToStore } from './new-event.ts'
import { forgetOldEvents } from './retention.ts'

const dayMs = 86_400_000
const keepDays = (days: number) => ({ env: { WARDLINE_RETENTION_DAYS: String(days) } })
/** So long ago that no database stores the events of that time by day: they are deleted row by row. */
const longAgoMs = 400 * dayMs

async function store({ services, clock }: TestService, count: number, description = 'old'): Promise<void> {
  const report = { severity: 'info' as const, source: 'test', event_type: 'note', description }
  await services.ingest.store(Array.from({ length: count }, () => eventToStore(report, null, clock.now())))
}

/** Indexes events first, like the jobs. */
async function forget({ deps }: TestService): Promise<void> {
  await indexEvents(deps.database)
  await forgetOldEvents(deps)
}

const left = (service: TestService) =>
  service.rows<{ description: string; count: number }>(
    'select description, count(*) as count from events group by description order by description',
  )

describe('forgetOldEvents', () => {
  it('removes only events older than the retention period, in any number of batches', async () => {
    // The last moment of a day and the first of the next, because databases that store events by day also delete by
    // day.
    const clock = manualClock(Date.UTC(2026, 0, 16) - 1)
    await using service = await openTestService({ ...keepDays(30), clock })
    await store(service, 1_700)
    clock.advance(1)
    await store(service, 3, 'young')
    clock.advance(30 * dayMs)
    await forget(service)
    expect(await left(service)).toEqual([{ description: 'young', count: 3 }])
    clock.advance(dayMs)
    await forget(service)
    expect(await left(service)).toEqual([])
  })

  it('continues in the next run after reaching the limit of one run', async () => {
    await using service = await openTestService(keepDays(1))
    service.clock.advance(-longAgoMs)
    await store(service, 1)
    // More events than one run removes, all with the same time.
    await service.execute(`insert into events (seq, created_at, severity, class, source, event_type, id, description, by_service)
        with recursive more(n) as (select 2 union all select n + 1 from more where n < 200600)
        select n, created_at, severity, class, source, event_type, id, description, by_service from more, events where seq = 1;
      update event_minutes set last_seq = 200600;
      update counters set value = 200600`)
    service.clock.advance(longAgoMs)
    await forget(service)
    expect(await left(service)).toEqual([{ description: 'old', count: 600 }])
    await forget(service)
    expect(await left(service)).toEqual([])
  })

  // One event stored while the clock was wrong must not keep the disk filling up for years.
  it('removes old events stored after an event with a future date', async () => {
    await using service = await openTestService(keepDays(1))
    service.clock.advance(400 * dayMs)
    await store(service, 1, 'of the future')
    service.clock.advance(-400 * dayMs)
    await store(service, 1_200)
    service.clock.advance(2 * dayMs)
    await forget(service)
    expect(await left(service)).toEqual([{ description: 'of the future', count: 1 }])
  })

  it('removes an event with its index entries', async () => {
    await using service = await openTestService(keepDays(1))
    await service.call('POST', '/api/events', {
      body: {
        severity: 'info',
        source: 's',
        event_type: 'note',
        description: 'd',
        instance_id: 'bot',
        session_id: 's1',
      },
    })
    await indexEvents(service.deps.database)
    expect(await service.rows('select kind from event_refs')).toHaveLength(3)
    service.clock.advance(2 * dayMs)
    await forget(service)
    expect(await service.rows('select kind from event_refs')).toEqual([])
    expect(await service.rows('select minute from event_minutes')).toEqual([])
  })

  it('keeps an old event until it is indexed, then removes it', async () => {
    await using service = await openTestService(keepDays(1))
    service.clock.advance(-longAgoMs)
    await store(service, 3)
    service.clock.advance(longAgoMs)
    await forgetOldEvents(service.deps)
    expect(await left(service)).toEqual([{ description: 'old', count: 3 }])
    await forget(service)
    expect(await left(service)).toEqual([])
  })

  it('keeps minute and hour counts longer than the events', async () => {
    await using service = await openTestService(keepDays(1))
    await store(service, 5)
    service.clock.advance(2 * dayMs)
    await forget(service)
    expect(await left(service)).toEqual([])
    expect(await service.rows('select unit, count from event_counts order by unit')).toEqual([
      { unit: 'hour', count: 5 },
      { unit: 'minute', count: 5 },
    ])
    service.clock.advance(41 * dayMs)
    await forget(service)
    expect(await service.rows('select unit, count from event_counts')).toEqual([{ unit: 'hour', count: 5 }])
    service.clock.advance(400 * dayMs)
    await forget(service)
    expect(await service.rows('select unit, count from event_counts')).toEqual([])
  })

  it('never lowers a count of the last day', async () => {
    await using service = await openTestService(keepDays(1))
    await store(service, 2)
    service.clock.advance(dayMs)
    await forget(service)
    expect(await severityCounts(service.deps.database.db, service.clock.now())).toMatchObject({ info: 2 })
  })

  it('keeps the list of events complete within the retention period', async () => {
    await using service = await openTestService(keepDays(1))
    await store(service, 2)
    service.clock.advance(20_000)
    await store(service, 2, 'young')
    service.clock.advance(dayMs - 10_000)
    await forget(service)
    const from = new Date(service.clock.now() - dayMs).toISOString()
    const { body } = await service.call<{ events: unknown[] }>('GET', `/api/events?from=${from}`)
    expect(body.events).toHaveLength(2)
  })
})
