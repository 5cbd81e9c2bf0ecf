import { ruleLimits } from '@wardline/contract'
import { expect, test } from 'vitest'
import { compiled, faultsOf, logged } from '../../../testing/rules.ts'
import { parseRules } from './rule.ts'
import { ruleStates, step } from './rule-state.ts'
import { ValueMemory } from './value-memory.ts'

const detection = (field: string, value: unknown) => ({ one: { [field]: value }, condition: 'one' })
const matches = (field: string, value: unknown, a: unknown): boolean => {
  const rule = compiled({ detection: detection(field, value) })
  return step(rule, ruleStates.start(rule), logged({ metadata: { a } }), new ValueMemory()).length > 0
}
const faultOf = (detection: object) => faultsOf(JSON.stringify({ title: 'Test', severity: 'info', detection }))[0]
const onlyFault = (field: string, value: unknown) => faultOf(detection(field, value))

test('expressions are refused by what they cost, alone and together, never by their number', () => {
  const few = Array.from({ length: 100 }, (_, at) => `(?i)do\\s+not.{0,40}user${at}`)
  expect(onlyFault('description|re', few)).toBeUndefined()
  expect(matches('metadata.a|re', few[0], `${'do not '.repeat(2_300)}Do Not tell the USER0`)).toBe(true)
  const costOf = (values: string[]) => compiled({ detection: detection('metadata.a|re', values) }).cost
  const [one, two] = [costOf(few.slice(0, 1)), costOf(few.slice(0, 2))]
  // The sets of characters are found once for both.
  expect(two).toBeLessThan(2 * one)
  expect(onlyFault('metadata.a|re', [...few, ...few.map((each) => `${each}x`)])).toMatch(
    /cost an event of 16 KiB up to \d+\.\d ms so far/,
  )
  expect(onlyFault('metadata.a|re', '(?:[ab]c.*?d){1000}')).toContain(`at most ${ruleLimits.expressionPasses} are`)
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
})

// Attack: 59 KB of values that each stand for 625 took 26 seconds and 450 MB to compile.
test('the forms of the values of a rule are bounded, also those of plain values', () => {
  const values = Array.from({ length: 5 }, (_, at) => `x${at} -a -b -c -d`)
  expect(onlyFault('metadata.a|windash', values.slice(1))).toBeUndefined()
  expect(onlyFault('metadata.a|windash', values)).toContain(`at most ${ruleLimits.values} forms`)
})

// Attack: looking up 8,000 names above one of 16 KiB held the event loop for 200 ms, and decoding one for 45 ms.
test('what is longer than a name can be is not read as one, and the rest of an address may be of any length', () => {
  const long = 'a.'.repeat(700)
  const path = '/x'.repeat(2_000)
  expect(matches('metadata.a|domain', 'x.example', `http://${long}x.example/`)).toBe(false)
  expect(matches('metadata.a|domain', 'x.example', `http://${'\u00e4.'.repeat(200)}x.example/`)).toBe(false)
  expect(
    matches('metadata.a|domain', 'x.example', `http://${'a'.repeat(2_000)}@a.x.example:80${path}?@b.example`),
  ).toBe(true)
  expect(matches('metadata.a|domain', 'x.example', `http://${'a.'.repeat(100)}%78.example\\@b.example`)).toBe(true)
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
