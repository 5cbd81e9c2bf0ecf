import { commandLines } from './commands.ts'
import { hostOf, matchesGlob, matchesHost, matchesPath } from './glob.ts'
import { matchesPattern, type Pattern } from './pattern.ts'

export type Arguments = Readonly<Record<string, unknown>>
/** What a condition says of a call. `unknown`: it cannot be evaluated. */
export type Truth = true | false | 'unknown'
export type Scalar = string | number | boolean

export const modifiers = ['glob', 're', 'in', 'host', 'path', 'command', 'lt', 'lte', 'gt', 'gte'] as const
export type Modifier = (typeof modifiers)[number]

/** What a rule asks of one argument. */
export interface Condition {
  /** As written: `recipients|not_host`. */
  key: string
  name: string
  modifier: Modifier
  isNegated: boolean
  wanted: readonly Scalar[]
  /** For the modifier `re`: the values, compiled. */
  patterns: readonly Pattern[]
}

/** Values of one argument that are compared. A call with more cannot be evaluated. */
const maxLeaves = 10_000

/** Returns the strings, numbers and truth values within an argument. */
function scalarsOf(value: unknown, found: Scalar[] = []): Scalar[] {
  if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean') found.push(value)
  else if (typeof value === 'object' && value !== null && found.length <= maxLeaves) {
    for (const inner of Object.values(value)) scalarsOf(inner, found)
  }
  return found
}

/**
 * Finds an argument by name, or by a path such as `options.url`, which goes into each item of a list; `*` finds all.
 * Undefined: it is absent.
 */
function argumentOf(args: Arguments, name: string): unknown {
  if (name === '*') return args
  if (Object.hasOwn(args, name)) return args[name]
  let values: unknown[] = [args]
  for (const part of name.split('.')) {
    values = values
      .flatMap((value) => (Array.isArray(value) ? value : [value]))
      .filter((value) => typeof value === 'object' && value !== null && Object.hasOwn(value, part))
      .map((value) => (value as Arguments)[part])
  }
  return values.length > 0 ? values : undefined
}

/** Returns the sum of the numbers within an argument; undefined if it has none, or anything but numbers from zero on. */
export function amountOf(args: Arguments, name: string): number | undefined {
  const values = scalarsOf(argumentOf(args, name))
  if (values.length === 0 || values.length > maxLeaves) return undefined
  let sum = 0
  for (const value of values) {
    const number = numberOf(value)
    if (number === undefined || number < 0) return undefined
    sum += number
  }
  return sum
}

const numberOf = (value: Scalar): number | undefined => {
  if (typeof value === 'number') return Number.isFinite(value) ? value : undefined
  return typeof value === 'string' && /^\s*-?\d+(?:\.\d+)?\s*$/.test(value) ? Number(value) : undefined
}

const limits: Partial<Record<Modifier, (value: number, limit: number) => boolean>> = {
  lt: (value, limit) => value < limit,
  lte: (value, limit) => value <= limit,
  gt: (value, limit) => value > limit,
  gte: (value, limit) => value >= limit,
}

/** Compares one value with the values of a condition, other than patterns. */
export function compare(modifier: Modifier, value: Scalar, wanted: readonly Scalar[]): Truth {
  const limit = limits[modifier]
  if (limit) {
    const number = numberOf(value)
    return number === undefined ? 'unknown' : wanted.some((other) => limit(number, Number(other)))
  }
  if (modifier === 'in') return wanted.some((other) => String(other) === String(value))
  const text = String(value)
  const patterns = wanted.map((other) => String(other).toLowerCase())
  if (modifier === 'path') return patterns.some((pattern) => matchesPath(pattern, text))
  if (modifier === 'host') {
    const host = hostOf(text)
    return host === undefined ? 'unknown' : patterns.some((pattern) => matchesHost(pattern, host))
  }
  if (modifier === 'command') {
    const lines = commandLines(text)
    if (!lines) return 'unknown'
    return patterns.some((pattern) => lines.some((line) => matchesGlob(pattern, line)))
  }
  return patterns.some((pattern) => matchesGlob(pattern, text.toLowerCase()))
}

/**
 * Evaluates a condition on one argument: whether any of its values meets it; with `isNegated`, whether any does not. An
 * absent or empty argument meets none. Values that cannot be compared are unknown.
 */
export function evaluate(args: Arguments, { name, modifier, isNegated, wanted, patterns }: Condition): Truth {
  const values = scalarsOf(argumentOf(args, name)).filter((value) => value !== '')
  if (values.length > maxLeaves) return 'unknown'
  if (modifier === 're') return evaluatePatterns(values, patterns, isNegated)
  let isUnknown = false
  for (const value of values) {
    // Of all arguments only some are addresses or numbers.
    const truth = compare(modifier, value, wanted)
    if (truth === 'unknown') isUnknown ||= name !== '*'
    else if (truth !== isNegated) return true
  }
  return isUnknown ? 'unknown' : false
}

/** Steps of the patterns of a condition times the characters of its values: some milliseconds. */
const maxPatternWork = 500_000

/** Values that together would take too long are unknown: an agent could fill them to be waited for. */
function evaluatePatterns(values: readonly Scalar[], patterns: readonly Pattern[], isNegated: boolean): Truth {
  const steps = patterns.reduce((sum, pattern) => sum + pattern.steps.length, 0)
  let left = maxPatternWork
  for (const value of values) {
    const text = String(value)
    // A code point takes up to two code units.
    if (text.length > 2 * left) return 'unknown'
    const codes = Array.from(text, (sign) => sign.codePointAt(0)!)
    left -= steps * codes.length
    if (left < 0) return 'unknown'
    if (patterns.some((pattern) => matchesPattern(pattern, codes)) !== isNegated) return true
  }
  return false
}
