import { expect, it } from 'vitest'
import { effort } from '../../../../../test-servers/effort.ts'
import { seededDraws } from '../../../../../test-servers/seeded-draws.ts'
import { dayMs, hourMs, minuteMs } from '../../clock.ts'
import { habitOf, habitText, isBlind, learnBucket, newHabit, silenceLimit } from './report-habit.ts'

const bucketMs = 5 * minuteMs
const weeks = effort(12, 26)
const perKind = effort(25, 200)
/** 2026-06-01, a Monday. */
const monday = Date.UTC(2026, 5, 1)

interface Kind {
  /** Activity within the five minutes from `at`; `off`: the agent sends no heartbeats either. */
  does(at: number, draw: () => number): 'report' | 'quiet' | 'off'
  /** Maximum of the mean number of false warnings per agent over all weeks. */
  maxFalse: number
  /** Maximum of the median time in hours until the agent is reported after its events stop at noon. */
  foundWithin: number
}

const hourOf = (at: number) => (at % dayMs) / hourMs
const dayOf = (at: number) => Math.floor((at - monday) / dayMs)
const isWeekend = (at: number) => [5, 6].includes(((dayOf(at) % 7) + 7) % 7)
const chance = (draw: () => number, share: number) => (draw() < share ? 'report' : 'quiet')

const kinds: Record<string, Kind> = {
  'around the clock': { does: (_at, draw) => chance(draw, 0.9), maxFalse: 0, foundWithin: 2 },
  'around the clock, a report an hour': { does: (_at, draw) => chance(draw, 1 / 12), maxFalse: 0.2, foundWithin: 30 },
  'working hours, idle at night and on weekends': {
    does: (at, draw) => (isWeekend(at) || hourOf(at) < 8 || hourOf(at) > 18 ? 'quiet' : chance(draw, 0.5)),
    maxFalse: 0,
    foundWithin: 9 * 24,
  },
  'working hours, a Monday off every four weeks': {
    does: (at, draw) =>
      isWeekend(at) || dayOf(at) % 28 === 21 || hourOf(at) < 8 || hourOf(at) > 18 ? 'quiet' : chance(draw, 0.5),
    maxFalse: 0,
    foundWithin: 12 * 24,
  },
  'working hours, off at night': {
    does: (at, draw) => (isWeekend(at) || hourOf(at) < 8 || hourOf(at) > 18 ? 'off' : chance(draw, 0.5)),
    maxFalse: 0.1,
    foundWithin: 6,
  },
  'a job each night': {
    does: (at, draw) => (hourOf(at) >= 2 && hourOf(at) < 3 ? chance(draw, 0.8) : 'quiet'),
    maxFalse: 0,
    foundWithin: 3 * 24,
  },
  'a job each week': {
    does: (at, draw) => (dayOf(at) % 7 === 2 && hourOf(at) < 1 ? chance(draw, 0.8) : 'quiet'),
    maxFalse: 0,
    foundWithin: 25 * 24,
  },
  'now and then, four times a day by chance': {
    does: (_at, draw) => chance(draw, 4 / 288),
    maxFalse: 0.5,
    foundWithin: 5 * 24,
  },
}

it(`rarely reports agents of ${Object.keys(kinds).length} habits as blind in ${weeks} weeks, and reports those whose events stop`, () => {
  const seed = Math.floor(Math.random() * 2 ** 31)
  const draw = seededDraws(seed)
  for (const [name, { does, maxFalse, foundWithin }] of Object.entries(kinds)) {
    let warnings = 0
    const found: number[] = []
    for (let agent = 0; agent < perKind; agent++) {
      let habit = newHabit
      let blind = false
      // Agents start on every day of the week.
      const begun = monday + agent * (dayMs + 3 * hourMs)
      const stops = begun - (begun % dayMs) + weeks * 7 * dayMs + 12 * hourMs
      for (let at = begun; at < stops; at += bucketMs) {
        const does_ = does(at, draw)
        if (does_ === 'off') continue
        habit = learnBucket(habit, { start: at, heartbeats: 5, reports: does_ === 'report' ? 3 : 0 })
        if (does_ === 'report') blind = false
        if (!blind && isBlind(habit)) {
          blind = true
          warnings += 1
        }
      }
      if (blind || silenceLimit(habit) === undefined) continue
      let at = stops
      for (; !isBlind(habit) && at < stops + 60 * dayMs; at += bucketMs) {
        if (does(at, draw) === 'off') continue
        habit = learnBucket(habit, { start: at, heartbeats: 5, reports: 0 })
      }
      found.push((at - stops) / hourMs)
    }
    const sorted = found.toSorted((a, b) => a - b)
    const median = sorted[Math.floor(sorted.length / 2)] ?? Number.NaN
    console.log(
      `blindness: seed ${seed}, ${perKind} agents, ${weeks} weeks, ${name}: ${warnings} false warnings, found after ${median.toFixed(1)} h (median), ${sorted.at(-1)?.toFixed(1)} h (maximum), ${sorted.length} of ${perKind} judged`,
    )
    expect(warnings / perKind, `${name}, seed ${seed}`).toBeLessThanOrEqual(maxFalse)
    expect(sorted.length, `${name}, seed ${seed}`).toBeGreaterThan(perKind * 0.8)
    expect(median, `${name}, seed ${seed}`).toBeLessThanOrEqual(foundWithin)
  }
})

it('reports neither an agent that never sent an event as blind, nor one that sent a single event', () => {
  let habit = newHabit
  for (let index = 0; index < 5_000; index++) {
    habit = learnBucket(habit, { start: monday + index * bucketMs, heartbeats: 5, reports: 0 })
  }
  expect(isBlind(habit)).toBe(false)
  habit = learnBucket(habit, { start: monday + 5_000 * bucketMs, heartbeats: 5, reports: 1 })
  for (let index = 0; index < 500; index++) {
    habit = learnBucket(habit, { start: monday + (5_001 + index) * bucketMs, heartbeats: 5, reports: 0 })
  }
  expect(isBlind(habit)).toBe(false)
})

it('keeps its state when it is stored and read again', () => {
  let habit = newHabit
  for (let index = 0; index < 3_000; index++) {
    habit = learnBucket(habit, { start: monday + index * bucketMs, heartbeats: 1, reports: index % 7 === 0 ? 1 : 0 })
  }
  const stored = habitOf(habitText(habit))
  expect({ ...stored, longest: 0 }).toEqual({ ...habit, longest: 0 })
  expect(stored.longest).toBeCloseTo(habit.longest, 1)
})
