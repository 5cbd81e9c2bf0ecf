import { createHash } from 'node:crypto'
import canonicalize from 'canonicalize'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { argsHash } from './canonical.ts'

const hashOf = (text: string) => createHash('sha256').update(text).digest('hex')

test.each<[string, unknown, string]>([
  [
    'keys in the order of UTF-16 code units',
    { b: 1, a: 2, '\u{1f600}': 3, '\ufb33': 4 },
    '{"a":2,"b":1,"\u{1f600}":3,"\ufb33":4}',
  ],
  [
    'numbers as ECMAScript prints them',
    [1e21, 1e-7, -0, 4.5, 333333333.3333333],
    '[1e+21,1e-7,0,4.5,333333333.3333333]',
  ],
  ['texts with control characters and a lone surrogate', '\u0007\ud800é"\\', '"\\u0007\\ud800é\\"\\\\"'],
  ['what JSON leaves out', { a: undefined, b: () => 1, c: [undefined, null, Symbol('x')] }, '{"c":[null,null,null]}'],
  ['a large integer', { n: 12345678901234567890n }, '{"n":12345678901234567890}'],
  [
    'a date and an address',
    [new Date(0), new URL('https://a.example/')],
    '["1970-01-01T00:00:00.000Z","https://a.example/"]',
  ],
  ['an own __proto__', JSON.parse('{"__proto__":{"x":1}}'), '{"__proto__":{"x":1}}'],
  ['nothing', undefined, 'null'],
])('%s', (_name, args, text) => expect(argsHash(args)).toBe(hashOf(text)))

test('what cannot be hashed has no hash, and nothing is thrown', () => {
  const cycle: { self?: unknown } = {}
  cycle.self = cycle
  const throws = {
    get secret() {
      throw new Error('no')
    },
  }
  const deep = JSON.parse(`${'['.repeat(20_000)}${']'.repeat(20_000)}`)
  expect([cycle, throws, deep, 'x'.repeat(5_000_000)].map(argsHash)).toEqual(Array(4).fill(undefined))
})

test('the hash of JSON is that of its canonical form, whatever the order of its keys', () => {
  fc.assert(
    fc.property(fc.json(), (text) => {
      const value = JSON.parse(text)
      expect(argsHash(value)).toBe(hashOf(canonicalize(value)!))
    }),
    { seed: 33, numRuns: 300 },
  )
})

// Attack: an approval of { amount: null } would be one of any amount.
test.each([
  ['an infinite number', JSON.parse('{"a":1e999}')],
  ['no number', { a: Number.NaN }],
  ['a map', { a: new Map([['b', 1]]) }],
  ['a set', { a: [new Set([1])] }],
])('%s has no hash', (_what, args) => expect(argsHash(args)).toBeUndefined())
