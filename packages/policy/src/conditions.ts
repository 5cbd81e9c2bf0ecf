import { commandTexts } from './commands.ts'
import { addressesIn, hostOf, matchesGlob, matchesHost, matchesPath } from './glob.ts'
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
  comparer: Comparer
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
  const own = Object.hasOwn(args, name) ? [args[name]] : []
  if (!name.includes('.')) return own[0]
  let values: unknown[] = [args]
  for (const part of name.split('.')) {
    values = values
      .flatMap((value) => (Array.isArray(value) ? value : [value]))
      .filter((value) => typeof value === 'object' && value !== null && Object.hasOwn(value, part))
      .map((value) => (value as Arguments)[part])
  }
  // An argument whose name has a dot must not hide the nested one that the tool reads.
  return [...own, ...values]
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

/** Compares one value with those of a condition, other than patterns. */
export interface Comparer {
  /** How many comparisons a value takes, beside one for all that are compared as a whole. */
  cost: number
  /** Of a command line one command has to match, with `isEach` each of them. */
  compare(value: Scalar, isEach: boolean): Truth
}

export function comparerOf(modifier: Modifier, wanted: readonly Scalar[]): Comparer {
  const limit = limits[modifier]
  if (limit) {
    const numbers = wanted.map(Number)
    return {
      cost: 0,
      compare(value) {
        const number = numberOf(value)
        return number === undefined ? 'unknown' : numbers.some((other) => limit(number, other))
      },
    }
  }
  if (modifier === 'in') {
    const texts = new Set(wanted.map(String))
    return { cost: 0, compare: (value) => texts.has(String(value)) }
  }
  const texts = wanted.map((other) => String(other).toLowerCase())
  if (modifier === 'path') {
    return { cost: texts.length, compare: (value) => matchesPath(texts, String(value)) }
  }
  const whole = new Set(texts.filter((text) => !text.includes('*')))
  const globs = texts.filter((text) => text.includes('*'))
  const matches = (text: string) => whole.has(text) || globs.some((glob) => matchesGlob(glob, text))
  const cost = globs.length
  if (modifier === 'host') {
    const matchesName = (host: string) => whole.has(host) || globs.some((glob) => matchesHost(glob, host))
    return {
      cost,
      compare(value) {
        const host = hostOf(String(value))
        return host === undefined ? 'unknown' : matchesName(host)
      },
    }
  }
  if (modifier === 'command')
    return { cost, compare: (value, isEach) => compareCommands(String(value), matches, isEach) }
  return { cost, compare: (value) => matches(lowered(String(value))) }
}

function compareCommands(line: string, matches: (text: string) => boolean, isEach: boolean): Truth {
  const texts = commandTexts(line)
  if (!texts) return 'unknown'
  if (!isEach) return texts.lines.some(matches)
  return texts.writes ? 'unknown' : texts.commands.length > 0 && texts.commands.every(matches)
}

let last = { text: '', lower: '' }

/** Every rule of a policy compares the same value. */
function lowered(text: string): string {
  if (last.text !== text) last = { text, lower: text.toLowerCase() }
  return last.lower
}

/**
 * Characters that one condition compares, and what a value costs beside its characters: below a millisecond. An agent could
 * fill the arguments so that a decision takes longer than a coding agent waits for its hook.
 */
const maxWork = 1_200_000
const valueCost: Partial<Record<Modifier, number>> = { host: 1_000, path: 1_000 }
const usualCost = 250

/**
 * Evaluates a condition on one argument: whether any of its values meets it; with `isNegated`, whether any does not. With
 * `isForEach`, as a rule that allows needs it, whether each of them does. An absent or empty argument meets none. Values that
 * cannot be compared, and too many, are unknown.
 */
export function evaluate(args: Arguments, condition: Condition, isForEach: boolean): Truth {
  const { name, modifier, isNegated, patterns } = condition
  const values = scalarsOf(argumentOf(args, name)).filter((value) => value !== '')
  if (values.length > maxLeaves) return 'unknown'
  const compare = modifier === 're' ? patternMatcher(patterns) : valueMatcher(condition, isForEach)
  let isUnknown = false
  let isMetOnce = false
  for (const value of values) {
    for (const one of modifier === 'host' ? addressesIn(String(value)) : [value]) {
      const truth = compare(one)
      if (truth === 'too much') return 'unknown'
      // Of all arguments only some are addresses or numbers.
      if (truth === 'unknown') isUnknown ||= name !== '*' || modifier === 'command' || modifier === 'path'
      else if (truth === isNegated && isForEach) return false
      else if (truth !== isNegated && !isForEach) return true
      else isMetOnce ||= truth !== isNegated
    }
  }
  return isUnknown ? 'unknown' : isMetOnce
}

function valueMatcher(
  { modifier, comparer, isNegated }: Condition,
  isForEach: boolean,
): (value: Scalar) => Truth | 'too much' {
  let left = maxWork
  return (value) => {
    left -= ((valueCost[modifier] ?? usualCost) + String(value).length) * (1 + comparer.cost)
    // `not_command: ls *` is met if one of the commands is another.
    return left < 0 ? 'too much' : comparer.compare(value, isForEach !== isNegated)
  }
}

/** Steps of the patterns of a condition times the characters of its values: some milliseconds. */
const maxPatternWork = 500_000

/** Values that together would take too long are unknown: an agent could fill them to be waited for. */
function patternMatcher(patterns: readonly Pattern[]): (value: Scalar) => boolean | 'too much' {
  const steps = patterns.reduce((sum, pattern) => sum + pattern.steps.length, 0)
  let left = maxPatternWork
  return (value) => {
    const text = String(value)
    // A code point takes up to two code units.
    if (text.length > 2 * left) return 'too much'
    const codes = Array.from(text, (sign) => sign.codePointAt(0)!)
    left -= steps * codes.length
    return left < 0 ? 'too much' : patterns.some((pattern) => matchesPattern(pattern, codes))
  }
}
