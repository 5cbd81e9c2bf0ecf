import { describe, expect, test } from 'vitest'
import { SharedAnswer } from './shared-answer.ts'

/** Returns numbered answers, each of which blocks until `endNext`. */
function blockedAnswers() {
  const ends: (() => void)[] = []
  let made = 0
  const shared = new SharedAnswer(() => {
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

describe('a shared answer', () => {
  // A key that requests the status on forty connections would otherwise delay every kill.
  test('is computed once more for a hundred callers that arrive while it is computed', async () => {
    const { shared, endNext, made } = blockedAnswers()
    const first = shared.read()
    const others = Array.from({ length: 100 }, () => shared.read())
    await endNext()
    expect(await first).toBe(1)
    await endNext()
    expect(await Promise.all(others)).toEqual(Array(100).fill(2))
    expect(made()).toBe(2)
  })

  // A caller after a kill must see it, even if an answer from before the kill is still being computed.
  test('is never one that was started before the call', async () => {
    const { shared, endNext } = blockedAnswers()
    const first = shared.read()
    await endNext()
    expect(await first).toBe(1)
    const second = shared.read()
    const third = shared.read()
    await endNext()
    expect(await second).toBe(2)
    await endNext()
    expect(await third).toBe(3)
  })

  // The service promises a response within two seconds, which a second wait for the database deadline would exceed.
  test('fails for all waiting callers at once, and is computed again for the next caller', async () => {
    let made = 0
    const shared = new SharedAnswer(async () => {
      made += 1
      if (made === 1) throw new Error('away')
      return 'done'
    })
    const waiting = [shared.read(), shared.read(), shared.read()]
    expect((await Promise.allSettled(waiting)).map(({ status }) => status)).toEqual(Array(3).fill('rejected'))
    expect(made).toBe(1)
    expect(await shared.read()).toBe('done')
  })
})
