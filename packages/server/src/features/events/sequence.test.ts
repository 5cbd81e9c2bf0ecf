import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { openTestService } from '../../testing/service.ts'
import { parseEventRow } from './event-row.ts'
import { eventToStore } from './new-event.ts'

describe('the sequence of events', () => {
  it('has no gaps and no duplicates, and announces each event once, whatever requests store concurrently', async () => {
    await using service = await openTestService()
    const { services, deps, clock } = service
    const announced: number[] = []
    deps.bus.onEvents((rows) => announced.push(...rows.map(({ seq }) => seq)), parseEventRow)
    const event = (description: string) =>
      eventToStore({ severity: 'info', source: 'test', event_type: 'note', description }, null, clock.now())
    const ways = {
      one: () => services.ingest.store([event('one')]),
      many: () => services.ingest.store([event('many'), event('many')]),
      refused: () => services.ingest.store([{ ...event('refused'), severity: 'nonsense' as never }]).catch(() => {}),
      within: async () => {
        const publish = await deps.database.db
          .transaction()
          .execute((trx) => services.ingest.storeWithin(trx, [event('w')]))
        publish()
      },
      undone: () =>
        deps.database.db
          .transaction()
          .execute(async (trx) => {
            await services.ingest.storeWithin(trx, [event('undone')])
            throw new Error('undone')
          })
          .catch(() => {}),
    }
    const names = Object.keys(ways) as (keyof typeof ways)[]
    await fc.assert(
      fc.asyncProperty(fc.array(fc.constantFrom(...names), { maxLength: 30 }), async (chosen) => {
        await Promise.all(chosen.map((name) => ways[name]()))
        const [found] = await service.rows<{ count: number; last: number | null }>(
          'select count(*) as count, max(seq) as last from events',
        )
        expect(found!.last ?? 0).toBe(found!.count)
        expect(announced.toSorted((a, b) => a - b)).toEqual(
          Array.from({ length: found!.count }, (_, index) => index + 1),
        )
      }),
      { numRuns: 15 },
    )
    expect(
      await service.rows(`select distinct description from events where description in ('undone', 'refused')`),
    ).toEqual([])
  })

  it('follows the time of events while the clock runs forward', async () => {
    await using service = await openTestService()
    await Promise.all(
      Array.from({ length: 50 }, async (_, index) => {
        service.clock.advance(index % 3)
        await service.call('POST', '/api/events', {
          body: { severity: 'info', source: 's', event_type: 'note', description: String(index) },
        })
      }),
    )
    const times = await service.rows<{ created_at: number }>('select created_at from events order by seq')
    expect(times.map((row) => row.created_at)).toEqual(times.map((row) => row.created_at).toSorted((a, b) => a - b))
  })
})
