import { ruleLimits } from '@wardline/contract'
import fc from 'fast-check'
import { RE2JS } from 're2js'
import { describe, expect, test } from 'vitest'
import { effort } from '../../../../../../test-servers/effort.ts'
import { ListIndex } from './list-index.ts'
import { readText } from './read-text.ts'
import { compileExpression } from './regular-expression.ts'

const none: ReadonlySet<string> = new Set()
function matcherOf(pattern: string, flags = none) {
  const found = compileExpression(pattern, flags)
  if (typeof found === 'string') throw new Error(found)
  return found
}
const finds = (pattern: string, text: string, flags = none) => matcherOf(pattern, flags).matches(readText(text))

const atom = fc.constantFrom(
  ...[
    'a',
    'b',
    '.',
    '[ab]',
    '[aA]',
    '[kK]',
    '[éÉ]',
    '[^a]',
    '\\w',
    '\\s',
    '\\b',
    '\\B',
    '^',
    '$',
    '\\A',
    '\\z',
    'é',
    '[À-ÿ]',
    '(?i:k)',
    '(?i:ß)',
    '(?i:s)',
    '(?i:σ)',
    '(?i:İ)',
    'σ',
  ],
  ...[
    '\\x{1F600}',
    '\\pL',
    '(?s:.)',
    '(?m:^)',
    '(?m:$)',
    '\\Qa.\\E',
    '[[:alpha:]]',
    '[]a]',
    '\\n',
    '\\x61',
    '(?:)',
    '(?i)',
  ],
)
const repetition = fc.constantFrom(
  '',
  '',
  '',
  '*',
  '+',
  '?',
  '{2}',
  '{0,3}',
  '{1,}',
  '{2,40}',
  '{33}',
  '{0,70}',
  '*?',
  '{1,2}?',
)
const { pattern } = fc.letrec((tie) => ({
  pattern: fc
    .array(fc.oneof({ depthSize: 'small' }, fc.tuple(atom, repetition), fc.tuple(tie('group'), repetition)), {
      maxLength: 5,
    })
    .map((parts) => (parts as [string, string][]).map((pair) => pair.join('')).join('')),
  group: fc
    .array(tie('pattern'), { minLength: 1, maxLength: 3 })
    .chain((branches) => fc.constantFrom('(', '(?:', '(?i:', '(?P<n>').map((open) => `${open}${branches.join('|')})`)),
})) as unknown as { pattern: fc.Arbitrary<string> }
const sign = fc.constantFrom(
  'a',
  'b',
  'A',
  'k',
  'K',
  '\u212a',
  'é',
  'É',
  'ß',
  'ẞ',
  's',
  'ſ',
  'σ',
  'ς',
  'Σ',
  'İ',
  ' ',
  '\n',
  '\u{1f600}',
  '.',
  ']',
  '-',
)
const run = fc.tuple(sign, fc.constantFrom(1, 1, 1, 2, 31, 32, 64)).map(([each, count]) => each.repeat(count))
const text = fc.array(run, { maxLength: 12 }).map((runs) => runs.join(''))
const flagSet = fc.subarray(['i', 'm', 's']).map((flags): ReadonlySet<string> => new Set(flags))

/** What the library finds, which runs its own automata. */
function found(expression: string, flags: ReadonlySet<string>, given: string): boolean | undefined {
  const bits =
    (flags.has('i') ? RE2JS.CASE_INSENSITIVE : 0) |
    (flags.has('m') ? RE2JS.MULTILINE : 0) |
    (flags.has('s') ? RE2JS.DOTALL : 0)
  try {
    return RE2JS.compile(expression, bits).matcher(given).find()
  } catch {
    return undefined
  }
}

test('an expression finds what the library finds, alone and in a list', () => {
  fc.assert(
    fc.property(pattern, flagSet, fc.array(text, { minLength: 1, maxLength: 4 }), (given, flags, texts) => {
      const compiled = compileExpression(given, flags)
      const expected = texts.map((each) => found(given, flags, each))
      // Of nested counts the library allows fewer, because it writes them out.
      if (typeof compiled === 'string' || expected[0] === undefined) return
      const own = texts.map((each) => compiled.matches(readText(each)))
      // The library knows no `$` before a last line feed.
      const isDollar = given.includes('$') && texts.some((each) => each.endsWith('\n'))
      if (!isDollar) expect(own).toEqual(expected)
      const list = new ListIndex(texts)
      expect(compiled.matches(list.text)).toBe(own.includes(true))
    }),
    { numRuns: effort(1_000, 50_000) },
  )
})

test('`$` is also the place before a last line feed, as in PCRE', () => {
  expect(finds('\\.env$', '/app/.env\n')).toBe(true)
  expect(finds('\\.env\\z', '/app/.env\n')).toBe(false)
  expect(finds('\\.env$', '/app/.env\n\n')).toBe(false)
  expect(new ListIndex(['.env\n', 'b']).text.indexed.length).toBe(7)
  expect(matcherOf('\\.env$').matches(new ListIndex(['.env\n', 'b']).text)).toBe(true)
})

test('no match goes from one text of a list into the next', () => {
  for (const each of [
    'abcd',
    'ab.cd',
    'ab\\s?cd',
    'ab[^x]*cd',
    '(?s)b.?c',
    'b\\Bc',
    '(?:ab|cd){2}',
    '(?:[a-d]b?)*dd',
  ]) {
    expect(matcherOf(each).matches(new ListIndex(['ab', 'cd', 'd']).text), each).toBe(false)
  }
})

