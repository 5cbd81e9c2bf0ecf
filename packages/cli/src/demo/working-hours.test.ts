import { expect, test } from 'vitest'
import { castOf } from '../simulate/story.ts'
import { isAtWork, timeAtWork, workload } from './working-hours.ts'

const at = (hour: number) => new Date(2026, 4, 12, hour, 30).getTime()
const cast = castOf(20)
const working = (hour: number) => cast.filter((member) => isAtWork(member, at(hour))).length

test('more agents work by day than by night, and some at any time', () => {
  expect(working(12)).toBe(20)
  expect(working(3)).toBeLessThan(10)
  for (let hour = 0; hour < 24; hour++) expect(working(hour), `hour ${hour}`).toBeGreaterThan(0)
  expect(workload(at(12))).toBeGreaterThan(3 * workload(at(3)))
})

test('finds a time at which an agent works, wherever the day begins', () => {
  for (const member of cast) {
    for (let hour = 0; hour < 24; hour++) {
      const from = at(hour)
      const to = from + 86_400_000
      for (const part of [0, 0.5, 0.99]) {
        const time = timeAtWork(member, part, { from, to })
        expect(time >= from && time < to && isAtWork(member, time)).toBe(true)
      }
    }
  }
})
