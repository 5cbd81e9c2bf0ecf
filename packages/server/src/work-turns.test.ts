import { expect, test } from 'vitest'
import { atOnce } from './test-work.ts'
import { type Piece, type Slices, sliceUnits, WorkBudget, WorkLane } from './work-turns.ts'

const refused = { code: 'overloaded', retryAfterSeconds: 1 }

function* counted(
  steps: number,
  log: string[],
  name: string,
  budget = new WorkBudget(Number.MAX_SAFE_INTEGER),
): Slices<number> {
  for (let step = 0; step < steps; step++) {
    budget.count(sliceUnits)
    log.push(`${name}${step}`)
    if (budget.isSliceOver()) yield
  }
  return steps
}

/** Work that ends within its first slice, but fills a turn. */
function* short(log: string[], name: string, budget: WorkBudget): Slices<void> {
  budget.count(sliceUnits)
  log.push(name)
  yield* []
}

/** Work of so many whole slices, whose units the lane knows of. */
const paid = (piece: Piece, steps: number, log: string[], name: string) =>
  piece.inTurns(counted(steps, log, name, piece.budget(Number.MAX_SAFE_INTEGER)))

/** What the log says for each turn of the event loop until all is done. */
async function turnsOf(log: string[], works: Promise<unknown>[]): Promise<string[]> {
  let isDone = false
  log.push('|')
  const turns = (async () => {
    while (!isDone) {
      await new Promise(setImmediate)
      log.push('|')
    }
  })()
  await Promise.all(works)
  isDone = true
  await turns
  return log.join('').split('|')
}

test('work is the same at once and in turns', async () => {
  expect(atOnce(counted(3, [], 'a'))).toBe(3)
  expect(await new WorkLane().open('a', { max: 1 }).inTurns(counted(3, [], 'a'))).toBe(3)
})

// Twenty costly texts at once blocked the event loop for twenty first slices, one after the other.
test('each turn of the event loop serves one slice of one caller, all callers in order', async () => {
  const log: string[] = []
  const lane = new WorkLane()
  const works = ['a', 'b', 'c'].map((name) => paid(lane.open(name, { max: 1 }), 4, log, name))
  const turns = await turnsOf(log, works)
  for (const turn of turns) expect(turn).toMatch(/^(?:[abc]\d)?$/)
  expect(turns.join('')).toBe('a0a1b0c0a2b1c1a3b2c2b3c3')
})

// Half of what one made is kept until it ends: eight at a time took hundreds of MiB.
test('the pieces of one caller are worked off one after the other', async () => {
  const log: string[] = []
  const lane = new WorkLane()
  const pieces = ['a', 'b', 'c'].map((name) => ({ name, piece: lane.open('one', { max: 8 }) }))
  const works = pieces.map(async ({ name, piece }) => {
    await piece.nextTurn()
    await paid(piece, 3, log, name)
  })
  await Promise.all(works)
  expect(log.join('')).toBe('a0a1a2b0b1b2c0c1c2')
})

// Batches of a busy key were answered after half a minute, when their connections were given up.
test('the oldest piece of a caller ends although younger ones keep coming', async () => {
  const lane = new WorkLane()
  const run = async (steps: number) => {
    const piece = lane.open('one', { max: 8 })
    await paid(piece, steps, [], '')
    piece.end()
  }
  let isDone = false
  let younger = 0
  const old = run(5).then(() => {
    isDone = true
  })
  const keepComing = async () => {
    for (; !isDone && younger < 1_000; younger++) await run(2)
  }
  await Promise.all([old, keepComing(), keepComing(), keepComing()])
  expect(younger).toBeLessThan(100)
})

test('a short piece waits for one turn of a long one of the same caller', async () => {
  const log: string[] = []
  const lane = new WorkLane()
  const long = paid(lane.open('one', { max: 8 }), 100, log, 'l')
  await paid(lane.open('one', { max: 8 }), 1, log, 's')
  expect(log.length).toBeLessThan(4)
  await long
})

