import type { EventBatchReply } from '@wardline/contract'
import { describe, expect, it } from 'vitest'
import { migrate } from '../../db/migrate.ts'
import { openTestDatabase, openTestService, type TestService } from '../../testing/service.ts'

const note = (n: number) => ({ severity: 'info', source: 'test', event_type: 'note', description: `n${n}` })
const metrics = (value: number) => ({
  severity: 'info',
  source: 'test',
  event_type: 'session_metrics',
  description: JSON.stringify({ calls: value }),
  instance_id: 'agent-1',
})
const broken = { severity: 'loud', source: 'test', event_type: 'note', description: 'no' }

async function send(service: TestService, key: string, events: unknown[], expected = 200) {
  const answer = await service.call<EventBatchReply & { error?: string }>('POST', '/api/events/batch', {
    body: events,
    headers: { 'idempotency-key': key },
  })
  expect(answer.status).toBe(expected)
  return answer.body
}
const count = async (service: TestService) =>
  (await service.rows<{ count: number }>('select count(*) as count from events'))[0]!.count

describe('Idempotency-Key of a batch', () => {
  it('returns the same ids and errors again, and stores nothing twice', async () => {
    await using service = await openTestService()
    const events = [note(1), broken, metrics(3), note(2)]
    const first = await send(service, 'a', events)
    expect(first.ids.map((id) => id !== null)).toEqual([true, false, true, true])
    expect(await send(service, 'a', events)).toEqual(first)
    expect(await count(service)).toBe(3)
    expect(await service.rows('select version from baselines')).toEqual([{ version: 1 }])
  })

  it('stores one batch for concurrent requests', async () => {
    await using service = await openTestService()
    const replies = await Promise.all(Array.from({ length: 10 }, () => send(service, 'twin', [note(1), note(2)])))
    expect(new Set(replies.map(({ ids }) => ids.join())).size).toBe(1)
    expect(await count(service)).toBe(2)
  })

  it('is rejected for a batch of another length', async () => {
    await using service = await openTestService()
    await send(service, 'a', [note(1)])
    expect((await send(service, 'a', [note(1), note(2)], 400)).error).toContain('Idempotency-Key was used before')
    expect(await count(service)).toBe(1)
  })

  it('is independent of the same key for a single event', async () => {
    await using service = await openTestService()
    await service.call('POST', '/api/events', { body: note(1), headers: { 'idempotency-key': 'a' } })
    await send(service, 'a', [note(2)])
    expect(await count(service)).toBe(2)
  })

  // Both keys once had the same stored name: the batch got the id of the event, and its own events were lost.
  it('never collides with the key of a concurrent single event, whatever the texts', async () => {
    await using service = await openTestService()
    const pairs = [
      ['batch y1', 'y1'],
      ['y2', 'batch y2'],
      ['y3', 'y3'],
      ['"batch","y4', 'y4'],
    ] as const
    for (const [index, [single, batch]] of pairs.entries()) {
      const [event, reply] = await Promise.all([
        service.call<{ id: string }>('POST', '/api/events', {
          body: note(index),
          headers: { 'idempotency-key': single },
        }),
        send(service, batch, [note(index + 100)]),
      ])
      expect(reply.ids).not.toContain(event.body.id)
    }
    expect(await count(service)).toBe(2 * pairs.length)
  })

  it('is recognised if it was stored before batch ids had a separate column', async () => {
    await using service = await openTestService()
    const events = [note(1), note(2)]
    const first = await send(service, 'a', events)
    expect(await service.rows('select event_id, batch_ids from idempotency_keys')).toEqual([
      { event_id: first.ids[0], batch_ids: JSON.stringify(first.ids) },
    ])
    await service.execute('update idempotency_keys set event_id = batch_ids, batch_ids = null')
    expect(await send(service, 'a', events)).toEqual(first)
    expect(await count(service)).toBe(2)
  })

  it('is kept by the migration that separates keys of events and batches', async () => {
    await using opened = await openTestDatabase()
    await migrate(opened.database, 1, 3)
    await opened.execute(`insert into idempotency_keys (caller, key, event_id, created_at) values
      ('k1', 'a', 'e1', 7), ('k1 batch', 'a', 'e2 e3', 8), ('k1', 'batch a', 'e4', 9)`)
    await migrate(opened.database, 2)
    expect(
      await opened.rows('select caller, kind, key, event_id, created_at from idempotency_keys order by created_at'),
    ).toEqual([
      { caller: 'k1', kind: 'event', key: 'a', event_id: 'e1', created_at: 7 },
      { caller: 'k1', kind: 'batch', key: 'a', event_id: '["e2","e3"]', created_at: 8 },
      { caller: 'k1', kind: 'event', key: 'batch a', event_id: 'e4', created_at: 9 },
    ])
  })

  // Each report must be judged after learning from the one before it, even within a batch.
  it('judges session metrics of a batch as if they were sent one by one', async () => {
    await using service = await openTestService()
    await send(service, 'a', [...Array.from({ length: 12 }, (_, n) => metrics(10 + (n % 3))), metrics(500)])
    const anomalies = await service.rows("select severity from events where event_type = 'anomaly_detected'")
    expect(anomalies).toEqual([{ severity: 'critical' }])
    expect(await service.rows('select version from baselines')).toEqual([{ version: 1 }])
  })
})
