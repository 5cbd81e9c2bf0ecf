import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { EventFields } from '../../db/schema/events.ts'
import { storedEvent } from '../../testing/events.ts'
import { RecentEvents } from './recent-events.ts'

const row = (seq: number, bytes = 0) => storedEvent({ seq, metadata: bytes === 0 ? null : 'x'.repeat(bytes) })
const seqs = (rows: EventFields[] | undefined) => rows?.map(({ seq }) => seq)
const count = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, index) => from + index)

describe('RecentEvents', () => {
  it('returns the rows after a seq, or undefined when it does not have them all', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 1_000 }),
        fc.integer({ min: 1, max: 50 }),
        fc.nat(1_100),
        fc.nat(60),
        (first, rows, after, limit) => {
          const recent = new RecentEvents()
          for (const seq of count(first, first + rows - 1)) recent.add(row(seq))
          const last = first + rows - 1
          const expected = after + 1 < first ? undefined : count(after + 1, last).slice(0, limit)
          expect(seqs(recent.after(after, limit))).toEqual(expected)
        },
      ),
    )
  })

  it('returns undefined before the first row', () => {
    expect(new RecentEvents().after(0, 10)).toBeUndefined()
  })

  it('keeps the newest 10,000 rows without a gap, however many arrive', () => {
    const recent = new RecentEvents()
    for (const seq of count(1, 20_000)) {
      recent.add(row(seq))
      if (seq % 997 !== 0) continue
      const oldest = Math.max(1, seq - 9_999)
      expect(seqs(recent.after(oldest - 1, 20_000))).toEqual(count(oldest, seq))
      if (oldest > 1) expect(recent.after(oldest - 2, 1)).toBeUndefined()
    }
  })

  // A flood of maximum-size events must not fill the service's memory.
  it('keeps no more than 8 MiB', () => {
    const recent = new RecentEvents()
    for (const seq of count(1, 2_000)) recent.add(row(seq, 16_000))
    const kept = recent.after(2_000 - 514, 1_000)
    expect(seqs(kept)).toEqual(count(1_487, 2_000))
    expect(recent.after(2_000 - 515, 1_000)).toBeUndefined()
    expect(514 * 16_300).toBeLessThanOrEqual(8 * 1024 * 1024)
  })
})
