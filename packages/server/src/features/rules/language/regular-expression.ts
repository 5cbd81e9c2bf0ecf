import { createRequire } from 'node:module'
import { ruleLimits } from '@wardline/contract'
import { shown } from './fault.ts'

// Loaded with the first expression: a service without rules starts sooner and takes less memory.
const load = createRequire(import.meta.url)

interface Expression {
  matches(text: string): boolean
}

/**
 * How many characters, sets and groups a pattern has once its counted repetitions are written out: what compiling it costs.
 * Counts too much rather than too little.
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
      add(1)
    } else if (sign === '[') {
      // A bracket right at the start of a set belongs to it.
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

/** Compiles a regular expression, which runs in linear time; or says why it cannot. */
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
    if (compiled.programSize() > ruleLimits.expressionSize) return `${name} ${tooLarge}`
    return { matches: (text) => compiled.test(text) }
  } catch (fault) {
    const reason = (fault as Error).message.replace(/^error parsing regexp: /, '').replace(/\.$/, '')
    return `${name} cannot be compiled: ${shown(reason)}. Look-around and back-references are not supported.`
  }
}