test('an owner has so many pieces that wait for their first slice and no more', async () => {
  const lane = new WorkLane()
  const log: string[] = []
  const flood = Array.from({ length: 1_100 }, () => {
    const piece = lane.open('flood', { max: 8 })
    return piece.inTurns(short(log, 'f0', piece.budget(sliceUnits)))
  })
  const outcomes = Promise.allSettled(flood)
  await paid(lane.open('honest', { max: 8 }), 1, log, 'h')
  expect(log.filter((entry) => entry === 'f0').length).toBeLessThan(4)
  const refusals = (await outcomes).filter(({ status }) => status === 'rejected')
  expect(refusals).toHaveLength(1_100 - 1_025)
  expect(refusals[0]).toMatchObject({ reason: refused })
})

// Each turn of a kill would otherwise wait for a slice of a costly text.
test('work pauses while something urgent is under way, and goes on under a flood of it', async () => {
  const log: string[] = []
  const lane = new WorkLane()
  const work = paid(lane.open('a', { max: 8 }), 100, log, 'a')
  await lane.aheadOfWork(async () => {
    for (let turn = 0; turn < 50; turn++) await new Promise(setImmediate)
  })
  // Not one for each turn; some, should the machine be so busy that this took long.
  expect(log.length).toBeLessThan(25)
  await work
  const { promise, resolve } = Promise.withResolvers<void>()
  const endless = lane.aheadOfWork(() => promise)
  await paid(lane.open('b', { max: 8 }), 4, log, 'b')
  resolve()
  await endless
})

test('a budget refuses what it cannot pay for, from then on, and says so', () => {
  const budget = new WorkBudget(100)
  expect(budget.take(60)).toBe(true)
  expect(budget.isExhausted).toBe(false)
  expect(budget.take(60)).toBe(false)
  expect(budget.take(1)).toBe(false)
  expect(budget.isExhausted).toBe(true)
})

// One key once filled the only queue for over a minute, and the checks of all others waited behind it.
test('an owner gets its turns although another has a thousand pieces waiting', async () => {
  const lane = new WorkLane()
  const log: string[] = []
  const works = Array.from({ length: 1_000 }, () => lane.open('flood', { max: Infinity }).inTurns(counted(2, log, 'f')))
  const start = log.length
  await lane.open('honest', { max: 8 }).inTurns(counted(2, log, 'h'))
  expect(log.slice(start).filter((entry) => entry.startsWith('f')).length).toBeLessThan(5)
  await Promise.all(works)
})

test('owners together have so many pieces in flight, and the first of each finds a place nevertheless', async () => {
  const lane = new WorkLane()
  const turns = Array.from({ length: 1_000 }, (_, n) => lane.open(`owner ${n % 10}`, { max: 1_000 }).nextTurn())
  const outcomes = await Promise.allSettled(turns)
  expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(64)
  expect(outcomes[64]).toMatchObject({ reason: refused })
  await lane.open('late', { max: 8 }).nextTurn()
  await expect(lane.open('late', { max: 8 }).nextTurn()).rejects.toMatchObject(refused)
})

test('an owner has so many pieces in flight and no more, and its place back when one ends', async () => {
  const lane = new WorkLane()
  const pieces = Array.from({ length: 9 }, () => lane.open('a', { max: 8 }))
  const turns = pieces.map((piece) => piece.nextTurn())
  await expect(turns[8]).rejects.toMatchObject(refused)
  await Promise.all(turns.slice(0, 8))
  pieces[0]!.end()
  await pieces[8]!.nextTurn()
  expect(lane.inFlight).toBe(8)
})

test('work without a caller ends at its next turn', async () => {
  const lane = new WorkLane()
  const log: string[] = []
  let isAbandoned = false
  const piece = lane.open('a', { max: 8, isAbandoned: () => isAbandoned })
  const work = piece.inTurns(counted(1_000, log, 'a'))
  isAbandoned = true
  await expect(work).rejects.toMatchObject({ code: 'overloaded' })
  expect(log).toHaveLength(1)
})
