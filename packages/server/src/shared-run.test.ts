import { describe, expect, test } from 'vitest'
import { SharedRun, SharedRuns } from './shared-run.ts'
import { manualClock } from './testing/clock.ts'

/** Returns numbered answers, each of which blocks until `endNext`. */
function blockedAnswers() {
  const ends: (() => void)[] = []
  let made = 0
  const shared = new SharedRun(() => {
    made += 1
    const number = made
    return new Promise<number>((resolve) => ends.push(() => resolve(number)))
  })
  const endNext = async () => {
    while (ends.length === 0) await new Promise((resolve) => setImmediate(resolve))
    ends.shift()!()
  }
  return { shared, endNext, made: () => made }
}

describe('a shared run', () => {
  // A key that requests the status on forty connections would otherwise delay every kill.
  test('is computed once more for a hundred callers that arrive while it is computed', async () => {
    const { shared, endNext, made } = blockedAnswers()
    const first = shared.get()
    const others = Array.from({ length: 100 }, () => shared.get())
    await endNext()
    expect(await first).toBe(1)
    await endNext()
    expect(await Promise.all(others)).toEqual(Array(100).fill(2))
    expect(made()).toBe(2)
  })

  // A caller after a kill must see it, even if an answer from before the kill is still being computed.
  test('is never one that was started before the call', async () => {
    const { shared, endNext } = blockedAnswers()
    const first = shared.get()
    await endNext()
    expect(await first).toBe(1)
    const second = shared.get()
    const third = shared.get()
    await endNext()
    expect(await second).toBe(2)
    await endNext()
    expect(await third).toBe(3)
  })

  // The service promises a response within two seconds, which a second wait for the database deadline would exceed.
  test('fails for all waiting callers at once, and is computed again for the next caller', async () => {
    let made = 0
    const shared = new SharedRun(async () => {
      made += 1
      if (made === 1) throw new Error('away')
      return 'done'
    })
    const waiting = [shared.get(), shared.get(), shared.get()]
    expect((await Promise.allSettled(waiting)).map(({ status }) => status)).toEqual(Array(3).fill('rejected'))
    expect(made).toBe(1)
    expect(await shared.get()).toBe('done')
  })
})

describe('a kept result', () => {
  function counted(options: { staleMs?: number }) {
    const clock = manualClock()
    const state = { made: 0, isAway: false }
    const work = async () => {
      state.made += 1
      if (state.isAway) throw new Error('away')
      return state.made
    }
    return { clock, state, shared: new SharedRun(work, { clock, keptMs: 1_000, ...options }) }
  }

  test('serves callers for some time, until it is forgotten', async () => {
    const { clock, shared } = counted({})
    expect(await Promise.all([shared.get(), shared.get()])).toEqual([1, 1])
    clock.advance(999)
    expect(await shared.get()).toBe(1)
    clock.advance(1)
    expect(await shared.get()).toBe(2)
    shared.forget()
    expect(await shared.get()).toBe(3)
  })

  // What was read before a kill must not be shown after it.
  test('is not one that was begun before it was forgotten', async () => {
    const { shared } = counted({})
    const before = shared.get()
    shared.forget()
    expect(await shared.get()).toBe(2)
    expect(await before).toBe(1)
  })

  test('serves callers while the next one is made, if it may be stale', async () => {
    const { clock, state, shared } = counted({ staleMs: 2_000 })
    await shared.get()
    clock.advance(1_500)
    expect([await shared.get(), state.made]).toEqual([1, 2])
    expect(await shared.get()).toBe(2)
    clock.advance(2_000)
    expect(await shared.get()).toBe(3)
  })

  test('is not a failure', async () => {
    const { state, shared } = counted({})
    state.isAway = true
    await expect(shared.get()).rejects.toThrow('away')
    state.isAway = false
    expect(await shared.get()).toBe(2)
  })
})

test('runs by question keep the last of them, each its own result, until they are forgotten', async () => {
  const runs = new SharedRuns<string>(2, { clock: manualClock(), keptMs: 1_000 })
  let made = 0
  const ask = (question: string) =>
    runs.get(question, async () => {
      made += 1
      return `${question}${made}`
    })
  expect([await ask('a'), await ask('b'), await ask('a'), await ask('c')]).toEqual(['a1', 'b2', 'a1', 'c3'])
  expect([await ask('b'), await ask('a')]).toEqual(['b2', 'a4'])
  runs.forget()
  expect(await ask('a')).toBe('a5')
})
