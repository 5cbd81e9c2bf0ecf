import { describe, expect, test } from 'vitest'
import { listJobs } from '../../jobs.ts'
import { openTestService, type TestService } from '../../testing/service.ts'
import { indexEvents } from './event-index.ts'

interface Page {
  events: { seq: number }[]
}
interface Checked {
  checked: number
  missing: number
  next: number | null
}

const report = (n: number) => ({
  severity: 'info',
  source: 'index',
  event_type: n % 2 ? 'note' : 'tool_call',
  description: String(n),
  instance_id: 'agent-a',
  session_id: 'session-a',
  ...(n % 2 ? {} : { metadata: { toolName: 'shell-exec' } }),
})

/** Stores events and indexes them. */
async function store(service: TestService, count: number): Promise<void> {
  for (let first = 0; first < count; first += 1_000) {
    const body = Array.from({ length: Math.min(1_000, count - first) }, (_, n) => report(first + n))
    expect((await service.call('POST', '/api/events/batch', { body })).status).toBe(200)
  }
  await indexEvents(service.deps.database)
}

/** Removes the entries of events, as an interrupted index of an earlier version did. */
const lose = (service: TestService, first: number, last: number) =>
  service.execute(`delete from event_refs where seq >= ${first} and seq <= ${last}`)

const indexJob = (service: TestService) =>
  listJobs(service.deps, service.services).find(({ name }) => name === 'event-index')!

async function listed(service: TestService, filter: string): Promise<number[]> {
  const { body } = await service.call<Page>('GET', `/api/events?limit=1000&${filter}`)
  return body.events.map(({ seq }) => seq)
}

const countedRefs = async (service: TestService) =>
  (await service.rows<{ count: number }>('select count(*) as count from event_refs'))[0]!.count

const check = async (service: TestService, body: { before?: number } = {}) =>
  (await service.call<Checked>('POST', '/api/events/index/check', { body })).body

const repairs = async (service: TestService) =>
  /^wardline_event_index_repairs_total (\d+)$/m.exec((await service.call('GET', '/metrics')).text)?.[1]

describe('the check of the event index', () => {
  test('adds what is missing, once, and leaves the rest as it is', async () => {
    await using service = await openTestService()
    await store(service, 50)
    const complete = await countedRefs(service)
    await lose(service, 11, 30)
    expect(await listed(service, 'instance_id=agent-a')).toHaveLength(30)
    expect(await check(service)).toEqual({ checked: 50, missing: 20, next: null })
    expect(await countedRefs(service)).toBe(complete)
    const all = Array.from({ length: 50 }, (_, n) => 50 - n)
    expect(await listed(service, 'instance_id=agent-a')).toEqual(all)
    expect(await listed(service, 'session_id=session-a')).toEqual(all)
    expect(await listed(service, 'event_type=note')).toEqual(all.filter((seq) => seq % 2 === 0))
    expect(await check(service)).toEqual({ checked: 50, missing: 0, next: null })
    expect(await repairs(service)).toBe('20')
    expect(service.logged.filter((line) => line.includes('were missing in the index'))).toHaveLength(1)
  })

  test('leaves events that are not indexed yet to the index', async () => {
    await using service = await openTestService()
    await store(service, 5)
    await service.call('POST', '/api/events', { body: report(6) })
    expect(await check(service)).toEqual({ checked: 5, missing: 0, next: null })
    expect(await service.rows('select seq from event_refs where seq = 6')).toEqual([])
  })

  test('proceeds to older events by `next`, and ends at the oldest', async () => {
    await using service = await openTestService()
    await store(service, 12_000)
    await lose(service, 1, 3)
    await lose(service, 11_500, 11_500)
    expect(await check(service)).toEqual({ checked: 10_000, missing: 1, next: 2_001 })
    expect(await check(service, { before: 2_001 })).toEqual({ checked: 2_000, missing: 3, next: null })
    expect(await check(service, { before: 1 })).toEqual({ checked: 0, missing: 0, next: null })
  })

  test('of an empty log finds nothing', async () => {
    await using service = await openTestService()
    expect(await check(service)).toEqual({ checked: 0, missing: 0, next: null })
  })

  // Otherwise a key that may only read could make the service read its log and write all the time.
  test('is refused to a viewer, and names a wrong `before`', async () => {
    await using service = await openTestService()
    const { key } = await service.createKey('viewer')
    const path = '/api/events/index/check'
    expect((await service.call('POST', path, { key, body: {} })).status).toBe(403)
    const wrong = await service.call<{ error: string }>('POST', path, { body: { before: 0 } })
    expect(wrong.status).toBe(400)
    expect(wrong.body.error).toContain('before')
  })
})

describe('the job of the event index', () => {
  test('checks all events of a database once, newest first, because earlier versions left some out', async () => {
    await using service = await openTestService()
    await store(service, 12_500)
    await lose(service, 1, 2)
    await lose(service, 12_400, 12_400)
    const job = indexJob(service)
    await job.run()
    expect(await repairs(service)).toBe('1')
    for (let run = 1; run < 13; run++) await job.run()
    expect(await repairs(service)).toBe('3')

    // The next start checks the newest events only.
    await lose(service, 1, 2)
    await lose(service, 12_400, 12_400)
    const dataDir = service.deps.config.dataDir
    await using next = await openTestService({ dataDir })
    const again = indexJob(next)
    for (let run = 0; run < 15; run++) await again.run()
    expect(await repairs(next)).toBe('1')
  })

  // An outage may leave the result of the index's transaction unknown: no event may be missing from then on.
  test('checks the newest events again after a run that failed', async () => {
    await using service = await openTestService()
    const job = indexJob(service)
    await job.run()
    await store(service, 20)
    await lose(service, 15, 16)
    await job.run()
    expect(await repairs(service)).toBe('0')
    await service.call('POST', '/api/events', { body: report(21) })
    const allow = await service.refuse('insert', 'event_refs')
    await expect(job.run()).rejects.toThrow()
    await allow()
    await job.run()
    expect(await repairs(service)).toBe('2')
    expect(await listed(service, 'instance_id=agent-a')).toHaveLength(21)
  })
})
