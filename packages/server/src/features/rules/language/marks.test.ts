import fc from 'fast-check'
import { expect, test } from 'vitest'
import { effort } from '../../../../../../test-servers/effort.ts'
import { type Mark, Marks } from './marks.ts'

test('a window holds what a list holds from which old and surplus marks are taken', () => {
  const log = fc.array(fc.integer({ min: 0, max: 3 }), { maxLength: 300, size: 'max' })
  fc.assert(
    fc.property(log, fc.integer({ min: 1, max: 200 }), fc.integer({ min: 1, max: 120 }), (waits, timespan, max) => {
      const marks = new Marks(0, 0)
      let plain: Mark[] = [[0, 0]]
      let time = 0
      for (const [index, wait] of waits.entries()) {
        time += wait
        const seq = index + 1
        marks.add(time, seq)
        marks.drop(time - timespan, max)
        plain = [...plain, [time, seq] as Mark].filter(([at]) => at >= time - timespan).slice(-max)
        expect(marks.length).toBe(plain.length)
      }
      expect([...marks]).toEqual(plain)
    }),
    { numRuns: effort(100, 20_000) },
  )
})
