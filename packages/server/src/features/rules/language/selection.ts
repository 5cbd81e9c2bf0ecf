import { ruleLimits } from '@wardline/contract'
import { type Slices, sliceUnits, type WorkBudget } from '../../../work-turns.ts'
import { askedOnce, type Question } from './asked-once.ts'
import type { Condition } from './condition.ts'
import { type Cost, noCost, sizeCost, unitsOf } from './cost.ts'
import { type Faults, type Path, shown } from './fault.ts'
import { type Field, findField, type RuleEvent, takeWalked } from './fields.ts'
import { indexOf } from './list-index.ts'
import { equalTo, inNetworks, looksAtCase, modifiers, readChain, type Test } from './modifiers.ts'

/** A test of an event. */
export interface Predicate {
  matches: Matches
  /** Returns the test that remains for events of a kind, or its result if the kind alone decides. */
  ofKind(kind: EventKind): boolean | Matches
  /** Types and tools that it distinguishes, in lower case: all others are one kind. */
  names: ReadonlySet<string>
}

export type Matches = Question<RuleEvent, boolean>

/** Answers after a yield if the slice is over, and in slices if an answer may cost much of one. */
export function* asked(matches: Matches, event: RuleEvent, work: WorkBudget): Slices<boolean> {
  if (work.isSliceOver()) yield
  const answer = matches.inSlices ? yield* matches.inSlices(event, work) : matches(event, work)
  work.count(takeWalked())
  return answer
}

const unitsOfAll = (questions: readonly Matches[]): number => questions.reduce((sum, { units = 0 }) => sum + units, 0)

/** Whether the answers to all of the questions may cost much of a slice. */
export const isCostly = (questions: readonly Matches[]): boolean => unitsOfAll(questions) > costlyUnits

/** Type and tool of an event, in lower case; null: one that no rule names. */
export interface EventKind {
  event_type: string | null
  tool: string | null | undefined
}

const noNames: ReadonlySet<string> = new Set()

export type Selections = ReadonlyMap<string, Predicate>

/** Whether the test passes for the value or for an element of a list. */
function holds(test: Test, value: unknown): boolean {
  switch (typeof value) {
    case 'string':
    case 'number':
    case 'boolean':
      return test(value)
    default:
      if (!Array.isArray(value)) return false
      if (test.reads !== undefined) return beginning(value, test.reads).some((element) => test(element))
      return test.inList ? test.inList(indexOf(value)) : indexOf(value).scalars.some((element) => test(element))
  }
}

/** Characters that tests read of a value. */
function sizeOf(value: unknown): number {
  if (typeof value === 'string') return value.length
  return Array.isArray(value) ? indexOf(value).characters : 1
}

/** Above these units, the tests of a value are run in slices: a few of them then make one. */
const costlyUnits = sliceUnits / 4
/** Of a test whose field is found by a walk: a few of them make a slice. */
const deepUnits = costlyUnits / 4
/** Up to these units (a microsecond) they are not counted, because the rest of a rule costs as much. */
const freeUnits = sliceUnits / 1_000

/** Whether all tests of a value pass, or any; `characters` is its maximum. */
function testing(
  tests: readonly Test[],
  { isAll, read, characters }: { isAll: boolean; read: (event: RuleEvent) => unknown; characters: number },
): Matches {
  const costs = tests.map(({ cost = noCost }) => cost)
  const sum = costs.reduce(added, noCost)
  const highest = unitsOf(sum, characters)
  const free = (freeUnits / highest) * characters
  const [only] = tests
  const decides = (given: unknown) => (test: Test) => holds(test, given) !== isAll
  const matches: Matches = (event, work) => {
    const given = read(event)
    if (isMissing(given)) return false
    const size = highest > freeUnits ? sizeOf(given) : 0
    if (size > free) work?.count(unitsOf(sum, size))
    if (tests.length === 1) return holds(only!, given)
    return tests.some(decides(given)) !== isAll
  }
  matches.units = highest
  if (highest <= costlyUnits || tests.length === 1) return matches
  matches.inSlices = function* (event, work) {
    const given = read(event)
    if (isMissing(given)) return false
    const size = sizeOf(given)
    for (const [index, test] of tests.entries()) {
      work.count(unitsOf(costs[index]!, size))
      if (work.isSliceOver()) yield
      if (holds(test, given) !== isAll) return !isAll
    }
    return isAll
  }
  return matches
}

/** Fixed cost of reading an element, in characters. */
const elementCost = 16

/** Returns the elements of a list within this number of characters; cuts the last one. */
function beginning(list: readonly unknown[], characters: number): string[] {
  let left = characters
  const read = (elements: readonly unknown[]): string[] =>
    elements.flatMap((element) => {
      if (left <= 0) return []
      if (Array.isArray(element)) return read(element)
      const text = String(element).slice(0, left)
      left -= text.length + elementCost
      return typeof element === 'object' ? [] : [text]
    })
  return read(list)
}

