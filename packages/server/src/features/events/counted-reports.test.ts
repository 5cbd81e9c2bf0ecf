import { describe, expect, test } from 'vitest'
import { openTestService, type TestService } from '../../testing/service.ts'
import { CountedReports } from './counted-reports.ts'

const noted = (instance: string) => (count: number) => ({
  severity: 'warning' as const,
  event_type: 'policy_violation',
  description: `Seen ${count} times.`,
  instance_id: instance,
})

async function descriptions(service: TestService): Promise<string[]> {
  await service.services.ingest.whenIdle()
  const { body } = await service.call<{ events: { description: string; source: string }[] }>('GET', '/api/events')
  expect(body.events.every(({ source }) => source === 'wardline')).toBe(true)
  return body.events.map(({ description }) => description).reverse()
}

describe('counted reports', () => {
  test('are stored at once, then once a minute with a count', async () => {
    await using service = await openTestService()
    const reports = new CountedReports(service.deps, service.services.ingest)
    for (let time = 0; time < 500; time++) reports.note({ kind: 'k', owner: 'a' }, noted('agent-a'))
    reports.note({ kind: 'k', owner: 'b' }, noted('agent-b'))
    expect(await descriptions(service)).toEqual(['Seen 1 times.', 'Seen 1 times.'])
    await reports.run()
    expect(await descriptions(service)).toHaveLength(2)
    service.clock.advance(60_000)
    await reports.run()
    expect(await descriptions(service)).toEqual(['Seen 1 times.', 'Seen 1 times.', 'Seen 499 times.'])
  })

  test('start over after a minute without an occurrence', async () => {
    await using service = await openTestService()
    const reports = new CountedReports(service.deps, service.services.ingest)
    reports.note({ kind: 'k', owner: 'a' }, noted('agent-a'))
    await descriptions(service)
    service.clock.advance(60_000)
    await reports.run()
    reports.note({ kind: 'k', owner: 'a' }, noted('agent-a'))
    expect(await descriptions(service)).toHaveLength(2)
  })

  // An attacker must not be able to hide occurrences by making the database fail.
  test('keep their count while the database is unavailable', async () => {
    await using service = await openTestService()
    const { ingest } = service.services
    let isAway = true
    const store: typeof ingest.store = (...call) => (isAway ? Promise.reject(new Error('away')) : ingest.store(...call))
    const reports = new CountedReports(service.deps, { own: ingest.own, store })
    for (let time = 0; time < 3; time++) reports.note({ kind: 'k', owner: 'a' }, noted('agent-a'))
    await Promise.resolve()
    isAway = false
    service.clock.advance(60_000)
    await reports.run()
    expect(await descriptions(service)).toEqual(['Seen 3 times.'])
  })

  test('lose no count on shutdown', async () => {
    await using service = await openTestService()
    const reports = new CountedReports(service.deps, service.services.ingest)
    for (let time = 0; time < 5; time++) reports.note({ kind: 'k', owner: 'a' }, noted('agent-a'))
    await reports.flush()
    expect(await descriptions(service)).toEqual(['Seen 1 times.', 'Seen 4 times.'])
  })

  /** Returns the stored reports, and the sum of the occurrences in them. */
  async function counted(service: TestService, reports: CountedReports) {
    await service.services.ingest.whenIdle()
    service.clock.advance(60_000)
    await reports.run()
    const rows = await service.rows<{ description: string; instance_id: string | null }>(
      'select description, instance_id from events order by seq',
    )
    const total = rows.reduce((sum, { description }) => sum + Number(/\d+/.exec(description)![0]), 0)
    return { rows, total }
  }

  // A key bound to a prefix can invent instances. Reports of other owners must still be stored, and all occurrences
  // counted.
  test('name 20 subjects per owner and kind, count the others together, and suppress no other owner', async () => {
    await using service = await openTestService()
    const reports = new CountedReports(service.deps, service.services.ingest)
    for (let index = 0; index < 3_000; index++) {
      reports.note({ kind: 'k', owner: 'a', name: `${index}` }, noted(`agent-${index}`))
    }
    reports.note({ kind: 'k', owner: 'b', name: '1' }, noted('other'))
    reports.note({ kind: 'other', owner: 'b' }, noted('other'))
    const { rows, total } = await counted(service, reports)
    expect(total).toBe(3_002)
    const names = rows.map(({ instance_id }) => instance_id)
    expect(names).toEqual([...Array.from({ length: 20 }, (_, index) => `agent-${index}`), null, 'other', 'other', null])
    expect(rows.at(-1)!.description).toBe('Seen 2979 times. (the latest of several reports counted together)')
  })

  test('are kept for a bounded number of owners per kind, and start over later', async () => {
    await using service = await openTestService()
    const reports = new CountedReports(service.deps, service.services.ingest)
    for (let index = 0; index < 1_500; index++) reports.note({ kind: 'k', owner: `${index}` }, noted('agent-a'))
    reports.note({ kind: 'other', owner: '1' }, noted('agent-b'))
    const { rows, total } = await counted(service, reports)
    expect(total).toBe(1_501)
    expect(rows).toHaveLength(1_003)
    expect(rows.filter(({ instance_id }) => instance_id === 'agent-b')).toHaveLength(1)
    service.clock.advance(60_000)
    await reports.run()
    reports.note({ kind: 'k', owner: '1400' }, noted('agent-c'))
    expect((await counted(service, reports)).rows.at(-1)).toEqual({
      description: 'Seen 1 times.',
      instance_id: 'agent-c',
    })
  })
})
