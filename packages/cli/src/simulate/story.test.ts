import fc from 'fast-check'
import { expect, test } from 'vitest'
import { seededRandom, shuffled } from './random.ts'
import { castOf, containedRole, planStory, usualReports } from './story.ts'

const sizes = fc.integer({ min: 1, max: 500 })
const seeds = fc.integer({ min: 0, max: 0xffff_ffff })

test('a seed always produces the same numbers, and another seed produces others', () => {
  const draw = (seed: number) => Array.from({ length: 20 }, seededRandom(seed))
  fc.assert(
    fc.property(seeds, (seed) => {
      expect(draw(seed)).toEqual(draw(seed))
      expect(draw(seed)).not.toEqual(draw((seed + 1) >>> 0))
      expect(draw(seed).every((value) => value >= 0 && value < 1)).toBe(true)
    }),
  )
})

test('the random numbers are uniformly distributed', () => {
  const random = seededRandom(7)
  const tenths = Array.from({ length: 10 }, () => 0)
  for (let index = 0; index < 10_000; index++) tenths[Math.floor(random() * 10)]!++
  for (const count of tenths) expect(Math.abs(count - 1_000)).toBeLessThan(150)
})

test('shuffling keeps every value once', () => {
  fc.assert(
    fc.property(seeds, fc.array(fc.integer()), (seed, values) => {
      const byValue = (one: number, other: number) => one - other
      expect(shuffled(seededRandom(seed), values).sort(byValue)).toEqual([...values].sort(byValue))
    }),
  )
})

test('a size and a seed always produce the same story', () => {
  fc.assert(
    fc.property(sizes, seeds, (size, seed) => {
      expect(planStory(size, seed)).toEqual(planStory(size, seed))
    }),
  )
  const openings = new Set([1, 2, 3, 4, 5, 6, 7, 8].map((seed) => JSON.stringify(planStory(20, seed).steps)))
  expect(openings.size).toBeGreaterThan(1)
})

test('a story ends within 20 seconds, and plants decoys before they are touched', () => {
  fc.assert(
    fc.property(sizes, seeds, (size, seed) => {
      const { cast, steps } = planStory(size, seed)
      const at = (kind: string) => steps.findIndex((step) => step.kind === kind)
      expect(at('plant_key')).toBeGreaterThanOrEqual(0)
      expect(at('use_key')).toBeGreaterThan(at('plant_key'))
      expect(at('touch_path')).toBeGreaterThan(at('plant_path'))
      for (const kind of ['injection', 'egress_blocked', 'policy_violation']) expect(at(kind)).toBeGreaterThan(0)
      expect(steps.map((step) => step.atSeconds)).toEqual(
        steps.map((step) => step.atSeconds).toSorted((one, other) => one - other),
      )
      expect(steps.at(-1)!.atSeconds).toBeLessThan(20)
      expect(steps.every((step) => cast[step.agent] !== undefined)).toBe(true)
    }),
  )
})

test('a story with a containment ends with a drill and a containment of one role, and is otherwise the same', () => {
  fc.assert(
    fc.property(fc.integer({ min: 7, max: 500 }), seeds, (size, seed) => {
      const { cast, steps } = planStory(size, seed, true)
      expect(steps.slice(0, -2)).toEqual(planStory(size, seed).steps)
      expect(steps.slice(-2).map(({ kind }) => kind)).toEqual(['drill', 'contain'])
      expect(cast[steps.at(-1)!.agent]!.role).toBe(containedRole)
      expect(steps.at(-1)!.atSeconds).toBeLessThan(20)
    }),
  )
})

test('the agent that runs away first sends more than ten usual reports', () => {
  fc.assert(
    fc.property(sizes, seeds, (size, seed) => {
      const { steps } = planStory(size, seed)
      const runaway = steps.findIndex((step) => step.kind === 'runaway')
      const lessons = steps.slice(0, runaway).filter((step) => step.kind === 'usual_metrics')
      expect(lessons).toHaveLength(usualReports)
      expect(usualReports).toBeGreaterThan(10)
      expect(new Set([...lessons, steps[runaway]!].map((step) => step.agent)).size).toBe(1)
    }),
  )
})

test('every agent has a unique id that begins with demo-', () => {
  const cast = castOf(500)
  expect(new Set(cast.map(({ id }) => id)).size).toBe(500)
  expect(cast.every(({ id }) => /^demo-[a-z0-9-]{1,59}$/.test(id))).toBe(true)
  expect(castOf(20).map(({ name }) => name)).toContain('Support bot 3')
})
