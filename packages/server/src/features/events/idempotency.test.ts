import { describe, expect, it } from 'vitest'
import { openTestService, type TestService } from '../../testing/service.ts'
import { forgetOldEvents } from './retention.ts'

const body = { severity: 'info', source: 'test', event_type: 'note', description: 'once', instance_id: 'agent-1' }

async function report(service: TestService, idempotencyKey: string, options: { key?: string; more?: object } = {}) {
  const answer = await service.call<{ id: string }>('POST', '/api/events', {
    body: { ...body, ...options.more },
    headers: { 'idempotency-key': idempotencyKey },
    ...(options.key ? { key: options.key } : {}),
  })
  expect(answer.status).toBe(201)
  return answer.body.id
}

const countRows = async (service: TestService) =>
  (await service.rows<{ count: number }>('select count(*) as count from events'))[0]!.count

describe('Idempotency-Key', () => {
  it('returns the same id again, and stores nothing twice', async () => {
    await using service = await openTestService()
    const id = await report(service, 'a')
    expect(await report(service, 'a')).toBe(id)
    expect(await report(service, 'a', { more: { description: 'another text' } })).toBe(id)
    expect(await report(service, 'b')).not.toBe(id)
    expect(await countRows(service)).toBe(2)
  })

  // One agent must not be able to swallow the reports of another by using its keys first.
  it('is separate for each caller', async () => {
    await using service = await openTestService()
    const [first, second] = [await service.createKey('agent'), await service.createKey('agent')]
    const ids = [
      await report(service, 'a', first),
      await report(service, 'a', second),
      await report(service, 'a', first),
    ]
    expect(ids[0]).toBe(ids[2])
    expect(ids[0]).not.toBe(ids[1])
    expect(await countRows(service)).toBe(2)
  })

  it('stores one row for concurrent requests', async () => {
    await using service = await openTestService()
    const ids = await Promise.all(Array.from({ length: 20 }, () => report(service, 'twin')))
    expect(new Set(ids).size).toBe(1)
    expect(await countRows(service)).toBe(1)
    expect(await service.rows('select id from events')).toEqual([{ id: ids[0] }])
  })

  it('leaves no gap in the sequence where a duplicate is dropped', async () => {
    await using service = await openTestService()
    await Promise.all(
      [...Array(10)].flatMap((_, index) => [report(service, `k${index}`), report(service, `k${index}`)]),
    )
    expect(await service.rows('select min(seq) as first, max(seq) as last, count(*) as count from events')).toEqual([
      { first: 1, last: 10, count: 10 },
    ])
    expect(await service.rows("select sum(count) as count from event_counts where unit = 'minute'")).toEqual([
      { count: 10 },
    ])
  })

  it('is forgotten after a day, and not before', async () => {
    await using service = await openTestService()
    const id = await report(service, 'a')
    service.clock.advance(86_400_000)
    await forgetOldEvents(service.deps)
    expect(await report(service, 'a')).toBe(id)
    service.clock.advance(1)
    await forgetOldEvents(service.deps)
    expect(await report(service, 'a')).not.toBe(id)
  })

  it('updates a baseline once, however often the same metrics are sent', async () => {
    await using service = await openTestService()
    const more = { event_type: 'session_metrics', description: '{"tool_calls_per_5min":4}' }
    for (let attempt = 0; attempt < 3; attempt++) await report(service, 'm', { more })
    expect(await service.rows('select version from baselines')).toEqual([{ version: 1 }])
  })

  it('must have 1 to 200 characters', async () => {
    await using service = await openTestService()
    for (const [given, status] of [
      ['', 400],
      ['x'.repeat(200), 201],
      ['x'.repeat(201), 400],
    ] as const) {
      const answer = await service.call('POST', '/api/events', { body, headers: { 'idempotency-key': given } })
      expect(answer.status).toBe(status)
    }
  })
})
