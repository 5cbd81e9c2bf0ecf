import fc from 'fast-check'
import { expect, test } from 'vitest'
import { atOnce } from '../../testing/work.ts'
import { WorkBudget } from '../../work-turns.ts'
import { compilePathPattern, matchesNames, validatePathPattern } from './path-pattern.ts'
import { PatternIndex } from './pattern-index.ts'

const endless = () => new WorkBudget(Number.MAX_SAFE_INTEGER)
const indexOf = (patterns: string[]) => atOnce(PatternIndex.build(patterns, endless()))

const matches = (pattern: string, forms: string[]) =>
  compilePathPattern(pattern).alternatives.some((alternative) =>
    forms.some((form) => matchesNames(alternative, form.split('/'))),
  )

const name = fc.constantFrom('srv', 'app', 'keys', 'secrets', 'credentials', 'id_rsa', 'a', '.aws', 'vault.kdbx')
const wild = fc.oneof(
  name,
  name.map((text) => `${text}*`),
  name.map((text) => `*${text.slice(1)}`),
  name.map((text) => `${text.slice(0, 2)}?${text.slice(3)}`),
  fc.constantFrom('**', '*', 's*c*t*'),
)
const rooted = (names: fc.Arbitrary<string>) =>
  fc
    .tuple(fc.constantFrom('/', '~/', '', 'c:/'), fc.array(names, { minLength: 1, maxLength: 5 }))
    .map(([root, parts]) => root + parts.join('/'))

// An index that files a pattern under a wrong mark would silently miss a decoy.
test('finds the same patterns as comparing with each one', () => {
  const pattern = rooted(wild).filter((path) => validatePathPattern(path) === null)
  fc.assert(
    fc.property(fc.array(pattern, { maxLength: 30 }), fc.array(rooted(name), { maxLength: 10 }), (patterns, forms) => {
      const expected = patterns.filter((one) => matches(one, forms))
      expect([...atOnce(indexOf(patterns).find(forms, endless()))].sort()).toEqual([...new Set(expected)].sort())
    }),
    { numRuns: 500 },
  )
})

/** Sums the cost of comparisons. */
class CountingBudget extends WorkBudget {
  units = 0
  override take(units: number): boolean {
    this.units += units
    return super.take(units)
  }
}

test('compares a path only with those of 5,000 patterns that share a mark with it', () => {
  const patterns = Array.from({ length: 5_000 }, (_, number) => `/srv/tenant-${number}/secrets/*.pem`)
  const index = indexOf(patterns)
  const budget = new CountingBudget(Number.MAX_SAFE_INTEGER)
  const forms = Array.from({ length: 100 }, (_, number) => `/srv/tenant-${number * 7}/secrets/tls${number}.pem`)
  expect(atOnce(index.find(forms, budget)).size).toBe(100)
  expect(budget.units).toBeLessThan(100 * 10_000)
})

test('stops when the budget is exhausted', () => {
  const index = indexOf(Array.from({ length: 5_000 }, (_, number) => `/srv/app/secrets/*a${'?'.repeat(number % 9)}x*`))
  const budget = new WorkBudget(1_000_000)
  atOnce(
    index.find(
      Array.from({ length: 2_000 }, (_, number) => `/srv/app/secrets/aax${number}`),
      budget,
    ),
  )
  expect(budget.isExhausted).toBe(true)
})
