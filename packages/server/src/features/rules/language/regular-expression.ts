import { createRequire } from 'node:module'
import { ruleLimits } from '@wardline/contract'
import type { RE2JS } from 're2js'
import { shown } from './fault.ts'

// Loaded with the first expression, so that a service without rules starts sooner and uses less memory.
const load = createRequire(import.meta.url)

interface Expression {
  matches(text: string): boolean
  /** Maximum characters of a value that it reads; undefined: all. */
  reads: number | undefined
  /** Number of instructions if it has too many states; 0: the cost per character is constant. */
  size: number
}

/** Assumed size of a class such as `\pL`, which is a table of hundreds of ranges. */
const classSize = 20

/**
 * Estimates the cost of compiling a pattern: its characters, sets and groups with counted repetitions written out.
 * Never too low.
 */
function expandedSize(pattern: string): number {
  /** Sizes of the open groups, and of the last item of each, which a repetition multiplies. */
  const totals = [0]
  const items = [0]
  const add = (size: number) => {
    totals[totals.length - 1]! += size
    items[items.length - 1] = size
  }
  for (let at = 0; at < pattern.length; at += 1) {
    const sign = pattern[at]!
    if (sign === '\\') {
      at += 1
      add(/[pP]/.test(pattern[at] ?? '') ? classSize : 1)
    } else if (sign === '[') {
      // A closing bracket right at the start of a set is a member of it.
      const close = pattern.indexOf(']', at + (pattern[at + 1] === '^' ? 3 : 2))
      // Ranges of letters become a few instructions each.
      add(1)
      if (close > 0 && !/[\\[]/.test(pattern.slice(at + 1, close))) at = close
    } else if (sign === '(') {
      totals.push(1)
      items.push(0)
    } else if (sign === ')' && totals.length > 1) {
      const inner = totals.pop()!
      items.pop()
      add(inner)
    } else if (sign === '{') {
      const counted = /^\{(\d*),?(\d*)\}/.exec(pattern.slice(at, at + 20))
      const times = Math.max(Number(counted?.[1] ?? 1), Number(counted?.[2] ?? 1), 1)
      add(items.at(-1)! * (times - 1) + 1)
      if (counted) at += counted[0].length - 1
    } else add(1)
  }
  return totals.reduce((sum, size) => sum + size, 0)
}

const tooLarge = `is too large: at most ${ruleLimits.expressionSize} instructions are possible, and each repetition counts as often as it may occur.`

// Constants of re2js: a search that may begin anywhere, the position before a text, and the character after it.
const unanchored = 0
const beginOfText = 4
const endOfText = -1

/**
 * Builds all states of an expression's automaton in advance, so that reading a text builds none. Returns false if that
 * takes too many steps: `a.{50}b` has 2^50 states, and a text that reaches a new one with each character costs a
 * thousand times as much as usual.
 */
function buildStates({ re2Input: { dfa, prefixComplete, onepass } }: RE2JS): boolean {
  // Plain text, and expressions that are matched without an automaton.
  if (prefixComplete || onepass !== null) return true
  if (dfa.failed) return false
  const runes = [0, ...dfa.classBounds]
  const beginnings = dfa.start({ context: () => beginOfText, step: () => -1 }, 0)
  const found = new Set([beginnings])
  let steps = 0
  for (const state of found) {
    for (const [index, rune] of [...runes, endOfText].entries()) {
      steps += state.nfaStates.length + 1
      if (steps > ruleLimits.expressionSteps) return false
      const next = dfa.step(state, index, rune, unanchored)
      if (next === null) return false
      if (rune !== endOfText) found.add(next)
    }
  }
  return true
}

/**
 * Matches at the first places where a text contains the literal beginning of an expression, reading a limited text from
 * each.
 */
function matchesAt(beginning: string, text: string, matches: (rest: string) => boolean): boolean {
  let at = text.indexOf(beginning)
  for (let place = 0; at >= 0 && place < ruleLimits.expressionPlaces; place += 1) {
    if (matches(text.slice(at, at + ruleLimits.expressionText))) return true
    at = text.indexOf(beginning, at + 1)
  }
  return false
}

/** Compiles a regular expression that runs in linear time, or returns why it cannot. */
export function compileExpression(pattern: string, flags: ReadonlySet<string>): Expression | string {
  const name = `The regular expression ${shown(pattern)}`
  if (pattern.length > ruleLimits.expressionLength) {
    return `${name} has more than ${ruleLimits.expressionLength} characters.`
  }
  if (expandedSize(pattern) > ruleLimits.expressionSize) return `${name} ${tooLarge}`
  const { RE2JS } = load('re2js') as typeof import('re2js')
  const bits =
    (flags.has('i') ? RE2JS.CASE_INSENSITIVE : 0) |
    (flags.has('m') ? RE2JS.MULTILINE : 0) |
    (flags.has('s') ? RE2JS.DOTALL : 0)
  try {
    const compiled = RE2JS.compile(pattern, bits)
    const size = compiled.programSize()
    if (size > ruleLimits.expressionSize) return `${name} ${tooLarge}`
    const { prefix } = compiled.re2Input
    if (buildStates(compiled)) {
      return { matches: (text) => text.includes(prefix) && compiled.test(text), reads: undefined, size: 0 }
    }
    const reads = ruleLimits.expressionText
    // Anchored, the expression has fewer states. An open `\Q` would quote the closing parenthesis that is added here.
    const fromHere = prefix === '' || pattern.includes('\\Q') ? undefined : RE2JS.compile(`\\A(?:${pattern})`, bits)
    if (fromHere && buildStates(fromHere)) {
      return { matches: (text) => matchesAt(prefix, text, (rest) => fromHere.test(rest)), reads: undefined, size }
    }
    // A matcher visits each instruction once for each character, and builds no states.
    return { matches: (text) => compiled.matcher(text.slice(0, reads)).find(), reads, size }
  } catch (fault) {
    const reason = (fault as Error).message.replace(/^error parsing regexp: /, '').replace(/\.$/, '')
    return `${name} cannot be compiled: ${shown(reason)}. Look-around and back-references are not supported.`
  }
}
