import { createRequire } from 'node:module'
import type { RuleMatch } from '@wardline/contract'
import { Budget } from './budget.ts'
import { type Condition, parseCondition } from './condition.ts'
import { compileValues, type RuleScope } from './field-test.ts'
import { anywhere, type Field, findField, type RuleEvent } from './fields.ts'
import { folded } from './fold.ts'
import { indexOf } from './list-index.ts'
import { type Chain, readChain } from './modifiers.ts'
import { hasPlaceholder } from './placeholders.ts'
import type { CompiledRule } from './rule.ts'
import { keywordModifiers } from './selection.ts'

// Loaded with the first explanation.
const load = createRequire(import.meta.url)

/** Matches of an event: more than a person reads. */
const maxMatches = 50
/** Matches of a field. */
const maxOfField = 20
/** Elements of a list that are looked at one by one. */
const maxElements = 1_000
/** Characters of a value that are shown; the part that matched is within them. */
const maxValue = 2_000
/** Characters in which the part that an expression matched is searched: automata that cannot be built ahead are slow. */
const maxSearched = 4_000

type Scalar = string | number | boolean
type Part = Pick<RuleMatch, 'start' | 'end'>

const isScalar = (value: unknown): value is Scalar => typeof value !== 'object' && value !== undefined

/** Names of the selections that make a condition true; undefined if it is false. What `not` excludes names none. */
function decisive(condition: Condition, holds: (name: string) => boolean): string[] | undefined {
  switch (condition.kind) {
    case 'selection':
      return holds(condition.name) ? [condition.name] : undefined
    case 'not':
      return decisive(condition.operand, holds) === undefined ? [] : undefined
    default: {
      const parts = condition.operands.map((operand) => decisive(operand, holds))
      const found = parts.filter((part) => part !== undefined)
      const isTrue = condition.kind === 'and' ? found.length === parts.length : found.length > 0
      return isTrue ? found.flat() : undefined
    }
  }
}

type Step = NonNullable<NonNullable<CompiledRule['document']['correlation']>['rules']>[number]

/** Conditions of a rule: that of its detection, and those of its correlation. */
function conditionsOf({ detection, correlation }: CompiledRule['document']): string[] {
  const ofSteps = (steps: readonly Step[] = []): string[] =>
    steps.flatMap((step) => (typeof step === 'string' ? [step] : ofSteps(step.correlation.rules)))
  const steps = ofSteps(correlation?.rules)
  return steps.length > 0 || detection.condition === undefined ? steps : [detection.condition]
}

/** The smallest number from 1 to `max` for which the test holds; it holds for `max`, and for what is above it. */
function least(max: number, holds: (count: number) => boolean): number {
  let [low, high] = [0, max]
  while (high - low > 1) {
    const middle = (low + high) >> 1
    if (holds(middle)) high = middle
    else low = middle
  }
  return high
}

/** Moves the bounds so that they split no character. */
function wholeCharacters(text: string, start: number, end: number): Part {
  const splits = (at: number) => /^[\uD800-\uDBFF][\uDC00-\uDFFF]/.test(text.slice(Math.max(0, at - 1), at + 1))
  return { start: start > 0 && splits(start) ? start - 1 : start, end: splits(end) ? end + 1 : end }
}

/** The part of a text that matches by itself, found by leaving away what is not needed. */
function shortest(text: string, passes: (text: string) => boolean): Part {
  if (text === '' || passes('')) return { start: 0, end: text.length }
  const end = least(text.length, (count) => passes(text.slice(0, count)))
  const length = least(end, (count) => passes(text.slice(end - count, end)))
  return wholeCharacters(text, end - length, end)
}

function partOfExpression(text: string, patterns: readonly unknown[], { flags }: Chain): Part {
  const { RE2JS } = load('re2js') as typeof import('re2js')
  const bits =
    (flags.has('i') ? RE2JS.CASE_INSENSITIVE : 0) |
    (flags.has('m') ? RE2JS.MULTILINE : 0) |
    (flags.has('s') ? RE2JS.DOTALL : 0)
  for (const pattern of patterns) {
    const matcher = RE2JS.compile(String(pattern), bits).matcher(text.slice(0, maxSearched))
    if (matcher.find() && matcher.end() > matcher.start()) return { start: matcher.start(), end: matcher.end() }
  }
  return { start: 0, end: text.length }
}

/** The value, or of a long one what surrounds the part. */
function excerpt(text: string, { start, end }: Part): Pick<RuleMatch, 'value' | 'start' | 'end'> {
  const from = text.length <= maxValue ? 0 : Math.max(0, Math.min(start, text.length - maxValue))
  const value = text.slice(from, from + maxValue)
  return { value, start: start - from, end: Math.min(end - from, value.length) }
}

const textTests = [undefined, 'contains', 'startswith', 'endswith']

/** One field of a selection with its values, as in the document. */
class Entry {
  readonly #field: Field | string
  readonly #names: string[]
  readonly #value: unknown
  readonly #scope: Omit<RuleScope, 'budget'>

