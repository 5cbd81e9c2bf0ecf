import { type Assertion, type Node, PatternFault, PatternParser } from './pattern-parser.ts'

/** Steps of one pattern, repetitions written out. */
const maxSteps = 500

interface CodeSet {
  ranges: readonly number[]
  isNegated: boolean
  isFolded: boolean
}

type Step =
  | ({ op: 'set' } & CodeSet)
  | { op: 'assert'; what: Assertion }
  | { op: 'split'; other: number }
  | { op: 'jump'; to: number }
  | { op: 'match' }

/** A pattern, compiled: it is matched in time that grows with the length of a text, whatever the text. */
export interface Pattern {
  steps: readonly Step[]
}

/** Compiles a pattern; a text says what is wrong with it. */
export function compilePattern(pattern: string): Pattern | string {
  try {
    const emitter = new Emitter()
    emitter.emit(new PatternParser(pattern).parse())
    return { steps: [...emitter.steps, { op: 'match' }] }
  } catch (fault) {
    if (fault instanceof PatternFault) return fault.message
    throw fault
  }
}

class Emitter {
  readonly steps: Step[] = []
  #emitted = 0

  emit(node: Node): void {
    // Groups without steps can be repeated too: they count as well.
    if (++this.#emitted > 10 * maxSteps) this.#refuse()
    if (node.kind === 'set') this.#push({ op: 'set', ...setOf(node) })
    else if (node.kind === 'assert') this.#push({ op: 'assert', what: node.what })
    else if (node.kind === 'sequence') for (const part of node.parts) this.emit(part)
    else if (node.kind === 'choice') this.#choice(node.parts)
    else this.#repeat(node)
  }

  #refuse(): never {
    throw new PatternFault(`would cost too much: it has more than ${maxSteps} steps, repetitions written out`)
  }

  #push(step: Step): number {
    if (this.steps.length >= maxSteps) this.#refuse()
    return this.steps.push(step) - 1
  }

  /** Emits a part that may be passed over. */
  #optional(part: Node, isRepeated: boolean): void {
    const split = this.#push({ op: 'split', other: 0 })
    this.emit(part)
    if (isRepeated) this.#push({ op: 'jump', to: split })
    this.steps[split] = { op: 'split', other: this.steps.length }
  }

  #repeat({ part, min, max }: Node & { kind: 'repeat' }): void {
    for (let count = 0; count < min; count++) this.emit(part)
    if (max === undefined) this.#optional(part, true)
    for (let count = min; count < (max ?? 0); count++) this.#optional(part, false)
  }

  #choice(parts: readonly Node[]): void {
    const jumps: number[] = []
    for (const part of parts.slice(0, -1)) {
      const split = this.#push({ op: 'split', other: 0 })
      this.emit(part)
      jumps.push(this.#push({ op: 'jump', to: 0 }))
      this.steps[split] = { op: 'split', other: this.steps.length }
    }
    this.emit(parts.at(-1)!)
    for (const jump of jumps) this.steps[jump] = { op: 'jump', to: this.steps.length }
  }
}

const setOf = ({ ranges, isNegated, isFolded }: CodeSet): CodeSet => ({ ranges, isNegated, isFolded })

/** Whether a pattern matches anywhere in a text, given as code points: each step is taken at most once at each of them. */
export function matchesPattern({ steps }: Pattern, text: readonly number[]): boolean {
  const seen = new Int32Array(steps.length).fill(-1)
  const stack: number[] = []
  let sets: number[] = []
  /** Follows the steps that take no character, up to those that do. Returns true at the end of the pattern. */
  const follow = (from: number, at: number, reached: number[]): boolean => {
    stack.push(from)
    while (stack.length > 0) {
      const index = stack.pop()!
      if (seen[index] === at) continue
      seen[index] = at
      const step = steps[index]!
      if (step.op === 'match') return true
      if (step.op === 'set') reached.push(index)
      else if (step.op === 'jump') stack.push(step.to)
      else if (step.op === 'split') stack.push(step.other, index + 1)
      else if (holds(step.what, text, at)) stack.push(index + 1)
    }
    return false
  }
  for (let at = 0; at <= text.length; at++) {
    // A match may begin at every place.
    if (follow(0, at, sets)) return true
    const code = text[at]
    if (code === undefined) return false
    const reached: number[] = []
    for (const index of sets) {
      if (isIn(steps[index] as CodeSet, code) && follow(index + 1, at + 1, reached)) return true
    }
    sets = reached
  }
  return false
}

const isWord = (code: number | undefined): boolean =>
  code !== undefined &&
  ((code >= 48 && code <= 57) || (code >= 65 && code <= 90) || code === 95 || (code >= 97 && code <= 122))

function holds(what: Assertion, text: readonly number[], at: number): boolean {
  if (what === 'start') return at === 0
  if (what === 'end') return at === text.length
  return (isWord(text[at - 1]) !== isWord(text[at])) === (what === 'boundary')
}

function isIn({ ranges, isNegated, isFolded }: CodeSet, code: number): boolean {
  const isThere = isWithin(ranges, code) || (isFolded && casesOf(code).some((other) => isWithin(ranges, other)))
  return isThere !== isNegated
}

function isWithin(ranges: readonly number[], code: number): boolean {
  for (let at = 0; at < ranges.length; at += 2) if (code >= ranges[at]! && code <= ranges[at + 1]!) return true
  return false
}

/** The lower and upper case of a code point, where each is one code point. */
function casesOf(code: number): number[] {
  const sign = String.fromCodePoint(code)
  return [sign.toLowerCase(), sign.toUpperCase()]
    .filter((text) => [...text].length === 1)
    .map((text) => text.codePointAt(0)!)
}