const isMissing = (value: unknown): boolean => value === undefined || value === null

function added(one: Cost, other: Cost): Cost {
  const sum = { ...one }
  for (const name of Object.keys(sum) as (keyof Cost)[]) sum[name] += other[name]
  return sum
}

/** Adds up the cost of a rule's tests, which share its limits. */
export class Budget {
  #spent = noCost
  #names = 0
  #tests = 0
  readonly #deepFields = new Set<string>()
  #units = 0

  /** The highest units that the rule costs an event. */
  get units(): number {
    return this.#units + sizeCost(this.#tests, this.#deepFields.size)
  }

  /** Counts units that are not those of a test. */
  add(units: number): void {
    this.#units += units
  }

  /** Counts a field that is tested, or that a correlation reads. */
  read({ name, isDeep }: Pick<Field, 'name' | 'isDeep'>): void {
    this.#tests += 1
    if (isDeep) this.#deepFields.add(name)
  }

  /** Adds selections named by a condition; adds a fault when they exceed the limit of the rule. */
  name(selections: number, path: Path, faults: Faults): void {
    const before = this.#names
    this.#names += selections
    const { conditionNames } = ruleLimits
    if (before <= conditionNames && this.#names > conditionNames) {
      faults.add(
        path,
        `The conditions of this rule name ${this.#names} selections so far, each time counted; at most ${conditionNames} are possible.`,
      )
    }
  }

