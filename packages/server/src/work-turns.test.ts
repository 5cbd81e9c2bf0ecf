import { expect, test } from 'vitest'
import { atOnce } from './testing/work.ts'
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

/** Work that finishes within its first slice but fills a turn. */
function* short(log: string[], name: string, budget: WorkBudget): Slices<void> {
  budget.count(sliceUnits)
  log.push(name)
  yield* []
}

/** Work of this many whole slices, whose units are counted by the lane. */
const paid = (piece: Piece, steps: number, log: string[], name: string) =>
  piece.inTurns(counted(steps, log, name, piece.budget(Number.MAX_SAFE_INTEGER)))

/** Returns the log entries of each event loop turn until all work is done. */
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

test('work has the same result at once and in turns', async () => {
  expect(atOnce(counted(3, [], 'a'))).toBe(3)
  expect(await new WorkLane().open('a', { max: 1 }).inTurns(counted(3, [], 'a'))).toBe(3)
})

// Otherwise twenty costly texts at once would block the event loop for twenty first slices in a row.
test('each event loop turn serves one slice of one caller, with callers in turn', async () => {
  const log: string[] = []
  const lane = new WorkLane()
  const works = ['a', 'b', 'c'].map((name) => paid(lane.open(name, { max: 1 }), 4, log, name))
  const turns = await turnsOf(log, works)
  for (const turn of turns) expect(turn).toMatch(/^(?:[abc]\d)?$/)
  expect(turns.join('')).toBe('a0a1b0c0a2b1c1a3b2c2b3c3')
})

// Each unfinished piece keeps its partial results: eight at a time took hundreds of MiB.
test('the pieces of one caller are processed one after the other', async () => {
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

// Otherwise costly texts of a key would hide what is found cheaply in the others.
test('pieces that yield to others go after the rest of their owner, and still progress', async () => {
  const log: string[] = []
  const lane = new WorkLane()
  const works = ['a', 'b'].map(async (name) => {
    const piece = lane.open('one', { max: 8 })
    await piece.nextTurn()
    await paid(piece, 1, log, name)
    piece.yieldToOthers()
    await paid(piece, 3, log, name.toUpperCase())
  })
  await Promise.all(works)
  expect(log.indexOf('b0')).toBeLessThan(log.indexOf('A1'))

  let isDone = false
  let younger = 0
  const piece = lane.open('one', { max: 8 })
  piece.yieldToOthers()
  const yielding = paid(piece, 3, [], '').then(() => {
    isDone = true
  })
  while (!isDone && younger++ < 1_000) await paid(lane.open('one', { max: Infinity }), 2, [], '')
  expect(younger).toBeLessThan(100)
  await yielding
})

// Otherwise old batches of a busy key wait until their connections time out.
test('the oldest piece of a caller finishes although newer ones keep arriving', async () => {
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

test('a short piece waits for at most one turn of a long one of the same caller', async () => {
  const log: string[] = []
  const lane = new WorkLane()
  const long = paid(lane.open('one', { max: 8 }), 100, log, 'l')
  await paid(lane.open('one', { max: 8 }), 1, log, 's')
  expect(log.length).toBeLessThan(4)
  await long
})

test('an owner can have a limited number of pieces waiting for their first slice', async () => {
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

// Otherwise each turn of a kill would wait for a slice of a costly text.
test('work slows down during urgent work but still progresses under a flood of it', async () => {
  const log: string[] = []
  const lane = new WorkLane()
  const work = paid(lane.open('a', { max: 8 }), 100, log, 'a')
  await lane.aheadOfWork(async () => {
    for (let turn = 0; turn < 50; turn++) await new Promise(setImmediate)
  })
  // Fewer than one slice per turn. A busy machine may still run some.
  expect(log.length).toBeLessThan(25)
  await work
  const { promise, resolve } = Promise.withResolvers<void>()
  const endless = lane.aheadOfWork(() => promise)
  await paid(lane.open('b', { max: 8 }), 4, log, 'b')
  resolve()
  await endless
})

test('a budget refuses work it cannot pay for and all work after it, and reports this', () => {
  const budget = new WorkBudget(100)
  expect(budget.take(60)).toBe(true)
  expect(budget.isExhausted).toBe(false)
  expect(budget.take(60)).toBe(false)
  expect(budget.take(1)).toBe(false)
  expect(budget.isExhausted).toBe(true)
})

test('a budget that records skipped work still pays for other work', () => {
  const budget = new WorkBudget(100)
  budget.exhaust()
  expect(budget.take(60)).toBe(true)
  expect(budget.isSpent).toBe(false)
  expect(budget.isExhausted).toBe(true)
})

// In a shared queue, one key could delay the checks of all others for over a minute.
test('an owner gets its turns while another has a thousand pieces waiting', async () => {
  const lane = new WorkLane()
  const log: string[] = []
  const works = Array.from({ length: 1_000 }, () => lane.open('flood', { max: Infinity }).inTurns(counted(2, log, 'f')))
  const start = log.length
  await lane.open('honest', { max: 8 }).inTurns(counted(2, log, 'h'))
  expect(log.slice(start).filter((entry) => entry.startsWith('f')).length).toBeLessThan(5)
  await Promise.all(works)
})

test('pieces in flight are limited in total, but the first piece of each owner always gets a place', async () => {
  const lane = new WorkLane()
  const turns = Array.from({ length: 1_000 }, (_, n) => lane.open(`owner ${n % 10}`, { max: 1_000 }).nextTurn())
  const outcomes = await Promise.allSettled(turns)
  expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(64)
  expect(outcomes[64]).toMatchObject({ reason: refused })
  await lane.open('late', { max: 8 }).nextTurn()
  await expect(lane.open('late', { max: 8 }).nextTurn()).rejects.toMatchObject(refused)
})

test('pieces in flight are limited per owner, and a finished piece frees its place', async () => {
  const lane = new WorkLane()
  const pieces = Array.from({ length: 9 }, () => lane.open('a', { max: 8 }))
  const turns = pieces.map((piece) => piece.nextTurn())
  await expect(turns[8]).rejects.toMatchObject(refused)
  await Promise.all(turns.slice(0, 8))
  pieces[0]!.end()
  await pieces[8]!.nextTurn()
  expect(lane.inFlight).toBe(8)
})

// An owner may be a key that many agents share, and clients deny a call whose check is refused.
test('pieces that use no more than a slice need no place, in however many steps', async () => {
  const lane = new WorkLane()
  function* step(budget: WorkBudget): Slices<void> {
    budget.count(sliceUnits / 4)
    yield* []
  }
  const works = Array.from({ length: 100 }, async () => {
    const piece = lane.open('a', { max: 8 })
    const budget = piece.budget(sliceUnits)
    for (let steps = 0; steps < 3; steps++) await piece.inTurns(step(budget))
    expect(lane.inFlight).toBe(0)
    piece.end()
  })
  await Promise.all(works)
})

test('work whose caller disconnected ends at its next turn', async () => {
  const lane = new WorkLane()
  const log: string[] = []
  let isAbandoned = false
  const piece = lane.open('a', { max: 8, isAbandoned: () => isAbandoned })
  const work = piece.inTurns(counted(1_000, log, 'a'))
  isAbandoned = true
  await expect(work).rejects.toMatchObject({ code: 'overloaded' })
  expect(log).toHaveLength(1)
})
