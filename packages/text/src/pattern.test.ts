import { expect, test } from 'vitest'
import { matchesPattern } from './pattern.ts'

test.each([
  ['billing', 'billing', true],
  ['billing', 'billing-1', false],
  ['billing-*', 'billing-1', true],
  ['billing-*', 'billing-', true],
  ['billing-*', 'billing', false],
  ['*', 'anything', true],
])('matchesPattern: %j against %j returns %s', (pattern, name, expected) => {
  expect(matchesPattern(pattern, name)).toBe(expected)
})

// A key bound to `a.c` or `a*c` must not be valid for `abc`.
test('only a trailing * has a special meaning', () => {
  expect(['a.c', 'a*c', 'a?c', '[a]bc', 'ab\\*'].map((pattern) => matchesPattern(pattern, 'abc'))).toEqual([
    false,
    false,
    false,
    false,
    false,
  ])
})
