import type { CharacterSet } from './character-set.ts'
import { type Expression, ExpressionFault } from './expression-syntax.ts'
import type { Bits, IndexedText } from './indexed-text.ts'

/** Characters of a repeated group, with counted repetitions written out: a bit of a state for each. */
const maxLoop = 128
/** Parts of such a group, also of those that take no character. */
const maxSteps = 1_000

/** What a part of a loop adds: the characters with which it can begin and end, by number, and whether it can be empty. */
interface Span {
  first: readonly number[]
  last: readonly number[]
  isEmpty: boolean
}

const nothing: Span = { first: [], last: [], isEmpty: true }

/** Writes numbers as bits of a state. */
function addBits(state: Int32Array, numbers: Iterable<number>, from = 0): Int32Array {
  for (const number of numbers) state[from + (number >> 5)]! |= 1 << (number & 31)
  return state
}

/**
 * A group that repeats without limit, as an automaton whose states are sets of its characters. It reads a text character
 * by character, while everything else is read 32 at a time.
 */
export class Loop {
  readonly setCount: number
  /** Words of a state. */
  readonly words: number
  /** Numbers of the characters that stand for a set. */
  readonly #sets = new Map<CharacterSet, number[]>()
  readonly #first: Int32Array
  readonly #last: Int32Array
  /** The state that may follow on each value of each byte of a state. */
  readonly #next: Int32Array

  constructor(part: Expression) {
    const follow: Set<number>[] = []
    let steps = 0
    const link = (last: readonly number[], first: readonly number[]) => {
      for (const from of last) for (const to of first) follow[from]!.add(to)
    }
    const joined = (one: Span, other: Span): Span => {
      link(one.last, other.first)
      return {
        first: one.isEmpty ? [...one.first, ...other.first] : one.first,
        last: other.isEmpty ? [...one.last, ...other.last] : other.last,
        isEmpty: one.isEmpty && other.isEmpty,
      }
    }
    const spanOf = (each: Expression): Span => {
      steps += 1
      if (steps > maxSteps || follow.length > maxLoop) throw new ExpressionFault(tooLong)
      switch (each.kind) {
        case 'set': {
          const number = follow.push(new Set()) - 1
          this.#sets.set(each.set, [...(this.#sets.get(each.set) ?? []), number])
          return { first: [number], last: [number], isEmpty: false }
        }
        case 'place':
          throw new ExpressionFault('repeats without limit what contains ^, $, \\b or the like; use a number.')
        case 'sequence':
          return each.parts.map(spanOf).reduce(joined, nothing)
        case 'choice': {
          const spans = each.branches.map(spanOf)
          return {
            first: spans.flatMap(({ first }) => first),
            last: spans.flatMap(({ last }) => last),
            isEmpty: spans.some(({ isEmpty }) => isEmpty),
          }
        }
        case 'repeat': {
          const { min, max } = each
          const fixed = max === Infinity ? Math.max(0, min - 1) : min
          let span = nothing
          for (let count = 0; count < fixed; count += 1) span = joined(span, spanOf(each.part))
          if (max === Infinity) {
            const more = spanOf(each.part)
            link(more.last, more.first)
            return joined(span, { ...more, isEmpty: more.isEmpty || min === 0 })
          }
          for (let count = min; count < max; count += 1) span = joined(span, { ...spanOf(each.part), isEmpty: true })
          return span
        }
      }
    }
    const { first, last } = spanOf({ kind: 'repeat', part, min: 0, max: Infinity })
    if (follow.length > maxLoop) throw new ExpressionFault(tooLong)
    const words = Math.max(1, Math.ceil(follow.length / 32))
    this.setCount = this.#sets.size
    this.words = words
    this.#first = addBits(new Int32Array(words), first)
    this.#last = addBits(new Int32Array(words), last)
    this.#next = new Int32Array(words * 4 * 256 * words)
    for (const [number, to] of follow.entries()) {
      const bit = 1 << (number & 7)
      for (let byte = bit; byte < 256; byte += 1) {
        if (byte & bit) addBits(this.#next, to, ((number >> 3) * 256 + byte) * words)
      }
    }
  }

  /** Adds to the positions those where the group ends that begins at one of them, any number of times. */
  extend(positions: Bits, text: IndexedText): void {
    const { words } = this
    const masks = new Int32Array(text.symbolCount * words)
    for (const [set, numbers] of this.#sets) text.eachOf(set, (id) => addBits(masks, numbers, id * words))
    const { symbols, length } = text
    const table = this.#next
    const first = this.#first
    const last = this.#last
    const state = new Int32Array(words)
    const next = new Int32Array(words)
    let isIdle = true
    for (let at = 0; at < length; at += 1) {
      const begins = positions[at >> 5]!
      if (isIdle && begins === 0) {
        at |= 31
        continue
      }
      const isBegin = (begins & (1 << (at & 31))) !== 0
      for (let word = 0; word < words; word += 1) next[word] = isBegin ? first[word]! : 0
      if (!isIdle) {
        for (let word = 0; word < words; word += 1) {
          for (let left = state[word]!, byte = word * 4; left !== 0; left >>>= 8, byte += 1) {
            if ((left & 255) === 0) continue
            const from = (byte * 256 + (left & 255)) * words
            for (let to = 0; to < words; to += 1) next[to]! |= table[from + to]!
          }
        }
      }
      const mask = symbols[at]! * words
      let any = 0
      let ends = 0
      for (let word = 0; word < words; word += 1) {
        const reached = mask < 0 ? 0 : next[word]! & masks[mask + word]!
        state[word] = reached
        any |= reached
        ends |= reached & last[word]!
      }
      isIdle = any === 0
      if (ends !== 0) positions[(at + 1) >> 5]! |= 1 << ((at + 1) & 31)
    }
  }
}

const tooLong = `repeats a group without limit that has more than ${maxLoop} characters, with its repetitions written out.`
