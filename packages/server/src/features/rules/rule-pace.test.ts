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

/** Whether storing goes before rules after so many seconds with so many events each, which come in steps of 50 ms. */
async function goesBehind(...loads: { perSecond: number; seconds: number }[]): Promise<boolean[]> {
  let now = 0
  const pace = new RulePace({ now: () => now, monotonic: () => now })
  const found: boolean[] = []
  for (const { perSecond, seconds } of loads) {
    for (let step = 0; step < seconds * 20; step += 1) {
      now += 50
      pace.note(perSecond / 20)
    }
    setImmediate(() => {
      now += 1
    })
    found.push((await pace.giveWay(0)) === 0)
  }
  return found
}

// A pause of 75 ms made the quarter of a second after it a flood: then rules waited 0.3 s for their turn.
test('rules keep their part of the time in a burst, lose it in a flood, and get it back within a second', async () => {
  const usual = { perSecond: 5_000, seconds: 2 }
  expect(await goesBehind(usual, { perSecond: 8_000, seconds: 0.25 }, usual)).toEqual([false, false, false])
  expect(await goesBehind(usual, { perSecond: 13_000, seconds: 0.5 })).toEqual([false, true])
  expect(await goesBehind({ perSecond: 30_000, seconds: 10 }, { perSecond: 5_000, seconds: 1 })).toEqual([true, false])
  expect(await goesBehind({ perSecond: 7_500, seconds: 0.25 }, { perSecond: 7_500, seconds: 1 })).toEqual([false, true])
})
