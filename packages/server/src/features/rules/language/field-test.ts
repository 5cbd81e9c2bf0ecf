import { ruleLimits } from '@wardline/contract'
import type { Budget } from './budget.ts'
import { added, deepUnits, noCost, unitsOf } from './cost.ts'
import { datePartOf, type Field, findField } from './fields.ts'
import { indexOf } from './list-index.ts'
import { type Chain, equalTo, listModifiers, looksAtCase, modifiers, readChain, type Test } from './modifiers.ts'
import { expandValue, hasPlaceholder, type RuleLists } from './placeholders.ts'
import { type Matches, noNames, type Predicate } from './predicate.ts'
import { valueForms } from './value-forms.ts'
import { isMissing, sizeOf, testing } from './value-tests.ts'

/** What the compiled parts of a rule share. */
export interface RuleScope {
  budget: Budget
  /** Of the modifiers of dates. */
  timezone: string
  /** Of the modifier expand. */
  lists: RuleLists
}

function equalToAny(exact: ReadonlySet<string>): Test {
  const test: Test = (given) => exact.has(given as string)
  test.inList = (list) => list.hasAnyOf(exact)
  return test
}

/** The values that have one of these texts, for tests of unchanged values, which may be numbers or true and false. */
const unchanged = (texts: ReadonlySet<string>): ReadonlySet<string> =>
  new Set<unknown>(
    [...texts].flatMap((text) => [text, ...[Number(text), true, false].filter((value) => String(value) === text)]),
  ) as ReadonlySet<string>

const scalarsOf = (value: unknown): ReadonlySet<unknown> =>
  new Set((Array.isArray(value) ? indexOf(value).scalars : [value]).map(String))

/** Tests whether two fields have an equal value. */
function comparing(field: Field, name: unknown, { isCased }: Chain, budget: Budget): Matches | string {
  if (typeof name !== 'string') return 'fieldref needs the name of a field.'
  const other = findField(name)
  if (typeof other === 'string') return other
  budget.read(other)
  const read = (each: Field) => (isCased ? each.read : each.lower)
  // Putting a list of addresses into a set takes as long as looking them up in networks.
  const cost = { ...noCost, networks: 1 }
  const matches: Matches = (event, work) => {
    const [left, right] = [read(field)(event), read(other)(event)]
    if (isMissing(left) || isMissing(right)) return false
    work?.count(unitsOf(cost, sizeOf(left) + sizeOf(right)))
    const values = scalarsOf(right)
    for (const value of scalarsOf(left)) if (values.has(value)) return true
    return false
  }
  matches.units = unitsOf(cost, field.characters)
  budget.add(matches.units)
  return matches
}

const tooLong = (value: unknown): boolean => typeof value === 'string' && value.length > ruleLimits.valueLength

/** Returns what is compared for a value: with `expand` a value for each entry, and of each the forms. */
function shapesOf(value: unknown, { modifier, isExpanded, forms }: Chain, scope: RuleScope): unknown[] | string {
  const isOfText = listModifiers[modifier ?? ''] === undefined
  const values = isExpanded ? expandValue(value, scope, isOfText) : [value]
  if (typeof values === 'string') return values
  // Of expressions the length is checked where they are compiled.
  if (modifier !== 're' && values.some(tooLong)) return `A value has at most ${ruleLimits.valueLength} characters.`
  if (forms.length === 0) return values
  const shapes: string[] = []
  for (const each of values) {
    if (typeof each !== 'string') return `${forms[0]} needs text.`
    const made = valueForms(each, forms)
    if (typeof made === 'string') return made
    if (scope.budget.exceedsForms(made.length)) {
      return `The values of a rule have at most ${ruleLimits.values} forms, such as those of ${forms[0]}.`
    }
    shapes.push(...made)
  }
  return shapes
}