// Attack: what is looked for stands behind 16 KiB of padding, made of what the expression itself reads.
describe('no padding hides a match', () => {
  const size = 16 * 1024
  const classes: [pattern: string, hit: string, pieces: string[]][] = [
    ['(?i)do\\s+not.{0,40}user', 'Do  NOT tell the USER', ['do ', 'do not ', 'do not use ', 'x', '\n']],
    ['a.{1,60}b.{1,60}c', 'a--b--c', ['a', 'a\n', 'a-b\n']],
    ['AKIA[0-9A-Z]{16}', 'AKIAIOSFODNN7EXAMPLE', ['AKIA ', 'AKIAIOSFODNN7-', 'A-']],
    ['(?:a|aa)+!', 'aa!', ['aa?', 'a ', 'aaaa-']],
    ['(?:[a-z]+\\s?)*=>', 'a b=>', ['abc ', 'a=', '> ']],
    ['(?:(?:[0-9]{1,3}\\.){3}[0-9]{1,3},){2}', '10.0.0.1,10.0.0.2,', ['10.0.0.1;', '1.', '10.0.0.1,10.0.0.']],
    ['\\b(?:sudo|doas)\\b', ' sudo ', ['sudoers ', 'xsudo ', 'do']],
    ['(?i)[^\\n]{100}end', `${'-'.repeat(100)}END`, ['-\n', 'end\n', 'en']],
    ['\\pL{5}\\d', 'éàüöß7', ['é', 'éàü ', '7']],
    ['x{300}y', `${'x'.repeat(300)}y`, [`${'x'.repeat(299)}-`, 'y', `-${'x'.repeat(299)}y`]],
    ['secret$', 'secret', ['secret ', 'secret\n', 's']],
    ['(?m)^rm .*-rf$', 'rm x -rf', ['rm -r\n', ' rm -rf\n', '-']],
    [
      'x(?:\\.(?:local|production|development|staging|backup))*!',
      'x.local.backup!',
      ['x.local', 'x.loca!', '.backup.staging'],
    ],
    ['x(?:(?:a|b){1,30}[cd]{30}e)*!', `x${`b${'cd'.repeat(15)}e`.repeat(3)}!`, ['xa', `xa${'c'.repeat(29)}e!`]],
    ['(?:ab){20,}c', `${'ab'.repeat(25)}c`, ['ab', 'c', 'abab-']],
  ]
  test.each(classes)('is found behind and before padding: %s', (given, hit, pieces) => {
    const compiled = matcherOf(given)
    for (const piece of pieces) {
      const padding = `${piece.repeat(Math.ceil(size / piece.length))}\n`
      expect(compiled.matches(readText(padding)), piece).toBe(false)
      expect(compiled.matches(readText(`${padding}${hit}`)), piece).toBe(true)
      if (!given.includes('$')) expect(compiled.matches(readText(`${hit}${padding}`)), piece).toBe(true)
      const list = new ListIndex([padding, hit, padding])
      expect(compiled.matches(list.text), piece).toBe(true)
    }
  })
})

// Attack: patterns on which engines that backtrack, or that write automata out, take for ever.
test('catastrophic expressions cost what they say, or are refused at once', () => {
  const catastrophic = [
    '(a+)+$',
    '(a|aa)+$',
    '(a|a?)+$',
    '(.*a){20}$',
    '(?:a?){100}a{100}',
    '[ab]*a[ab]{900}x',
    '(?:.{0,900}a){3}$',
    '((((a{30}){30}){30}){30}){30}',
    '(?:(?:(?:(?:){1000}){1000}){1000})*',
    '(?:(?:(?:(?:){1000}){1000}){1000})',
    '(?:a{1000}){1000}',
    '(?:.{1,30}.{1,30})*x',
    `${'('.repeat(99)}a${')*'.repeat(99)}`,
    `${'('.repeat(3_000)}a`,
    `${'(?:a|'.repeat(600)}b`,
    '['.repeat(4_000),
    '\\'.repeat(3_999),
    '(?i)'.repeat(1_000),
    `[${'\\pL'.repeat(100)}]`,
    '(?:\\pL|[^\\pL])'.repeat(200),
  ]
  const texts = ['a', 'ab', 'é', '中', '-'].map((each) => `${each.repeat(16_000 / each.length)}!`)
  for (const each of catastrophic) {
    const began = process.cpuUsage()
    const compiled = compileExpression(each, none)
    const { user } = process.cpuUsage(began)
    expect(user, each.slice(0, 50)).toBeLessThan(500_000)
    if (typeof compiled === 'string') continue
    expect(compiled.passes).toBeLessThanOrEqual(ruleLimits.expressionPasses)
    for (const given of texts) {
      compiled.matches(readText(given))
      const before = process.cpuUsage()
      compiled.matches(readText(given))
      // Five times the highest cost that is accepted.
      expect(process.cpuUsage(before).user, each).toBeLessThan(10_000)
    }
  }
})

test.each([
  ['a{2,1}', 'the invalid repetition {2,1}'],
  ['a{1001}', 'at most 1000 are possible'],
  ['(?:a\\b)*', 'repeats without limit what contains'],
  ['(?:a{129})*', 'more than 128 characters'],
  ['(?=a)', 'Look-around and back-references are not supported'],
  ['(a)\\1', 'Look-around and back-references are not supported'],
  ['a**', 'cannot be compiled'],
  ['a{2}{3}', 'cannot be compiled'],
  ['(a', 'cannot be compiled'],
  ['a)', 'cannot be compiled'],
  ['*', 'cannot be compiled'],
  ['[b-a]', 'cannot be compiled'],
  ['(?:[ab]c){1000}{2}', 'cannot be compiled'],
  ['(?:[ab]c.*?d){1000}', 'passes over a text'],
])('refuses %s', (given, reason) => {
  expect(compileExpression(given, none)).toContain(reason)
})
