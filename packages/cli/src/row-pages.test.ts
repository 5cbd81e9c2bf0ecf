import { expect, test } from 'vitest'
import { readRows, rowLimit } from './row-pages.ts'

/** Fake service with rows from `count` down to 1, which examines ten rows per page. */
const service = (count: number, isShown: (row: number) => boolean = () => true) => {
  const asked: string[] = []
  const read = async ({ limit, before = String(count + 1) }: { limit: string; before?: string }) => {
    asked.push(`${limit} below ${before}`)
    const lowest = Math.max(1, Number(before) - 10)
    const looked = Array.from({ length: Number(before) - lowest }, (_, index) => Number(before) - 1 - index)
    const rows = looked.filter(isShown).slice(0, Number(limit))
    const last = rows.length === Number(limit) ? rows.at(-1)! : lowest
    return { rows, next: last > 1 ? String(last) : null }
  }
  return { read, asked }
}

test('pages are read until there are enough rows, and the next cursor is returned', async () => {
  const { read, asked } = service(25)
  expect(await readRows(15, undefined, read)).toEqual({
    rows: Array.from({ length: 15 }, (_, index) => 25 - index),
    next: '11',
  })
  expect(asked).toEqual(['15 below 26', '5 below 16'])
  expect(await readRows(999, '11', read)).toEqual({ rows: [10, 9, 8, 7, 6, 5, 4, 3, 2, 1], next: null })
})

test('reading continues after a page without matches', async () => {
  const { read } = service(50, (row) => row === 3)
  expect(await readRows(5, undefined, read)).toEqual({ rows: [3], next: null })
})

test('a request asks for at most the maximum page size', async () => {
  const { read, asked } = service(1)
  await readRows(5_000, undefined, read)
  expect(asked).toEqual(['1000 below 2'])
})

test('a limit is a positive integer', () => {
  expect(rowLimit('17')).toBe(17)
  for (const text of ['0', '-1', '1.5', '1e3', '', '1000000'])
    expect(() => rowLimit(text), text).toThrow('whole number')
})
