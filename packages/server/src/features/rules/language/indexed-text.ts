import { CharacterSet } from './character-set.ts'
import type { Place } from './expression-syntax.ts'

/** A bit for each position of a text, from before its first character to after its last one. */
export type Bits = Int32Array

const ascii = 128
/** Between two texts: a character that no set contains. */
const separator = -1
/** Numbers of the code points of the text that is being read; all 0 in between. */
const numbers = new Int32Array(0x110000)

/**
 * Texts in a form that expressions read 32 characters at a time: for a set of characters, one bit for each place says
 * whether the character there is in the set. Several texts are read like one, but no match goes from one into another.
 */
export class IndexedText {
  /** Words of 32 bits for a bit of each position. */
  readonly words: number
  readonly length: number
  /** Number of the symbol at each place: ASCII is its own, other characters are numbered in their order. */
  readonly symbols: Int32Array
  readonly symbolCount: number
  /** Code points above ASCII that occur, in their order. */
  readonly #wide: Int32Array
  /** Places of the characters, symbol by symbol, and where the places of each symbol begin. */
  readonly #order: Int32Array
  readonly #starts: Int32Array
  readonly #begins: number[] = []
  readonly #ends: number[] = []
  readonly #lastLines: number[] = []
  readonly #ofSets = new Map<CharacterSet, Bits>()
  readonly #ofPlaces = new Map<Place, Bits>()

  constructor(texts: readonly string[]) {
    const symbols = new Int32Array(texts.reduce((sum, { length }) => sum + length + 1, 0))
    const wide: number[] = []
    let length = 0
    for (const text of texts) {
      if (this.#begins.length > 0) symbols[length++] = separator
      this.#begins.push(length)
      for (let at = 0; at < text.length; at += 1) {
        let code = text.charCodeAt(at)
        if (code >= ascii) {
          code = text.codePointAt(at)!
          if (code > 0xffff) at += 1
          if (numbers[code] === 0) {
            numbers[code] = 1
            wide.push(code)
          }
        }
        symbols[length++] = code
      }
      this.#ends.push(length)
      if (text.endsWith('\n')) this.#lastLines.push(length - 1)
    }
    this.#wide = Int32Array.from(wide).sort()
    this.#wide.forEach((code, index) => {
      numbers[code] = ascii + index
    })
    if (wide.length > 0) {
      for (let at = 0; at < length; at += 1) if (symbols[at]! >= ascii) symbols[at] = numbers[symbols[at]!]!
    }
    for (const code of wide) numbers[code] = 0
    this.length = length
    this.words = (length >> 5) + 1
    this.symbols = symbols
    this.symbolCount = ascii + wide.length
    const starts = new Int32Array(this.symbolCount + 1)
    for (let at = 0; at < length; at += 1) if (symbols[at] !== separator) starts[symbols[at]! + 1]! += 1
    for (let id = 1; id < starts.length; id += 1) starts[id]! += starts[id - 1]!
    const next = starts.slice()
    const order = new Int32Array(length)
    for (let at = 0; at < length; at += 1) if (symbols[at] !== separator) order[next[symbols[at]!]!++] = at
    this.#order = order
    this.#starts = starts
  }

  /** Calls with each symbol of the texts that is in a set. */
  eachOf({ ranges }: CharacterSet, use: (symbol: number) => void): void {
    const starts = this.#starts
    for (let at = 0; at < ranges.length; at += 2) {
      const first = ranges[at]!
      const last = ranges[at + 1]!
      for (let id = first; id <= last && id < ascii; id += 1) if (starts[id] !== starts[id + 1]) use(id)
      if (last < ascii) continue
      for (let id = this.#wideFrom(first); id < this.symbolCount && this.#wide[id - ascii]! <= last; id += 1) use(id)
    }
  }

  /** The first symbol above ASCII that is not below a code point. */
  #wideFrom(code: number): number {
    let from = 0
    let to = this.#wide.length
    while (from < to) {
      const middle = (from + to) >> 1
      if (this.#wide[middle]! < code) from = middle + 1
      else to = middle
    }
    return ascii + from
  }

  /** The places of characters in a set. */
  bitsOf(set: CharacterSet): Bits {
    const known = this.#ofSets.get(set)
    if (known) return known
    const members = new Uint8Array(this.symbolCount)
    const starts = this.#starts
    let count = 0
    this.eachOf(set, (id) => {
      members[id] = 1
      count += starts[id + 1]! - starts[id]!
    })
    const bits = new Int32Array(this.words)
    // At most half of the places are visited.
    const isMost = 2 * count > this.length
    if (isMost) this.#fill(bits)
    for (let id = 0; id < members.length; id += 1) if ((members[id] === 0) === isMost) this.#flip(bits, id)
    this.#ofSets.set(set, bits)
    return bits
  }

  #flip(bits: Bits, id: number): void {
    const order = this.#order
    const end = this.#starts[id + 1]!
    for (let at = this.#starts[id]!; at < end; at += 1) bits[order[at]! >> 5]! ^= 1 << (order[at]! & 31)
  }

  /** Sets the places of all characters. */
  #fill(bits: Bits): void {
    bits.fill(-1)
    bits[this.words - 1] = (1 << (this.length & 31)) - 1
    for (const end of this.#ends.slice(0, -1)) bits[end >> 5]! ^= 1 << (end & 31)
  }

  at(place: Place): Bits {
    const known = this.#ofPlaces.get(place)
    if (known) return known
    const bits = this.#find(place)
    this.#ofPlaces.set(place, bits)
    return bits
  }

  #find(place: Place): Bits {
    const bits = new Int32Array(this.words)
    const set = (positions: readonly number[]) => {
      for (const at of positions) bits[at >> 5]! |= 1 << (at & 31)
    }
    switch (place) {
      case 'begin':
        set(this.#begins)
        return bits
      case 'end':
        set(this.#ends)
        return bits
      case 'endOrLastLine':
        set(this.#ends)
        set(this.#lastLines)
        return bits
      case 'lineEnd': {
        set(this.#ends)
        const feeds = this.bitsOf(CharacterSet.lineFeed)
        return bits.map((word, at) => word | feeds[at]!)
      }
      case 'lineBegin': {
        set(this.#begins)
        const after = shifted(this.bitsOf(CharacterSet.lineFeed))
        return bits.map((word, at) => word | after[at]!)
      }
      case 'wordEdge': {
        const words = this.bitsOf(CharacterSet.word)
        const after = shifted(words)
        return bits.map((_, at) => words[at]! ^ after[at]!)
      }
      case 'noWordEdge': {
        const edges = this.at('wordEdge')
        return bits.map((_, at) => ~edges[at]!)
      }
    }
  }
}

const shifted = (bits: Bits): Bits => bits.map((word, at) => (word << 1) | (at === 0 ? 0 : bits[at - 1]! >>> 31))
