import { describe, expect, test } from 'vitest'
import { SharedAnswer } from './shared-answer.ts'

/** Answers that count up, and end when they are released. */
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

describe('an answer that is the same for all', () => {
  // A key that asks for the status on forty connections would otherwise keep every kill waiting.
  test('is made twice for a hundred who ask while it is made', async () => {
    const { shared, endNext, made } = blockedAnswers()
    const first = shared.read()
    const others = Array.from({ length: 100 }, () => shared.read())
    await endNext()
    expect(await first).toBe(1)
    await endNext()
    expect(await Promise.all(others)).toEqual(Array(100).fill(2))
    expect(made()).toBe(2)
  })

  // Who asks after a kill must see it, though an answer is being made that does not know of it.
  test('is never one that was begun before it was asked for', async () => {
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

  // Each waits for the deadline of the database once: a second wait would break the promise of an answer in two seconds.
  test('fails at once for those who waited for it, and is made again after that', async () => {
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
