import { ruleLimits } from '@wardline/contract'
import { shown } from './fault.ts'

/** A condition over selections; `1 of x*` and similar forms are resolved to the selections that they name. */
export type Condition =
  | { kind: 'selection'; name: string }
  | { kind: 'not'; operand: Condition }
  | { kind: 'and' | 'or'; operands: Condition[] }

type ParsedCondition = { condition: Condition } | { offset: number; sentence: string }

const selectionName = /^[A-Za-z_][A-Za-z0-9_-]*$/
const reserved = ['and', 'or', 'not', 'of', 'them', 'all', '1']

/** Returns why a selection cannot have this name; undefined if it can. */
export function selectionNameFault(name: string): string | undefined {
  if (reserved.includes(name.toLowerCase())) return `A selection cannot be called ${name}: conditions use the word.`
  if (!selectionName.test(name)) {
    return `${shown(name)} cannot name a selection: letters, digits, _ and - are possible, a letter or _ first.`
  }
  return undefined
}

interface Word {
  text: string
  offset: number
}

/** Error of the parser with its position. */
class Stop extends Error {
  readonly offset: number

  constructor(offset: number, sentence: string) {
    super(sentence)
    this.offset = offset
  }
}

const matchesName = (pattern: string, name: string): boolean => {
  const parts = pattern.split('*')
  if (parts.length === 1) return name === pattern
  let from = parts[0]!.length
  if (!name.startsWith(parts[0]!)) return false
  for (const part of parts.slice(1, -1)) {
    const found = name.indexOf(part, from)
    if (found < 0) return false
    from = found + part.length
  }
  return name.length >= from + parts.at(-1)!.length && name.endsWith(parts.at(-1)!)
}

const join = (kind: 'and' | 'or', operands: Condition[]): Condition =>
  operands.length === 1 ? operands[0]! : { kind, operands }

/** Parses a Sigma condition. Precedence from low to high: or, and, not, `1 of`, brackets. */
export function parseCondition(text: string, selections: readonly string[]): ParsedCondition {
  const words: Word[] = [...text.matchAll(/[()]|[^\s()|]+|\|/g)].map(({ 0: word, index }) => ({
    text: word,
    offset: index,
  }))
  let at = 0
  const peek = (): string | undefined => words[at]?.text.toLowerCase()
  const next = (): Word => words[at++] ?? { text: '', offset: text.length }

  const quantified = (kind: 'and' | 'or', start: Word): Condition => {
    at += 1
    const { text: pattern, offset } = next()
    const isAll = pattern.toLowerCase() === 'them'
    if (pattern === '')
      throw new Stop(offset, `${start.text} of needs the selections after it: them, or a name with *.`)
    const found = selections.filter((name) => (isAll ? !name.startsWith('_') : matchesName(pattern, name)))
    if (found.length === 0) {
      throw new Stop(offset, `${start.text} of ${shown(pattern)} matches no selection.`)
    }
    return join(
      kind,
      found.map((name) => ({ kind: 'selection', name })),
    )
  }

  const single = (depth: number): Condition => {
    const word = next()
    const { text: name, offset } = word
    if (depth > ruleLimits.conditionDepth) {
      throw new Stop(offset, `The condition is nested more than ${ruleLimits.conditionDepth} levels deep.`)
    }
    const lower = name.toLowerCase()
    if (name === '') throw new Stop(offset, 'The condition ends where a selection is expected.')
    if (name === '(') {
      const inner = either(depth + 1)
      const close = next()
      if (close.text !== ')') throw new Stop(offset, 'This bracket is not closed.')
      return inner
    }
    if (name === ')') throw new Stop(offset, 'This bracket has no opening bracket.')
    if (lower === 'not') return { kind: 'not', operand: single(depth + 1) }
    if (peek() === 'of') {
      if (lower === '1') return quantified('or', word)
      if (lower === 'all') return quantified('and', word)
      throw new Stop(offset, `${shown(name)} of is not supported: only 1 of and all of are.`)
    }
    if (name.includes('*')) throw new Stop(offset, `${shown(name)} needs 1 of or all of before it.`)
    if (!selections.includes(name)) {
      throw new Stop(
        offset,
        reserved.includes(lower)
          ? `A selection is expected here, not ${name}.`
          : `The condition names the selection ${shown(name)}, which is missing.`,
      )
    }
    return { kind: 'selection', name }
  }

  const chain = (kind: 'and' | 'or', read: (depth: number) => Condition, depth: number): Condition => {
    const operands = [read(depth)]
    while (peek() === kind) {
      at += 1
      operands.push(read(depth))
    }
    return join(kind, operands)
  }
  const both = (depth: number): Condition => chain('and', single, depth)
  const either = (depth: number): Condition => chain('or', both, depth)

  try {
    const condition = either(0)
    const rest = words[at]
    if (rest === undefined) return { condition }
    const { text: word, offset } = rest
    if (word === '|') throw new Stop(offset, 'Aggregations after | are not supported: use correlation.')
    if (word === ')') throw new Stop(offset, 'This bracket has no opening bracket.')
    if (word.toLowerCase() === 'near')
      throw new Stop(offset, 'near is not supported: use a correlation of type temporal.')
    throw new Stop(offset, `and, or or the end is expected here, not ${shown(word)}.`)
  } catch (stop) {
    if (!(stop instanceof Stop)) throw stop
    return { offset: stop.offset, sentence: stop.message }
  }
}

/** Returns the names of the selections that a condition uses. */
export function namesIn(condition: Condition): string[] {
  switch (condition.kind) {
    case 'selection':
      return [condition.name]
    case 'not':
      return namesIn(condition.operand)
    default:
      return condition.operands.flatMap(namesIn)
  }
}

/** Returns the condition over renamed selections. */
export function renamed(condition: Condition, rename: (name: string) => string): Condition {
  switch (condition.kind) {
    case 'selection':
      return { kind: 'selection', name: rename(condition.name) }
    case 'not':
      return { kind: 'not', operand: renamed(condition.operand, rename) }
    default:
      return { kind: condition.kind, operands: condition.operands.map((operand) => renamed(operand, rename)) }
  }
}

/** Formats the condition, with renamed selections. */
export function printCondition(condition: Condition, rename: (name: string) => string): string {
  switch (condition.kind) {
    case 'selection':
      return rename(condition.name)
    case 'not':
      return `not ${printOperand(condition.operand, rename)}`
    default:
      return condition.operands.map((operand) => printOperand(operand, rename)).join(` ${condition.kind} `)
  }
}

function printOperand(operand: Condition, rename: (name: string) => string): string {
  const text = printCondition(operand, rename)
  return operand.kind === 'and' || operand.kind === 'or' ? `(${text})` : text
}
