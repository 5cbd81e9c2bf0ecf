import fc from 'fast-check'
import { expect, it } from 'vitest'
import { roomsOf } from '../planning/grouping.ts'
import { FloodBound, summarize } from './floods.ts'

const minute = 60_000
const row = (instance_id: string, count: number) => ({
  minute: 0,
  by_service: 0 as const,
  instance_id,
  event_type: '',
  severity: 'critical' as const,
  count,
})
const countIn = (description: string) => Number(description.split(' ')[0]!.replaceAll(',', ''))

it('summaries are limited in number and length, and their counts are complete', () => {
  const rows = fc.array(
    fc.record({
      minute: fc.constantFrom(0, minute),
      by_service: fc.constantFrom(0 as const, 1 as const),
      instance_id: fc.constantFrom('', ...Array.from({ length: 200 }, (_, index) => `agent-${index}`)),
      event_type: fc.constantFrom('honeypot_triggered', 'instance_offline'),
      severity: fc.constantFrom('info' as const, 'warning' as const, 'critical' as const, 'breach' as const),
      count: fc.integer({ min: 1, max: 1_000_000 }),
    }),
    { maxLength: 300 },
  )
  fc.assert(
    fc.property(rows, (overflow) => {
      const written = summarize(overflow)
      const total = overflow.reduce((sum, { count }) => sum + count, 0)
      expect(written.reduce((sum, { description }) => sum + countIn(description), 0)).toBe(total)
      expect(written.length).toBeLessThanOrEqual(50 + 2 * 2 * 2 * 4)
      for (const { description } of written) expect(description.length).toBeLessThanOrEqual(1_000)
    }),
  )
})

it('the instances with the highest counts have separate summaries', () => {
  const rows = Array.from({ length: 60 }, (_, index) => row(`agent-${index}`, index + 1))
  const written = summarize(rows)
  expect(written[0]).toMatchObject({ instance_id: 'agent-59' })
  expect(written.at(-1)).toMatchObject({ instance_id: null, description: expect.stringContaining('of 10 other') })
})

// An attacker could invent instances until the limits of other instances are no longer counted separately.
it('invented instances do not cause alerts of the service itself to be counted as excess', () => {
  const bound = new FloodBound()
  const own = { severity: 'breach', event_type: 'honeypot_triggered', by_service: 1 } as const
  const reported = { severity: 'critical', event_type: 'x', by_service: 0 } as const
  for (let index = 0; index < 12_000; index++) {
    bound.beyond({ ...own, instance_id: `invented-${index}` }, 0)
    bound.beyond({ ...reported, instance_id: `invented-${index}` }, 0)
  }
  expect(bound.beyond({ ...own, instance_id: 'victim' }, 0)).toBeUndefined()
  // Of 12,000 instances 10,000 are counted separately, the others together.
  expect(bound.beyond({ ...reported, instance_id: 'another' }, 0)).toMatchObject({ instance_id: '' })
  expect(bound.beyond({ ...reported, instance_id: 'another' }, minute)).toBeUndefined()
})

it('the service has its full limit, and reports leave a quarter of the limit free', () => {
  expect(roomsOf(20, { own: 0, reported: 0 })).toMatchObject({
    own: { room: 20, urgentRoom: 40 },
    reported: { room: 15 },
  })
  expect(roomsOf(20, { own: 0, reported: 500 }).own).toEqual({ room: 20, urgentRoom: 40 })
  expect(roomsOf(20, { own: 12, reported: 3 }).reported.room).toBe(5)
  expect(roomsOf(1, { own: 0, reported: 0 }).reported.room).toBe(1)
})
