import { ruleLimits } from '@wardline/contract'
import { askedOnce } from './asked-once.ts'
import type { Condition } from './condition.ts'
import type { Faults, Path } from './fault.ts'
import { compileValues, type RuleScope } from './field-test.ts'
import { anywhere, findField } from './fields.ts'
import { modifiers } from './modifiers.ts'
import { listsIn } from './placeholders.ts'
import { asked, isCostly, type Matches, type Predicate, unitsOfAll } from './predicate.ts'

export type Selections = ReadonlyMap<string, Predicate>

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
function shared(
  map: Record<string, unknown>,
  { matches, ofKind, names }: Predicate,
  { timezone, lists }: RuleScope,
): Predicate {
  // Rules compiled before and after a change of a list must not share.
  const entries = listsIn(map).map((name) => lists.get(name))
  const once = askedOnce(`selection in ${timezone} ${JSON.stringify([map, ...entries])}`, matches)
  return {
    matches: once,
    names,
    ofKind(kind) {
      const left = ofKind(kind)
      return left === matches ? once : left
    },
  }
}

function compileMap(map: Record<string, unknown>, path: Path, faults: Faults, scope: RuleScope): Predicate | undefined {
  const entries = Object.entries(map)
  const refuse = (sentence: string) => void faults.add(path, sentence)
  if (entries.length === 0) return refuse('The selection has no field.')
  if (entries.length > ruleLimits.fields) return refuse(`A selection has at most ${ruleLimits.fields} fields.`)
  const predicates = entries.map(([key, value]) => {
    const [name = '', ...names] = key.split('|')
    const field = name === '' ? anywhere : findField(name)
    const compiled =
      typeof field === 'string' ? field : compileValues(field, keywordModifiers(field, names), value, scope)
    if (typeof compiled !== 'string') return shared({ [key]: value }, compiled, scope)
    faults.add([...path, key], compiled)
    return undefined
  })
  return predicates.includes(undefined) ? undefined : shared(map, everyOf(predicates as Predicate[]), scope)
}

/** Keywords are found in any part of a text, unless they say otherwise. */
export const keywordModifiers = (field: object, names: string[]): string[] =>
  field !== anywhere || names.some((name) => Object.hasOwn(modifiers, name)) ? names : ['contains', ...names]

/**
 * Compiles a selection: a map of fields, or a list of such maps and of keywords, which are found anywhere in an event.
 * Adds a fault and returns undefined if it is invalid.
 */
export function compileSelection(value: unknown, path: Path, faults: Faults, scope: RuleScope): Predicate | undefined {
  if (isMap(value)) return compileMap(value, path, faults, scope)
  const refuse = (sentence: string) => void faults.add(path, sentence)
  const list = Array.isArray(value) ? value : [value]
  if (list.length === 0) return refuse('The selection is empty.')
  const maps = list.filter(isMap)
  const keywords = list.filter((entry) => !isMap(entry))
  if (maps.length > ruleLimits.fields) return refuse(`A list has at most ${ruleLimits.fields} maps.`)
  if (keywords.includes(null)) return refuse('A selection is a map of fields, a keyword, or a list of these.')
  const predicates = [
    ...maps.map((map) => compileMap(map, [...path, list.indexOf(map)], faults, scope)),
    ...(keywords.length === 0 ? [] : [compileMap({ '': keywords }, path, faults, scope)]),
  ]
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
