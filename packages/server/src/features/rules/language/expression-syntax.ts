import type { RE2JS } from 're2js'
import { CharacterSet } from './character-set.ts'

/** A position in a text that takes no character. */
export type Place = 'begin' | 'end' | 'endOrLastLine' | 'lineBegin' | 'lineEnd' | 'wordEdge' | 'noWordEdge'

/** A parsed expression. */
export type Expression =
  | { kind: 'set'; set: CharacterSet }
  | { kind: 'place'; place: Place }
  /** One after the other; none is the empty text. */
  | { kind: 'sequence'; parts: Expression[] }
  | { kind: 'choice'; branches: Expression[] }
  /** `max` may be Infinity. */
  | { kind: 'repeat'; part: Expression; min: number; max: number }

/** `i`: ignores case; `m`: `^` and `$` are those of lines; `s`: `.` is also a line feed. */
interface Flags {
  i: boolean
  m: boolean
  s: boolean
}

/** Nested groups: no person writes so many, and reading and matching recurse. */
const maxDepth = 100
const maxRepeat = 1_000

/** A fault whose message ends the sentence "The regular expression … ". */
export class ExpressionFault extends Error {}

const rune = '[\\s\\S]'
const escapeSign = new RegExp(`\\\\(?:[pPx]\\{[^}]*\\}|[pP]${rune}|x..|[0-7]{1,3}|${rune})`, 'uy')
const inSet = new RegExp(`\\[:\\^?\\w+:\\]|${escapeSign.source}|[^\\]]`, 'uy')
const repetition = /(?:([*+?])|\{(\d{1,9})(?:(,)(\d{1,9})?)?\})\??/y
const group = /\((?:\?(?:P?<[^>]*>|([imsU]*)(?:-([imsU]+))?([:)])))?/y
const one = new RegExp(rune, 'uy')

const places: Readonly<Record<string, Place>> = { '\\A': 'begin', '\\z': 'end', '\\b': 'wordEdge', '\\B': 'noWordEdge' }

/**
 * Reads the structure of a pattern in the syntax of RE2, or throws an `ExpressionFault`. The library judges whether it is
 * valid and what a set contains. It does so with every count replaced by 1, because it writes repetitions out: a few
 * characters can be millions of instructions.
 */
export function parseExpression(pattern: string, flags: ReadonlySet<string>, re2: typeof RE2JS): Expression {
  let at = 0
  let depth = 0
  /** The pattern for the library. */
  let checked = ''
  let now: Flags = { i: flags.has('i'), m: flags.has('m'), s: flags.has('s') }

  function take(sign: RegExp): RegExpExecArray | undefined {
    sign.lastIndex = at
    const found = sign.exec(pattern)
    if (found === null) return undefined
    at += found[0].length
    return found
  }

  function setOf(source: string): Expression {
    return { kind: 'set', set: CharacterSet.of(source, now, re2) }
  }

  function literal(sign: string): Expression {
    return { kind: 'set', set: CharacterSet.one(sign, now, re2) }
  }

  function quoted(): Expression[] {
    const end = pattern.indexOf('\\E', at)
    const text = pattern.slice(at + 2, end < 0 ? undefined : end)
    checked += pattern.slice(at, end < 0 ? undefined : end + 2)
    at = end < 0 ? pattern.length : end + 2
    return [...text].map(literal)
  }

  function set(): Expression {
    const from = at
    at += pattern[at + 1] === '^' ? 2 : 1
    do if (!take(inSet) && !take(one)) break
    while (pattern[at] !== ']')
    at += 1
    const source = pattern.slice(from, at)
    checked += source
    return setOf(source)
  }

  function escaped(): Expression {
    const [source] = take(escapeSign) ?? ['\\']
    if (source === '\\') at += 1
    checked += source
    const place = places[source]
    return place === undefined ? setOf(`[${source}]`) : { kind: 'place', place }
  }

  /** Repeats a part as often as a repetition after it says. */
  function repeated(part: Expression): Expression {
    const found = take(repetition)
    if (!found) return part
    const [text, sign, from = '', comma = '', to] = found
    const min = sign === undefined ? Number(from) : sign === '+' ? 1 : 0
    const max = sign === undefined ? Number(comma ? (to ?? Infinity) : from) : sign === '?' ? 1 : Infinity
    if (min > max || min > maxRepeat || (max > maxRepeat && max < Infinity)) {
      throw new ExpressionFault(`has the invalid repetition ${text}: at most ${maxRepeat} are possible.`)
    }
    checked += sign === undefined ? `{1${comma}}${text.endsWith('?') ? '?' : ''}` : text
    return { kind: 'repeat', part, min, max }
  }

  function grouped(): Expression[] {
    const [text, on = '', off = '', end] = take(group) ?? ['']
    checked += text
    if (text === '') {
      // The library says what is wrong with it.
      checked += pattern.slice(at)
      at = pattern.length
      return []
    }
    const outer = now
    now = { ...now }
    for (const flag of ['i', 'm', 's'] as const) now[flag] = (now[flag] || on.includes(flag)) && !off.includes(flag)
    if (end === ')') return []
    depth += 1
    if (depth > maxDepth) throw new ExpressionFault(`has more than ${maxDepth} groups in one another.`)
    const inner = choice()
    depth -= 1
    now = outer
    if (pattern[at] === ')') {
      checked += ')'
      at += 1
    }
    return [inner]
  }

  /** What can be repeated, or several of which the last can; flags are none. */
  function items(): Expression[] {
    const sign = pattern[at]!
    if (sign === '(') return grouped()
    if (sign === '\\' && pattern[at + 1] === 'Q') return quoted()
    if (sign === '[') return [set()]
    if (sign === '\\') return [escaped()]
    const [text] = take(one)!
    checked += text
    if (text === '.') return [{ kind: 'set', set: now.s ? CharacterSet.any : CharacterSet.anyInLine }]
    if (text === '^') return [{ kind: 'place', place: now.m ? 'lineBegin' : 'begin' }]
    if (text === '$') return [{ kind: 'place', place: now.m ? 'lineEnd' : 'endOrLastLine' }]
    return [literal(text)]
  }

  function sequence(): Expression {
    const parts: Expression[] = []
    while (at < pattern.length && !'|)'.includes(pattern[at]!)) {
      parts.push(...items())
      const last = parts.pop()
      if (last) parts.push(repeated(last))
    }
    return parts.length === 1 ? parts[0]! : { kind: 'sequence', parts }
  }

  function choice(): Expression {
    const branches = [sequence()]
    while (pattern[at] === '|') {
      checked += '|'
      at += 1
      branches.push(sequence())
    }
    if (branches.length === 1) return branches[0]!
    return branches.every((each) => each.kind === 'set')
      ? { kind: 'set', set: CharacterSet.union(branches.map((each) => each.set)) }
      : { kind: 'choice', branches }
  }

  const found = choice()
  // A closing parenthesis without an opening one.
  checked += pattern.slice(at)
  re2.compile(checked, (flags.has('i') ? re2.CASE_INSENSITIVE : 0) | (flags.has('s') ? re2.DOTALL : 0))
  return found
}
