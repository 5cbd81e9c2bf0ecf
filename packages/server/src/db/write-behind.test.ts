import { describe, expect, it } from 'vitest'
import { WriteBehind } from './write-behind.ts'

/** Counts by key, whose writes fail while `isAway`. */
function counts(max?: number) {
  const stored = new Map<string, number>()
  const batches: string[][] = []
  const state = { isAway: false, during: () => {} }
  const behind = new WriteBehind<number>({
    merge: (older, newer) => older + newer,
    ...(max === undefined ? {} : { max }),
    async write(values) {
      batches.push(values.map(([key]) => key))
      await Promise.resolve()
      state.during()
      if (state.isAway) throw new Error('away')
      for (const [key, count] of values) stored.set(key, (stored.get(key) ?? 0) + count)
    },
  })
  return { behind, stored, batches, state }
}

describe('values that are written later', () => {
  it('are written together, in the order of their keys, once', async () => {
    const { behind, stored, batches } = counts()
    for (const key of ['b', 'a', 'b']) behind.note(key, 1)
    await behind.write()
    await behind.write()
    expect([...stored]).toEqual([
      ['a', 1],
      ['b', 2],
    ])
    expect(batches).toEqual([['a', 'b']])
  })

  it('are kept when a write fails, and joined with later ones', async () => {
    const { behind, stored, state } = counts()
    behind.note('a', 1)
    state.isAway = true
    state.during = () => behind.note('a', 10)
    await expect(behind.write()).rejects.toThrow('away')
    state.isAway = false
    state.during = () => {}
    behind.note('b', 1)
    await behind.write()
    expect(Object.fromEntries(stored)).toEqual({ a: 11, b: 1 })
  })

  it('are stored when a call resolves that came during another write', async () => {
    const { behind, stored } = counts()
    behind.note('a', 1)
    const first = behind.write()
    behind.note('a', 1)
    await behind.write()
    await first
    expect(stored.get('a')).toBe(2)
  })

  it('have at most so many keys', async () => {
    const { behind, stored } = counts(1)
    for (const key of ['a', 'b', 'a']) behind.note(key, 1)
    await behind.write()
    expect(Object.fromEntries(stored)).toEqual({ a: 2 })
  })
})
