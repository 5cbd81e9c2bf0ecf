import fc from 'fast-check'
import { expect, test } from 'vitest'
import { compilePattern, matchesPattern } from './pattern.ts'

const codesOf = (text: string) => Array.from(text, (sign) => sign.codePointAt(0)!)
const matches = (pattern: string, text: string) => {
  const compiled = compilePattern(pattern)
  if (typeof compiled === 'string') throw new Error(compiled)
  return matchesPattern(compiled, codesOf(text))
}

test.each<[string, string, boolean]>([
  ['', '', true],
  ['abc', 'xabcx', true],
  ['^abc$', 'xabc', false],
  ['^abc$', 'abc\n', false],
  ['a.c', 'a\nc', false],
  ['a.c', 'a😀c', true],
  ['^.$', '😀', true],
  ['[a-c]+[^a-c]', 'abcx', true],
  ['[\\d\\-x]', '-', true],
  ['[^\\w\\s]', 'a b', false],
  ['\\bcat\\b', 'a cat.', true],
  ['\\bcat\\b', 'concat', false],
  ['\\Bcat', 'concat', true],
  ['(?i)straße', 'STRAßE', true],
  ['(?i)größe', 'GRÖSSE', false],
  ['(?i)ö', 'Ö', true],
  ['(?i)[a-z]', 'K', true],
  ['(?i)[^a-z]', 'K', false],
  ['a(?i:b)c', 'aBc', true],
  ['a(?i:b)c', 'aBC', false],
  ['a((?i)b)c', 'aBC', false],
  ['x|(?i)y|z', 'Z', true],
  ['a{2,3}', 'aa', true],
  ['^a{2,3}$', 'aaaa', false],
  ['^a{2}$', 'aa', true],
  ['^a{2,}$', 'aaaaa', true],
  ['^(a*)*$', 'aaab', false],
  ['^(?:a|)+$', 'aaa', true],
  ['a*?b', 'aab', true],
  ['(?P<name>a)', 'a', true],
  ['\\x41\\x{1F600}', 'A😀', true],
  ['^[\\x{1F600}-\\x{1F64F}]$', '😃', true],
  ['\\$\\.\\[', '$.[', true],
  ['\\t', '\t', true],
  ['^\\s$', '\u00a0', false],
  ['^\\d$', '٣', false],
  ['^\\w$', 'é', false],
])('%j in %j: %s', (pattern, text, isMatch) => expect(matches(pattern, text)).toBe(isMatch))

test.each<[string, RegExp]>([
  ['(a', /without a \)/],
  ['a)', /without a \(/],
  ['[a', /without a \]/],
  ['[]', /empty \[\]/],
  ['[z-a]', /ends before it begins/],
  ['[\\d-z]', /ends before it begins/],
  ['[[:alpha:]]', /by name/],
  ['*a', /nothing to repeat/],
  ['a**', /repeats a repetition/],
  ['^*', /repeats an anchor/],
  ['a{101}', /more than 100 times/],
  ['a{3,2}', /end is before/],
  ['a{x', /begins no \{2\}/],
  ['(?=a)', /not supported/],
  ['(?<!a)', /not supported/],
  ['(a)\\1', /\\1, which is not supported/],
  ['\\p{L}', /\\p, which is not supported/],
  ['[\\b]', /\\b, which is not supported/],
  ['\\x4', /\\x without a code/],
  ['\\', /ends in a backslash/],
  ['(a{100}){100}', /cost too much/],
  [`${'('.repeat(40)}${'){100}'.repeat(40)}`, /cost too much/],
  ['('.repeat(60), /more than 50 groups/],
])('%s is refused', (pattern, message) => expect(compilePattern(pattern)).toMatch(message))

const some = fc.constantFrom('a', 'b', 'ab', '.', '[ab]', '[^a]', '\\w', '\\d', '\\b', '^', '$', 'é', '😀', ' ')
const pattern = fc.letrec<{ node: string }>((tie) => ({
  node: fc.oneof(
    { maxDepth: 4 },
    some,
    fc.tuple(tie('node'), tie('node')).map(([one, other]) => one + other),
    fc.tuple(tie('node'), tie('node')).map(([one, other]) => `(?:${one}|${other})`),
    fc
      .tuple(tie('node'), fc.constantFrom('*', '+', '?', '{2}', '{1,3}', '{0,2}'))
      .map(([one, times]) => `(?:${one})${times}`),
  ),
})).node

test('a pattern matches what the expression of the language matches', () => {
  fc.assert(
    fc.property(
      pattern,
      fc.string({ unit: fc.constantFrom('a', 'b', ' ', '1', 'é', '😀', '\n'), maxLength: 12 }),
      (text, value) => {
        const compiled = compilePattern(text)
        fc.pre(typeof compiled !== 'string')
        expect(matches(text, value)).toBe(new RegExp(text, 'u').test(value))
      },
    ),
    { seed: 33, numRuns: 3_000 },
  )
})

// Attack: texts for which expressions with backtracking take minutes.
test.each(['^(a*)*$', '^(a|a)*$', '(a|aa)+$', '(.*a){20}$', '^(([a-z])+.)+[A-Z]([a-z])+$'])(
  '%s reads a long text in linear time',
  (text) => {
    expect(matches(text, `${'a'.repeat(5_000)}!`)).toBe(false)
  },
)
