import { expect, test } from 'vitest'
import { RulePace, RuleTurn } from './rule-pace.ts'

/** The part of the time that rules get beside other work in each turn, by a clock that only this work moves. */
async function shareBeside(othersMs: number): Promise<{ share: number; longest: number }> {
  let now = 0
  const clock = { now: () => now, monotonic: () => now }
  const pace = new RulePace(clock)
  const turn = new RuleTurn(clock)
  let worked = 0
  let longest = 0
  for (let round = 0; round < 100; round += 1) {
    while (!turn.isOver()) now += 0.25
    worked += turn.workedMs
    longest = Math.max(longest, turn.workedMs)
    setImmediate(() => {
      now += othersMs
    })
    turn.begin(await pace.giveWay(turn.workedMs))
  }
  return { share: worked / now, longest }
}

// A turn of a millisecond beside requests of 20 ms was 5 % of the time: a rule acted ten seconds after the event.
test('rules get a fair part of a busy event loop, and hold it for a few milliseconds at most', async () => {
  for (const others of [0, 1, 4, 10, 20]) {
    const { share, longest } = await shareBeside(others)
    expect(share).toBeGreaterThan(0.19)
    expect(longest).toBeLessThan(Math.max(1.5, others / 2))
  }
  expect((await shareBeside(100)).longest).toBe(5)
})

// The units of a slice are those of the costliest text: for usual ones they stand for some microseconds.
test('counted slices that took no time do not end a turn, except many of them', () => {
  let now = 0
  const turn = new RuleTurn({ now: () => now, monotonic: () => now })
  for (let slice = 1; slice < 8; slice += 1) expect(turn.isOverAfterSlice()).toBe(false)
  expect(turn.isOverAfterSlice()).toBe(true)
  turn.begin()
  expect(turn.isOverAfterSlice()).toBe(false)
  now += 1
  expect(turn.isOverAfterSlice()).toBe(true)
})
