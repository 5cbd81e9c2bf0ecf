import type { CharacterSet } from './character-set.ts'
import { Loop } from './expression-loop.ts'
import type { Expression, Place } from './expression-syntax.ts'
import type { Bits, IndexedText } from './indexed-text.ts'
import { hasNeeded, neededOf } from './needed-text.ts'
import type { ReadText } from './read-text.ts'

/**
 * A step of a matcher: from the positions in `from`, computes those where its part of the expression can end into `to`,
 * which may be the same list. Returns whether there is any.
 */
type Step = (from: Bits, to: Bits, text: IndexedText) => boolean

/** A step and what it costs any text: passes over its bits. */
interface Part {
  step: Step
  passes: number
}

/** Passes that take as long as finding the places of a set, and as reading a text character by character in a loop. */
const setPasses = 25
const loopPasses = (words: number) => 250 + 150 * words ** 2

/** Lists of bits that steps use for a moment, so that matching allocates nothing. */
const free: Bits[] = []
function borrow(words: number): Bits {
  const bits = free.pop()
  return bits && bits.length >= words ? bits : new Int32Array(words)
}
const giveBack = (bits: Bits): void => void free.push(bits)

function copy(from: Bits, to: Bits, words: number): void {
  for (let at = 0; at < words; at += 1) to[at] = from[at]!
}

function addTo(to: Bits, more: Bits, words: number): void {
  for (let at = 0; at < words; at += 1) to[at]! |= more[at]!
}

const oneOf = (set: CharacterSet): Part => ({
  passes: 1,
  step: (from, to, text) => {
    const set_ = text.bitsOf(set)
    const { words } = text
    let carry = 0
    let any = 0
    for (let at = 0; at < words; at += 1) {
      const taken = from[at]! & set_[at]!
      const moved = (taken << 1) | carry
      carry = taken >>> 31
      to[at] = moved
      any |= moved
    }
    return any !== 0
  },
})

const at = (place: Place): Part => ({
  passes: 2,
  step: (from, to, text) => {
    const places = text.at(place)
    const { words } = text
    let any = 0
    for (let index = 0; index < words; index += 1) {
      const kept = from[index]! & places[index]!
      to[index] = kept
      any |= kept
    }
    return any !== 0
  },
})

/** Any number of characters of a set: an addition carries each position to the end of its run. */
const manyOf = (set: CharacterSet): Part => ({
  passes: 2,
  step: (from, to, text) => {
    const runs = text.bitsOf(set)
    const { words } = text
    let carry = 0
    let any = 0
    for (let index = 0; index < words; index += 1) {
      const begins = from[index]!
      const run = runs[index]!
      const sum = ((begins & run) >>> 0) + (run >>> 0) + carry
      carry = sum > 0xffffffff ? 1 : 0
      const reached = (sum ^ run) | begins
      to[index] = reached
      any |= reached
    }
    return any !== 0
  },
})

/** Keeps the places of which the one so many characters on is a place too. */
function keepRuns(runs: Bits, by: number, words: number): void {
  const skipped = by >> 5
  const bits = by & 31
  for (let at = 0; at < words; at += 1) {
    const low = at + skipped < words ? runs[at + skipped]! >>> bits : 0
    const high = bits > 0 && at + skipped + 1 < words ? runs[at + skipped + 1]! << (32 - bits) : 0
    runs[at]! &= low | high
  }
}

/** Adds to `to`, or sets it to, the positions in `from` from which a run goes, moved by so many characters. */
function jump(from: Bits, runs: Bits, to: Bits, by: number, words: number, isAdded: boolean): void {
  const skipped = by >> 5
  const bits = by & 31
  // From the end, since both may be the same list.
  for (let at = words - 1; at >= 0; at -= 1) {
    const source = at - skipped
    const low = source >= 0 ? (from[source]! & runs[source]!) << bits : 0
    const high = bits > 0 && source > 0 ? (from[source - 1]! & runs[source - 1]!) >>> (32 - bits) : 0
    to[at] = low | high | (isAdded ? to[at]! : 0)
  }
}

const isAny = (bits: Bits, words: number): boolean => {
  for (let at = 0; at < words; at += 1) if (bits[at] !== 0) return true
  return false
}

/** Lengths of which each is at most twice the one before, up to so many. */
function halves(count: number): number[] {
  const found: number[] = []
  for (let left = count; left > 0; left = left === 1 ? 0 : Math.ceil(left / 2)) found.unshift(left)
  return found
}

/** Lengths of which each is at most one more than those before together, which are so many together. */
function portions(count: number): number[] {
  const found: number[] = []
  for (let left = count; left > 0; left = Math.floor(left / 2)) found.unshift(Math.ceil(left / 2))
  return found
}

