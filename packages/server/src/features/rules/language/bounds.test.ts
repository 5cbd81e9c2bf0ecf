import { ruleLimits } from '@wardline/contract'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { compiled, faultsOf, logged } from '../../../testing/rules.ts'
import { compileExpression } from './regular-expression.ts'
import { parseRules } from './rule.ts'
import { ruleStates, step } from './rule-state.ts'
import { ValueMemory } from './value-memory.ts'

const none: ReadonlySet<string> = new Set()
const detection = (field: string, value: unknown) => ({ one: { [field]: value }, condition: 'one' })
const matches = (field: string, value: unknown, a: unknown): boolean => {
  const rule = compiled({ detection: detection(field, value) })
  return step(rule, ruleStates.start(rule), logged({ metadata: { a } }), new ValueMemory()).length > 0
}
const faultOf = (detection: object) => faultsOf(JSON.stringify({ title: 'Test', severity: 'info', detection }))[0]
const onlyFault = (field: string, value: unknown) => faultOf(detection(field, value))

test('hostile expressions build no states while they read, or read the beginning of a value with few instructions', () => {
  const atom = fc.constantFrom('a', '[ab]', '.', '[^c]', '\\w', '(a|b)', '\\b', '(?:ab|ba)')
  const part = fc.tuple(atom, fc.constantFrom('', '*', '{3}', '{0,9}', '{20}', '{1,60}')).map((pair) => pair.join(''))
  fc.assert(
    fc.property(fc.array(part, { minLength: 1, maxLength: 6 }), (parts) => {
      const fault = onlyFault(
        'metadata.a|re',
        parts.map((_, at) => parts.slice(0, at + 1).join('')),
      )
      const expressions = parts.map((_, at) => compileExpression(parts.slice(0, at + 1).join(''), none))
      const sizes = expressions.flatMap((each) => (typeof each === 'string' ? [] : [each.size]))
      for (const each of expressions) {
        if (typeof each !== 'string') expect([undefined, ruleLimits.expressionText]).toContain(each.reads)
      }
      const isTooMuch = sizes.reduce((sum, size) => sum + size, 0) > ruleLimits.expressionSizes
      const isOne = expressions.some((each) => typeof each === 'string')
      if (!isOne) expect(fault !== undefined).toBe(isTooMuch)
    }),
  )
})

test('expressions with few states read a whole value', () => {
  for (const pattern of ['curl.*\\|\\s*(ba)?sh', '[a-f0-9]{32}', '(?:\\d{1,3}\\.){3}\\d{1,3}', '\\bsudo\\b']) {
    expect(compileExpression(pattern, none), pattern).toMatchObject({ reads: undefined })
  }
  expect(matches('metadata.a|re', 'x[0-9]+y', `${'-'.repeat(16_000)}x12y`)).toBe(true)
})

test('expressions with many states read so many characters of a value, or of a list', () => {
  const pattern = '[ax].{1,50}b'
  const { expressionText } = ruleLimits
  expect(matches('metadata.a|re', pattern, `${'-'.repeat(expressionText - 3)}a-b`)).toBe(true)
  expect(matches('metadata.a|re', pattern, `${'-'.repeat(expressionText - 2)}a-b`)).toBe(false)
  expect(matches('metadata.a|re', pattern, ['-'.repeat(900), 'a-b'])).toBe(true)
  expect(matches('metadata.a|re', pattern, ['-'.repeat(expressionText), 'a-b'])).toBe(false)
})

test('expressions with many states that begin with plain text are looked for in the whole value', () => {
  const key = 'AKIAIOSFODNN7EXAMPLE'
  const far = `${'-'.repeat(15_000)}${key}`
  for (const pattern of ['AKIA[0-9A-Z]{16}', 'AKIA[0-9A-Z]{16}$', 'AKIA(?i)[0-9a-z]{16}\\b']) {
    expect(matches('metadata.a|re', pattern, far), pattern).toBe(true)
    expect(matches('metadata.a|re', pattern, ['-', far]), pattern).toBe(true)
    expect(matches('metadata.a|re', pattern, far.slice(0, -1)), pattern).toBe(false)
  }
  expect(matches('metadata.a|re', '\\QAKIA\\E[0-9A-Z]{16}', key)).toBe(true)
  const { expressionPlaces } = ruleLimits
  const after = (others: number) => `${'AKIA-'.repeat(others)}${key}`
  expect(matches('metadata.a|re', 'AKIA[0-9A-Z]{16}', after(expressionPlaces - 1))).toBe(true)
  expect(matches('metadata.a|re', 'AKIA[0-9A-Z]{16}', after(expressionPlaces))).toBe(false)
})

test('an expression finds the same with few states and with many', () => {
  const piece = fc.constantFrom('ab', 'a', 'b', 'c', '-')
  const text = fc.array(piece, { maxLength: 60 }).map((pieces) => pieces.join(''))
  fc.assert(
    fc.property(text, fc.constantFrom('[abc]{14}', '[ab].{9,11}c', '(a|b-){8,12}-'), (given, rest) => {
      const found = compileExpression(`ab${rest}`, none)
      if (typeof found === 'string') throw new Error(found)
      expect(found.matches(given)).toBe(new RegExp(`ab${rest}`).test(given))
    }),
  )
})

test('what the tests of a rule cost together is bounded, and the fault says the limit', () => {
  const many = (value: (index: number) => string, count: number) => Array.from({ length: count }, (_, at) => value(at))
  expect(onlyFault('metadata.a|contains', many(String, ruleLimits.comparedValues))).toBeUndefined()
  expect(onlyFault('metadata.a|contains', many(String, ruleLimits.comparedValues + 1))).toContain(
    `at most ${ruleLimits.comparedValues} values with contains`,
  )
  expect(onlyFault('metadata.a', `*${'a'.repeat(ruleLimits.wildcardSigns)}?*`)).toContain(
    `at most ${ruleLimits.wildcardSigns} characters`,
  )
  expect(onlyFault('metadata.a|re', ['a.{1,60}b', 'b.{1,60}a'])).toContain(`at most ${ruleLimits.expressionSizes} are`)
})

test('a condition that names selections too often is refused at its place', () => {
  const names = Object.fromEntries(Array.from({ length: 50 }, (_, at) => [`s${at}`, { 'metadata.a': 'b' }]))
  const condition = Array.from({ length: 21 }, () => '1 of s*').join(' or ')
  expect(faultOf({ ...names, condition })).toContain('name 1050 selections')
})

test('texts of empty documents, and documents after the first of a rule, cost nothing', () => {
  expect(parseRules('---\n'.repeat(14_000)).faults).toMatchObject([
    { line: ruleLimits.documents + 1, sentence: `The text has more than ${ruleLimits.documents} documents.` },
  ])
  const faults = parseRules('title: a\n---\ntitle: 1\n---\nbad\n', 1).faults.map(({ line }) => line)
  expect(faults).toEqual([1, 3])
})
