import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { anonymous } from '../../http/route.ts'
import { openTestService, type TestService } from '../../testing/service.ts'
import { createEvents, type Judge } from './events.ts'
import type { EventToStore } from './ingest.ts'
import { ownEventToStore } from './new-event.ts'

const reporter = {
  principal: { ...anonymous, keyId: 'key-1', instances: null },
  address: null,
  idempotencyKey: undefined,
}
const note = { severity: 'info', source: 'test', event_type: 'note', description: 'x' } as const
const metrics = { ...note, event_type: 'session_metrics', description: '{"shell_exec_count":7}', instance_id: 'a' }

describe('events that a judge adds to a report', () => {
  let service: TestService
  let seen: EventToStore[]
  let charged: [string, number][]
  beforeAll(async () => {
    service = await openTestService()
  })
  afterAll(() => service[Symbol.asyncDispose]())
  beforeEach(() => {
    seen = []
    charged = []
  })

  const found = () =>
    ownEventToStore({ severity: 'warning', event_type: 'found', description: 'f' }, service.clock.now())
  const quotas = { takeEvents() {}, chargeEvents: (keyId: string, count: number) => void charged.push([keyId, count]) }
  const eventsWith = (judge: Judge) => createEvents(service.deps, { ...service.services, judge, quotas })
  const statement = (sql: string) => ({ ...service.deps.database.db.selectNoFrom([]).compile(), sql, parameters: [] })
  const stored = () =>
    service.rows<{ event_type: string; by_service: number }>('select event_type, by_service from events order by seq')

  it('are stored after the report and charged to the key', async () => {
    const events = eventsWith((given) => {
      seen.push(...given)
      return (store) => store({ events: [found()], statements: [statement(`delete from job_runs where name = 'x'`)] })
    })
    await events.report(metrics, reporter)
    expect(seen.map((event) => event.metrics)).toEqual([{ shell_exec_count: 7 }])
    expect((await stored()).slice(-2)).toEqual([
      { event_type: 'session_metrics', by_service: 0 },
      { event_type: 'found', by_service: 1 },
    ])
    expect(charged).toEqual([['key-1', 1]])
  })

  it('are stored or rolled back together with the report', async () => {
    const before = await stored()
    const events = eventsWith(() => (store) => store({ events: [found()], statements: [statement('no statement')] }))
    await expect(events.report(note, reporter)).rejects.toThrow()
    expect(await stored()).toEqual(before)
  })

  it('are not charged when the judge adds none', async () => {
    const events = eventsWith((given) => void seen.push(...given))
    const before = (await stored()).length
    await events.report(note, reporter)
    expect(seen).toMatchObject([{ event_type: 'note', metrics: undefined }])
    expect((await stored()).length).toBe(before + 1)
    expect(charged).toEqual([])
  })
})