/** So many characters of a set, in some passes for each doubling. */
function counted(set: CharacterSet, min: number, more: number): Part {
  const fixed = halves(min)
  const further = portions(more)
  return {
    passes: 2 + 2 * fixed.length + 4 * further.length,
    step: (from, to, text) => {
      const { words } = text
      const runs = borrow(words)
      const places = text.bitsOf(set)
      copy(places, runs, words)
      let length = 1
      const lengthen = (wanted: number) => {
        while (length < wanted) {
          const by = Math.min(length, wanted - length)
          keepRuns(runs, by, words)
          length += by
        }
      }
      if (min === 0 && to !== from) copy(from, to, words)
      for (const each of fixed) lengthen(each)
      if (min > 0) {
        jump(from, runs, to, min, words, false)
        copy(places, runs, words)
        length = 1
      }
      for (const each of further) {
        lengthen(each)
        jump(to, runs, to, each, words, true)
      }
      giveBack(runs)
      return isAny(to, words)
    },
  }
}

function sequence(parts: readonly Part[]): Part {
  return {
    passes: parts.reduce((sum, { passes }) => sum + passes, 1),
    step: (from, to, text) => {
      if (parts.length === 0 && to !== from) copy(from, to, text.words)
      let reached = from
      for (const { step } of parts) {
        if (!step(reached, to, text)) return false
        reached = to
      }
      return true
    },
  }
}

function choice(branches: readonly Part[]): Part {
  return {
    passes: branches.reduce((sum, { passes }) => sum + passes + 1, 2),
    step: (from, to, text) => {
      const { words } = text
      const found = borrow(words).fill(0, 0, words)
      const one = borrow(words)
      let any = false
      for (const { step } of branches) {
        if (!step(from, one, text)) continue
        addTo(found, one, words)
        any = true
      }
      if (any) copy(found, to, words)
      giveBack(one)
      giveBack(found)
      return any
    },
  }
}

/** Repeats what is more than one character, one time after the other. */
function repeated(part: Part, min: number, more: number, loop: Loop | undefined): Part {
  const inLoop = loop === undefined ? 0 : loopPasses(loop.words) + setPasses * loop.setCount
  return {
    passes: 3 + min * part.passes + more * (part.passes + 1) + inLoop,
    step: (from, to, text) => {
      const { words } = text
      const reached = borrow(words)
      copy(from, reached, words)
      let any = true
      for (let count = 0; count < min && any; count += 1) any = part.step(reached, reached, text)
      if (any) {
        copy(reached, to, words)
        for (let count = 0; count < more && part.step(reached, reached, text); count += 1) addTo(to, reached, words)
        loop?.extend(to, text)
      }
      giveBack(reached)
      return any
    },
  }
}

function build(expression: Expression): Part {
  switch (expression.kind) {
    case 'set':
      return oneOf(expression.set)
    case 'place':
      return at(expression.place)
    case 'sequence':
      return sequence(expression.parts.map(build))
    case 'choice':
      return choice(expression.branches.map(build))
    case 'repeat': {
      const { part, min, max } = expression
      if (part.kind === 'set') {
        const { set } = part
        if (max !== Infinity) return min === 1 && max === 1 ? oneOf(set) : counted(set, min, max - min)
        return min === 0 ? manyOf(set) : sequence([counted(set, min, 0), manyOf(set)])
      }
      return max === Infinity
        ? repeated(build(part), min, 0, new Loop(part))
        : repeated(build(part), min, max - min, undefined)
    }
  }
}

/** Sets of an expression, whose places are found once for each text. */
function setsOf(expression: Expression, found = new Set<CharacterSet>()): Set<CharacterSet> {
  switch (expression.kind) {
    case 'set':
      return found.add(expression.set)
    case 'place':
      return found
    case 'sequence':
      for (const part of expression.parts) setsOf(part, found)
      return found
    case 'choice':
      for (const branch of expression.branches) setsOf(branch, found)
      return found
    case 'repeat':
      return setsOf(expression.part, found)
  }
}

export interface ExpressionMatcher {
  /** Whether a match begins at any position. */
  matches(text: ReadText): boolean
  /** What it costs a text at worst: passes over one bit for each character, and finding the places of the sets. */
  passes: number
  sets: readonly CharacterSet[]
}

/** Passes that take as long as searching for a text. */
const searchPasses = 25

/** Builds the matcher of an expression, or throws an `ExpressionFault`. */
export function matcherOf(expression: Expression): ExpressionMatcher {
  const { step, passes } = build(expression)
  const needed = neededOf(expression)
  return {
    passes: passes + searchPasses * Math.max(1, needed.texts.length),
    sets: [...setsOf(expression)],
    matches: (text) => hasNeeded(needed, text.plain) && isFound(step, text.indexed),
  }
}

function isFound(step: Step, text: IndexedText): boolean {
  const { words, length } = text
  const positions = borrow(words)
  positions.fill(-1, 0, words)
  positions[words - 1] = length % 32 === 31 ? -1 : (1 << ((length & 31) + 1)) - 1
  const found = step(positions, positions, text)
  giveBack(positions)
  return found
}
