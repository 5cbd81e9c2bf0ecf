import { expect, test } from 'vitest'
import { argsHash } from './canonical.ts'
import { plainOf } from './plain.ts'
import { leavesOf, wholeValues } from './values.ts'

const nested = (depth: number, inner: unknown): unknown => (depth === 0 ? inner : [nested(depth - 1, inner)])

/** An answer, and its whole values: what may be trusted as a destination if a directory answers it. */
test.each<[string, unknown, string[]]>([
  ['JSON', '{"a": ["x", 7], "b": {"c": "y"}}', ['x', '7', 'y']],
  ['JSON that is one text', '"a, b"', ['a, b']],
  ['a list', ['x', 7, 9n, true, null, ' '], ['x', '7', '9']],
  ['a map', { a: 'x', b: { c: 'y' } }, ['x', 'y']],
  [
    'a Python dictionary',
    `{'name': 'Le Marais', "p": 30.0, 'n': None}`,
    ['name', 'le marais', 'p', '30.0', 'n', 'none'],
  ],
  ['a Python list with quotes', `['it\\'s', "a \\"b\\"", 'cut`, ["it's", 'a "b"']],
  ['words in brackets', '[ada@example.com, b(c) d]', ['ada@example.com', 'b', 'c', 'd']],
  ['text with a bracket in it', 'see {a}', ['see {a}']],
  ['lines', 'a b\n\nc\r\nd\re', ['a b', 'c', 'd', 'e']],
  ['a heading with a value', 'Hotels in Paris: Ritz', ['ritz', 'hotels in paris: ritz']],
  ['a list of lines', '- a\n  - b\n- - c', ['a', 'b', 'c']],
  ['keys with values', 'k: v\nl:\n', ['v', 'k: v', 'l:']],
  ['a value in quotes', `k: "a b"\nl: 'it''s'`, ['a b', "it''s"]],
  ['quotes over lines', `k: "a\n  b"\nc`, ['a\nb', 'c']],
  ['quotes that are not closed', `k: "a\n  b`, ['"a\nb']],
  ['an escaped quote at the end of a line', `k: "a\\"\n  b"\nc`, ['a\\"\nb', 'c']],
  ['an escaped backslash at the end', `k: "a\\\\"\nc`, ['a\\\\', 'c']],
  ['a doubled quote at the end of a line', `k: 'a''\n  b'\nc`, ["a''\nb", 'c']],
  ['a block', 'k: |\n  a\n  - b\n  c: d\ne', ['|\na\n- b\nc: d', 'e']],
  ['a value that goes on', 'k: a\n  b\nc', ['a\nb', 'c']],
  ['an item that goes on', '- a\n  b\n- c', ['a\nb', 'c']],
  ['a value with items below', 'k: a\n  - b', ['a', 'k: a', 'b']],
  ['a value with keys below', 'k: a\n  l: b', ['a', 'k: a', 'b', 'l: b']],
])('the whole values of %s', (_name, answer, values) => expect([...wholeValues(answer)].sort()).toEqual(values.sort()))

test('a dump has no values beyond its bounds', () => {
  const items = (count: number) => Array.from({ length: count }, (_, at) => `v${at}`)
  expect(wholeValues(items(5_000)).has('v4999')).toBe(true)
  expect(wholeValues(items(5_001)).has('v5000')).toBe(false)
  expect(wholeValues('x'.repeat(262_144)).size).toBe(1)
  expect(wholeValues('x'.repeat(262_145)).size).toBe(0)
  expect(leavesOf(nested(32, 'x'))).toEqual(['x'])
  expect(leavesOf(nested(33, 'x'))).toEqual([])
})

test('arguments are hashed to a depth of 64 and 4 MiB', () => {
  expect(argsHash(nested(64, 1))).toMatch(/^[0-9a-f]{64}$/)
  expect(argsHash(nested(65, 1))).toBeUndefined()
  expect(argsHash('x'.repeat(4_194_302))).toMatch(/^[0-9a-f]{64}$/)
  expect(argsHash('x'.repeat(4_194_303))).toBeUndefined()
  expect(argsHash(nested(40, { a: nested(24, 1) }))).toBeUndefined()
})

class Plain {
  toJSON() {
    return { a: 1n }
  }
}
const own = {
  toJSON() {
    return own
  },
}

test.each<[string, unknown, unknown, boolean]>([
  ['a large integer', 9n, '9', true],
  ['a function', { a: () => 1, b: Symbol('x'), c: undefined }, {}, true],
  ['entries of a list that JSON has not', [() => 1, undefined], [null, null], true],
  ['wrapped values', [new String('a'), new Number(1), new Boolean(false)], ['a', 1, false], true],
  ['bytes', [new Uint8Array(2)], [null], true],
  ['an object that writes itself', [new Plain(), new Date(0)], [{ a: '1' }, '1970-01-01T00:00:00.000Z'], true],
  ['an object that writes itself as itself', [own, 1], [null, 1], false],
  ['a map', new Map([['a', 1]]), [['a', 1]], true],
  ['a set', new Set([1, 2]), [1, 2], true],
  ['no number', [Number.NaN], [Number.NaN], true],
  ['nothing', null, null, true],
])('%s is copied as JSON would write it', (_name, value, copied, isComplete) => {
  const plain = plainOf(value, 100)
  expect(plain.isComplete).toBe(isComplete)
  expect(Array.isArray(plain.value) ? [...plain.value] : plain.value).toEqual(
    copied !== null && typeof copied === 'object' && !Array.isArray(copied)
      ? Object.assign(Object.create(null), copied)
      : copied,
  )
})

test('what is too deep or too much is left out, and said so', () => {
  expect(plainOf(nested(32, 1), 100).isComplete).toBe(true)
  expect(plainOf(nested(33, 1), 100).isComplete).toBe(false)
  const fields = { a: 1, b: 2, c: 3 }
  expect(plainOf(fields, 4).isComplete).toBe(true)
  expect(plainOf(fields, 3)).toEqual({ value: Object.assign(Object.create(null), { a: 1, b: 2 }), isComplete: false })
  expect(plainOf([1, 2, 3], 4).isComplete).toBe(true)
  expect(plainOf([1, 2, 3], 3)).toEqual({ value: [1, 2], isComplete: false })
  const throws = {
    get a() {
      throw new Error('no')
    },
  }
  expect(plainOf(throws, 10)).toEqual({ value: undefined, isComplete: false })
})
