import { describe, expect, it } from 'vitest'
import { openTestService, type TestService } from '../../testing/service.ts'
import { lossWatch } from './lost-events.ts'

const report = async (service: TestService, count: number) => {
  for (let n = 0; n < count; n++) {
    const body = { severity: 'info', source: 's', event_type: 'note', description: `${n}` }
    expect((await service.call('POST', '/api/events', { body })).status).toBe(201)
  }
}

/** What is left after a standby was promoted that had received only the first events. */
const loseAfter = async (service: TestService, seq: number) => {
  await service.execute(`delete from events where seq > ${seq}`)
  await service.execute(`update counters set value = ${seq} where name = 'event_seq'`)
}

async function watch(service: TestService): Promise<string[]> {
  const ends: string[] = []
  await lossWatch({ ...service.deps, onFatal: ({ message }) => ends.push(message) }, service.services)()
  return ends
}

const reported = async (service: TestService) =>
  (await service.call<{ events: { metadata: object }[] }>('GET', '/api/events?event_type=events_lost')).body.events

describe('events that the database lost', () => {
  it('are reported once, and end the process that remembers them', async () => {
    await using service = await openTestService()
    await service.services.logFollower.open()
    expect(await watch(service)).toEqual([])
    await report(service, 5)
    expect(await watch(service)).toEqual([])
    await loseAfter(service, 3)
    if (!service.deps.database.isShared) {
      // A SQLite file is used by one process, and nobody replaces it below that.
      expect(await watch(service)).toEqual([])
      return
    }
    const [end, ...others] = await watch(service)
    expect(end).toContain('lost events that it had confirmed (event 5)')
    expect(others).toEqual([])
    expect(await reported(service)).toMatchObject([
      { severity: 'critical', metadata: { confirmed_seq: 5, stored_seq: 3 } },
    ])
    // Another process, which saw the same event last.
    const { ingest } = service.services
    const logFollower = { head: 5, unchecked: [{ seq: 5, id: '0190-other' }], checked: () => {} }
    await report(service, 3)
    const ends: string[] = []
    await lossWatch({ ...service.deps, onFatal: ({ message }) => ends.push(message) }, { logFollower, ingest })()
    expect(ends).toHaveLength(1)
    expect(await reported(service)).toHaveLength(1)
  })

  it('are noticed by a process that has seen no event since it started', async () => {
    await using service = await openTestService()
    if (!service.deps.database.isShared) return
    await report(service, 5)
    await service.services.logFollower.open()
    await loseAfter(service, 3)
    expect(await watch(service)).toHaveLength(1)
  })

  it('are noticed when new events have taken their numbers, and this process passed on later ones', async () => {
    await using service = await openTestService()
    if (!service.deps.database.isShared) return
    const { logFollower } = service.services
    await logFollower.open()
    await report(service, 5)
    await loseAfter(service, 3)
    // Those with the numbers of lost events are known already; the others follow them.
    await report(service, 4)
    expect(logFollower.head).toBe(7)
    expect(await watch(service)).toMatchObject([expect.stringContaining('(event 5)')])
  })

  it('are none that their age removed', async () => {
    await using service = await openTestService()
    await service.services.logFollower.open()
    await report(service, 5)
    await service.execute('delete from events')
    expect(await watch(service)).toEqual([])
  })
})
