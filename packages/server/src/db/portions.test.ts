import { expect, it } from 'vitest'
import { inPortions, pagesOf } from './portions.ts'

it('removes portion by portion until one is not full, at most 200,000 rows a run', async () => {
  const runs = async (rows: number) => {
    let left = rows
    let calls = 0
    await inPortions(async (limit) => {
      calls += 1
      const removed = Math.min(left, limit)
      left -= removed
      return removed
    })
    return { calls, left }
  }
  expect(await runs(0)).toEqual({ calls: 1, left: 0 })
  expect(await runs(1_200)).toEqual({ calls: 3, left: 0 })
  expect(await runs(200_001)).toEqual({ calls: 400, left: 1 })
})

// Shutdown waits for it.
it('ends after the current portion when the service stops', async () => {
  const stopping = new AbortController()
  let calls = 0
  await inPortions(async (limit) => {
    calls += 1
    if (calls === 2) stopping.abort()
    return limit
  }, stopping.signal)
  expect(calls).toBe(2)
})

it.each([0, 1, 2, 3, 4, 5])('reads %d rows in pages of two, each once', async (count) => {
  const rows = Array.from({ length: count }, (_, index) => index + 1)
  const read = async (last?: number) => rows.filter((row) => row > (last ?? 0)).slice(0, 2)
  const pages: number[][] = []
  for await (const page of pagesOf(2, read)) pages.push(page)
  expect(pages.flat()).toEqual(rows)
  expect(pages.every((page) => page.length > 0)).toBe(true)
})