  constructor(key: string, value: unknown, scope: Omit<RuleScope, 'budget'>) {
    const [name = '', ...names] = key.split('|')
    this.#field = name === '' ? anywhere : findField(name)
    this.#names = typeof this.#field === 'string' ? names : keywordModifiers(this.#field, names)
    this.#value = value
    this.#scope = scope
  }

  #test(field: Field, value: unknown, names = this.#names): (event: RuleEvent) => boolean {
    // Of several values, those that are tested alone may name no list.
    const modifiers = names.filter((each) => each !== 'expand' || [value].flat().some(hasPlaceholder))
    const predicate = compileValues(field, modifiers, value, { budget: new Budget(), ...this.#scope })
    return typeof predicate === 'string' ? () => false : (event) => predicate.matches(event)
  }

  matches(event: RuleEvent): boolean {
    return typeof this.#field !== 'string' && this.#test(this.#field, this.#value)(event)
  }

  /** What of the event the entry matched; it matches. */
  found(event: RuleEvent): Omit<RuleMatch, 'selection'>[] {
    const field = this.#field
    const chain = readChain(this.#names)
    if (typeof field === 'string' || typeof chain === 'string') return []
    const name = field === anywhere ? null : field.name
    const given = field.read(event)
    const elements = (Array.isArray(given) ? indexOf(given).scalars : [given]).filter(isScalar).slice(0, maxElements)
    if (elements.length === 0) return [{ field: name, value: null, start: 0, end: 0 }]
    const whole = (element: Scalar) => ({ field: name, ...excerpt(String(element), { start: 0, end: 2 ** 31 }) })
    // These compare more than the value that they name.
    if (chain.modifier === 'exists' || chain.part !== undefined || chain.isNegated || chain.isReference) {
      return elements.slice(0, maxOfField).map(whole)
    }
    const values = Array.isArray(this.#value) ? this.#value : [this.#value]
    const names = this.#names.filter((each) => each !== 'all')
    const groups = chain.isAll ? values.slice(0, maxOfField).map((value) => [value]) : [values]
    const found = groups.flatMap((group) => {
      const passes = this.#ofElement(field, group, names)
      return elements
        .filter(passes)
        .slice(0, maxOfField)
        .map((element) => {
          const isText = typeof element === 'string' && (chain.modifier === 're' || textTests.includes(chain.modifier))
          if (!isText) return whole(element)
          // Of many values the first one that passes: the rest is then compared with one value.
          const upTo = (count: number) => this.#ofElement(field, group.slice(0, count), names)(element)
          const one = [group[least(group.length, upTo) - 1]]
          const part =
            chain.modifier === 're'
              ? partOfExpression(element, one, chain)
              : shortest(element, this.#ofElement(field, one, names))
          return { field: name, ...excerpt(element, part) }
        })
    })
    return found.slice(0, maxOfField)
  }

  /** Tests elements of the field's value one by one, by the same code as the field. */
  #ofElement(field: Field, values: readonly unknown[], names: string[]): (element: Scalar) => boolean {
    let given: Scalar = ''
    const lower = () => (typeof given === 'string' ? folded(given) : String(given).toLowerCase())
    const test = this.#test({ ...field, read: () => given, lower }, values, names)
    return (element) => {
      given = element
      return test({} as RuleEvent)
    }
  }
}

function entriesOf(selection: unknown, event: RuleEvent, scope: Omit<RuleScope, 'budget'>): Entry[] {
  const list = Array.isArray(selection) ? selection : [selection]
  const maps = list.filter((each) => typeof each === 'object')
  const keywords = list.filter((each) => typeof each !== 'object')
  const all = [...maps, ...(keywords.length > 0 ? [{ '': keywords }] : [])].map((map) =>
    Object.entries(map).map(([key, value]) => new Entry(key, value, scope)),
  )
  return all.filter((entries) => entries.every((entry) => entry.matches(event))).flat()
}

/**
 * What of an event the conditions of a rule matched: the fields and their values, with the part of each that decided. Empty
 * if no condition is true for the event. Costs some ten times what the rule costs an event: only for a person who asks.
 */
export function explainMatch({ document, selections, lists }: CompiledRule, event: RuleEvent): RuleMatch[] {
  const { condition: _condition, ...texts } = document.detection
  const holds = (name: string) => selections.get(name)?.matches(event) ?? false
  const names = conditionsOf(document).flatMap((text) => {
    const parsed = parseCondition(text, Object.keys(texts))
    return 'condition' in parsed ? (decisive(parsed.condition, holds) ?? []) : []
  })
  const scope = { timezone: document.timezone ?? 'UTC', lists }
  const found = new Map<string, RuleMatch>()
  for (const selection of new Set(names)) {
    for (const entry of entriesOf(texts[selection], event, scope)) {
      for (const match of entry.found(event)) {
        const { field, value, start, end } = match
        const key = JSON.stringify([field, value, start, end])
        if (!found.has(key)) found.set(key, { selection, ...match })
        if (found.size >= maxMatches) return [...found.values()]
      }
    }
  }
  return [...found.values()]
}
