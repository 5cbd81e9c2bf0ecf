import { describe, expect, test } from 'vitest'
import type { EventPages, Row } from './event-tail.ts'
import { fullBudget, maxRows, newSince, sampled, withNewRows } from './live-rows.ts'

const row = (seq: number, severity: Row['severity'] = 'info') => ({ id: `e${seq}`, seq, severity }) as Row
const rowsFrom = (first: number, count: number) => Array.from({ length: count }, (_, index) => row(first + index))

describe('a list in a flood', () => {
  test('takes all events as long as they are no more than it holds', () => {
    const budget = fullBudget(0)
    for (let second = 0; second < 60; second++) {
      const rows = rowsFrom(second * 150, 150)
      expect(sampled(rows, budget, second * 1_000)).toEqual(rows)
    }
  })

  test('takes every n-th beyond, the newest and all serious ones among them, and counts the others', () => {
    const budget = fullBudget(0)
    let pages: EventPages = { pages: [{ events: [], next: null }], pageParams: [null] }
    let taken = 0
    for (let batch = 0; batch < 600; batch++) {
      const rows = [...rowsFrom(batch * 100, 99), row(batch * 100 + 99, 'breach')]
      rows.reverse()
      const kept = sampled(rows, budget, batch * 100)
      taken += kept.length
      expect(kept.at(-1)).toBe(rows.at(-1))
      expect(kept.some(({ severity }) => severity === 'breach')).toBe(true)
      pages = withNewRows(pages, kept, rows.length)
    }
    expect(pages.pages[0]!.streamed).toEqual({ came: 60_000, skipped: 60_000 - taken })
    // A minute at 200 a second, what it holds, and a breach a batch.
    expect(taken).toBeGreaterThan(13_000)
    expect(taken).toBeLessThan(15_000)
    expect(pages.pages[0]!.events).toHaveLength(maxRows)
  })
})

test('a list that stands still knows how many are new, and when it no longer knows', () => {
  const held = rowsFrom(1, 3).reverse()
  expect(newSince([...rowsFrom(4, 5).reverse(), ...held], held)).toBe('5')
  expect(newSince(rowsFrom(100, 2_000), held)).toBe('2,000+')
  expect(newSince([], [])).toBe('0')
})