/** Builds the tests of the values, of which one or each must pass; `exact` are texts that are looked up together. */
function testsOf(values: readonly unknown[], chain: Chain, scope: RuleScope) {
  const { budget } = scope
  const { modifier, isAll, isCased } = chain
  const given = (texts: ReadonlySet<string>) => (isCased ? unchanged(texts) : texts)
  const exact = new Set<string>()
  const tests: Test[] = []
  const testOf = (value: unknown) =>
    modifier === undefined ? equalTo(value, chain) : modifiers[modifier]!(value, chain)
  const together = isAll ? undefined : listModifiers[modifier ?? '']
  const shapesOfAll: unknown[][] = []
  for (const value of values) {
    const shapes = shapesOf(value, chain, scope)
    if (typeof shapes === 'string') return shapes
    shapesOfAll.push(shapes)
  }
  for (const shapes of together ? [[shapesOfAll.flat()]] : shapesOfAll) {
    const alternatives: Test[] = []
    for (const shape of shapes) {
      const test = together ? together(shape as unknown[]) : testOf(shape)
      if (typeof test === 'string') return test
      if (typeof test === 'function') {
        const excess = budget.spend(test)
        if (excess !== undefined) return excess
        alternatives.push(test)
      } else if (isAll) alternatives.push(equalToAny(given(new Set([test.exact]))))
      else exact.add(test.exact)
    }
    tests.push(...(isAll ? [oneOf(alternatives)] : alternatives))
  }
  return { exact: given(exact), tests }
}

/** Joins tests of the forms of one value. */
function oneOf(tests: readonly Test[]): Test {
  if (tests.length === 1) return tests[0]!
  const joined: Test = (given) => tests.some((test) => test(given))
  joined.cost = tests.map(({ cost = noCost }) => cost).reduce(added, noCost)
  return joined
}

const isNumeric = (modifier: string | undefined): boolean => /^[gl]te?$/.test(modifier ?? '')

/** Compiles the values of one field with its modifiers, or returns why it cannot. */
export function compileValues(given: Field, names: string[], value: unknown, scope: RuleScope): Predicate | string {
  const chain = readChain(names)
  if (typeof chain === 'string') return chain
  const { budget, timezone } = scope
  const { modifier, isAll, isNegated, isExpanded, isReference, part } = chain
  const field = part === undefined ? given : datePartOf(given, part, timezone)
  budget.read(field)
  const any = (matches: Matches): Predicate => {
    if (field.isDeep) matches.units = (matches.units ?? 0) + deepUnits
    const asked = isNegated ? otherThan(field, matches) : matches
    return { matches: asked, ofKind: () => asked, names: noNames }
  }
  if (modifier === 'exists') {
    if (typeof value !== 'boolean') return 'exists needs true or false.'
    return any((event) => (field.read(event) !== undefined) === value)
  }
  if (isReference) {
    const compared = comparing(field, value, chain, budget)
    return typeof compared === 'string' ? compared : any(compared)
  }
  if (value === null) {
    if (names.length > 0) return `null cannot be combined with the modifier ${names[0]}.`
    return any((event) => isMissing(field.read(event)))
  }
  const values = Array.isArray(value) ? value : [value]
  if (values.length === 0) return 'The list of values is empty.'
  if (values.length > ruleLimits.values) return `A list has at most ${ruleLimits.values} values.`
  if (values.includes(null)) return 'null cannot be in a list: use a separate selection, joined by or in the condition.'
  if (isAll && values.length === 1) return 'all needs a list of at least two values.'
  if (isExpanded && !values.some(hasPlaceholder)) {
    return 'expand needs the name of a list between percent signs, such as %allowed-hosts%.'
  }
  const made = testsOf(values, chain, scope)
  if (typeof made === 'string') return made
  const { exact, tests } = made
  const excess = budget.spendExpressions(tests, field)
  if (excess !== undefined) return excess
  // Numbers of dates are compared as numbers.
  const read = looksAtCase(chain) || isNumeric(modifier) ? field.read : field.lower
  // One lookup covers all plain values.
  if (exact.size > 0) tests.unshift(equalToAny(exact))
  const isPlain = exact.size > 0 && tests.length === 1 && !isNegated && !chain.isCased && part === undefined
  const matches = testing(tests, { isAll, read, characters: field.characters })
  budget.add(matches.units ?? 0)
  const { name } = field
  if (!isPlain || (name !== 'event_type' && name !== 'tool')) return any(matches)
  return { matches, ofKind: ({ [name]: given }) => typeof given === 'string' && exact.has(given), names: exact }
}

/** Whether the field is there and the test does not pass. */
function otherThan(field: Field, matches: Matches): Matches {
  const other: Matches = (event, work) => !isMissing(field.read(event)) && !matches(event, work)
  other.units = matches.units
  const { inSlices } = matches
  if (inSlices) {
    other.inSlices = function* (event, work) {
      return !isMissing(field.read(event)) && !(yield* inSlices(event, work))
    }
  }
  return other
}
