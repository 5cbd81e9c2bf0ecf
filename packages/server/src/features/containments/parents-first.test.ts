import { expect, it } from 'vitest'
import { parentsBeside, parentsFirst } from './parents-first.ts'

const row = (id: string, parent_id: string | null = null) => ({ id, parent_id })
const rows = [row('a', 'c'), row('b'), row('c', 'd'), row('d', 'gone'), row('e', 'held'), row('f', 'e')]

it('places parents before their children, and leaves out what the suspension of another parent holds', () => {
  expect(parentsFirst(rows, new Map([['held', true]])).map(({ id }) => id)).toEqual(['b', 'd', 'c', 'a'])
  expect(parentsFirst(rows, new Map()).map(({ id }) => id)).toEqual(['b', 'd', 'e', 'c', 'f', 'a'])
})

it('names the parents that are not among them once each', () => {
  expect(parentsBeside([...rows, row('g', 'gone')])).toEqual(['gone', 'held'])
})