  /** Adds the cost of a test; returns a sentence if a limit is exceeded. */
  spend({ cost }: Test, { characters }: Field): string | undefined {
    if (cost === undefined) return undefined
    const spent = added(this.#spent, cost)
    this.#spent = spent
    this.#units += unitsOf(cost, characters)
    const { comparedValues, wildcardSigns, expressions, expressionSizes, expressionText } = ruleLimits
    if (spent.compared > comparedValues) {
      return `A rule has at most ${comparedValues} values with contains, startswith, endswith or wildcards.`
    }
    if (spent.signs > wildcardSigns) {
      return `A rule has at most ${wildcardSigns} characters in parts with ? between two *.`
    }
    if (spent.expressions > expressions) return `A rule has at most ${expressions} regular expressions.`
    if (spent.sizes > expressionSizes) {
      return `The regular expressions of this rule that repeat what can begin anywhere have ${spent.sizes} instructions so far; at most ${expressionSizes} are possible, since each is applied to every one of the first ${expressionText} characters. Shorten repetitions such as .{1,100}, or use * instead of a number.`
    }
    return undefined
  }
}

function equalToAny(exact: ReadonlySet<string>): Test {
  const test: Test = (given) => exact.has(given as string)
  test.inList = (list) => list.hasAnyOf(exact)
  return test
}

function compileValues(field: Field, names: string[], value: unknown, budget: Budget): Predicate | string {
  const chain = readChain(names)
  if (typeof chain === 'string') return chain
  const { modifier, isAll, flags } = chain
  budget.read(field)
  const any = (matches: Matches): Predicate => {
    if (field.isDeep) matches.units = (matches.units ?? 0) + deepUnits
    return { matches, ofKind: () => matches, names: noNames }
  }
  if (modifier === 'exists') {
    if (typeof value !== 'boolean') return 'exists needs true or false.'
    return any((event) => (field.read(event) !== undefined) === value)
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
  if (/^[gl]te?$/.test(modifier ?? '') && Array.isArray(value)) return `${modifier} needs one number, not a list.`
  const exact = new Set<string>()
  const tests: Test[] = []
  // One lookup covers all networks.
  const isOne = modifier === 'cidr' && !isAll
  for (const one of isOne ? [values] : values) {
    if (typeof one === 'string' && one.length > ruleLimits.valueLength) {
      return `A value has at most ${ruleLimits.valueLength} characters.`
    }
    const test = isOne ? inNetworks(values) : modifier === undefined ? equalTo(one) : modifiers[modifier]!(one, flags)
    if (typeof test === 'string') return test
    if (typeof test === 'function') {
      const excess = budget.spend(test, field)
      if (excess !== undefined) return excess
      tests.push(test)
    } else if (isAll) tests.push(equalToAny(new Set([test.exact])))
    else exact.add(test.exact)
  }
  const read = looksAtCase(modifier) ? field.read : field.lower
  // One lookup covers all plain values.
  if (exact.size > 0) tests.unshift(equalToAny(exact))
  const isPlain = exact.size > 0 && tests.length === 1
  const matches = testing(tests, { isAll, read, characters: field.characters })
  const { name } = field
  if (!isPlain || (name !== 'event_type' && name !== 'tool')) return any(matches)
  return { matches, ofKind: ({ [name]: given }) => typeof given === 'string' && exact.has(given), names: exact }
}

/**
 * Returns `answer` if all tests return it: with true they are joined by and, with false by or. Stops at the first
 * other.
 */
function joined(questions: readonly Matches[], answer: boolean): Matches {
  if (questions.length === 1) return questions[0]!
  const matches: Matches = (event, work) => {
    for (const question of questions) if (question(event, work) !== answer) return !answer
    return answer
  }
  matches.units = unitsOfAll(questions)
  if (isCostly(questions)) {
    matches.inSlices = function* (event, work) {
      for (const question of questions) if ((yield* asked(question, event, work)) !== answer) return !answer
      return answer
    }
  }
  return matches
}

function combined(predicates: readonly Predicate[], answer: boolean): Predicate {
  const all = predicates.map(({ matches }) => matches)
  const matches = joined(all, answer)
  return {
    matches,
    names: new Set(predicates.flatMap(({ names }) => [...names])),
    ofKind(kind) {
      const left = predicates.map((predicate) => predicate.ofKind(kind))
      if (left.includes(!answer)) return !answer
      const questions = left.filter((each) => typeof each === 'function')
      if (questions.length === 0) return answer
      // Unchanged tests keep their function, because rules share its cached result.
      return questions.every((question, at) => question === all[at]) && questions.length === all.length
        ? matches
        : joined(questions, answer)
    },
  }
}

export const everyOf = (predicates: readonly Predicate[]): Predicate => combined(predicates, true)
const someOf = (predicates: readonly Predicate[]): Predicate => combined(predicates, false)

const isMap = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/**
 * Lets rules with equal selections share a cached result: many look for the same tool or type. JSON identifies a
 * selection, because documents contain no numbers that JSON lacks.
 */
function shared(map: Record<string, unknown>, { matches, ofKind, names }: Predicate): Predicate {
  const once = askedOnce(`selection ${JSON.stringify(map)}`, matches)
  return {
    matches: once,
    names,
    ofKind(kind) {
      const left = ofKind(kind)
      return left === matches ? once : left
    },
  }
}

function compileMap(map: Record<string, unknown>, path: Path, faults: Faults, budget: Budget): Predicate | undefined {
  const entries = Object.entries(map)
  const refuse = (sentence: string) => void faults.add(path, sentence)
  if (entries.length === 0) return refuse('The selection has no field.')
  if (entries.length > ruleLimits.fields) return refuse(`A selection has at most ${ruleLimits.fields} fields.`)
  const predicates = entries.map(([key, value]) => {
    const [name = '', ...names] = key.split('|')
    const field =
      name === ''
        ? 'Keywords (|all without a field) are not supported: name a field, such as description|contains|all.'
        : findField(name)
    const compiled = typeof field === 'string' ? field : compileValues(field, names, value, budget)
    if (typeof compiled !== 'string') return shared({ [key]: value }, compiled)
    faults.add([...path, key], compiled)
    return undefined
  })
  return predicates.includes(undefined) ? undefined : shared(map, everyOf(predicates as Predicate[]))
}

/**
 * Compiles a selection: a map of fields, or a list of such maps. Adds a fault and returns undefined if it is invalid.
 */
export function compileSelection(value: unknown, path: Path, faults: Faults, budget: Budget): Predicate | undefined {
  if (isMap(value)) return compileMap(value, path, faults, budget)
  const refuse = (sentence: string) => void faults.add(path, sentence)
  if (!Array.isArray(value)) return refuse('A selection is a map of fields, or a list of such maps.')
  if (value.length === 0) return refuse('The selection is empty.')
  if (value.length > ruleLimits.fields) return refuse(`A list has at most ${ruleLimits.fields} maps.`)
  const keyword = value.find((entry) => !isMap(entry))
  if (keyword !== undefined) {
    return refuse(
      `Keywords such as ${shown(keyword)} are not supported, because an event is not a line of text: name a field, such as description|contains.`,
    )
  }
  const predicates = value.map((map, index) => compileMap(map, [...path, index], faults, budget))
  return predicates.includes(undefined) ? undefined : someOf(predicates as Predicate[])
}

/** Compiles a condition whose names are all among the selections. */
export function compileCondition(condition: Condition, selections: Selections): Predicate {
  switch (condition.kind) {
    case 'selection':
      return selections.get(condition.name)!
    case 'not': {
      const { matches, ofKind, names } = compileCondition(condition.operand, selections)
      const not = (question: Matches): Matches => {
        const opposite: Matches = (event, work) => !question(event, work)
        opposite.units = question.units
        if (question.inSlices) {
          opposite.inSlices = function* (event, work) {
            return !(yield* asked(question, event, work))
          }
        }
        return opposite
      }
      return {
        matches: not(matches),
        names,
        ofKind(kind) {
          const left = ofKind(kind)
          return typeof left === 'boolean' ? !left : not(left)
        },
      }
    }
    default: {
      const operands = condition.operands.map((operand) => compileCondition(operand, selections))
      return condition.kind === 'and' ? everyOf(operands) : someOf(operands)
    }
  }
}
