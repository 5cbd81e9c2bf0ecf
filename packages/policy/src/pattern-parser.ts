/** A pattern as a tree. `set`: ranges of code points, in pairs. */
export type Node =
  | { kind: 'set'; ranges: readonly number[]; isNegated: boolean; isFolded: boolean }
  | { kind: 'assert'; what: Assertion }
  | { kind: 'sequence'; parts: readonly Node[] }
  | { kind: 'choice'; parts: readonly Node[] }
  | { kind: 'repeat'; part: Node; min: number; max: number | undefined }

export type Assertion = 'start' | 'end' | 'boundary' | 'no boundary'

/** Greatest number in `{n,m}`. */
const maxRepeat = 100
const maxGroups = 50

/** What is wrong with a pattern, as the end of a sentence. */
export class PatternFault extends Error {}

const digits = [48, 57]
const wordSigns = [48, 57, 65, 90, 95, 95, 97, 122]
const spaces = [9, 10, 12, 13, 32, 32]
const classes: Readonly<Record<string, readonly number[]>> = { d: digits, w: wordSigns, s: spaces }
const controls: Readonly<Record<string, number>> = { t: 9, n: 10, v: 11, f: 12, r: 13 }
const lastCodePoint = 0x10ffff

/** The other code points of sorted ranges. */
function inverted(ranges: readonly number[]): number[] {
  const others: number[] = []
  let from = 0
  for (let at = 0; at < ranges.length; at += 2) {
    if (ranges[at]! > from) others.push(from, ranges[at]! - 1)
    from = ranges[at + 1]! + 1
  }
  return from <= lastCodePoint ? [...others, from, lastCodePoint] : others
}

/** Reads the part of RE2 that two languages can match alike: no references, no lookaround, no classes by name. */
export class PatternParser {
  readonly #signs: readonly string[]
  #at = 0
  #isFolded = false
  #groups = 0

  constructor(pattern: string) {
    this.#signs = [...pattern]
  }

  /** Throws PatternFault. */
  parse(): Node {
    const node = this.#choice()
    if (this.#at < this.#signs.length) throw new PatternFault('has a ) without a (')
    return node
  }

  get #next(): string | undefined {
    return this.#signs[this.#at]
  }

  #take(text: string): boolean {
    const isThere = [...text].every((sign, offset) => this.#signs[this.#at + offset] === sign)
    if (isThere) this.#at += text.length
    return isThere
  }

  #choice(): Node {
    // A flag such as (?i) holds to the end of its group.
    const before = this.#isFolded
    const parts = [this.#sequence()]
    while (this.#take('|')) parts.push(this.#sequence())
    this.#isFolded = before
    return parts.length === 1 ? parts[0]! : { kind: 'choice', parts }
  }

  #sequence(): Node {
    const parts: Node[] = []
    while (this.#next !== undefined && this.#next !== '|' && this.#next !== ')') {
      if (this.#take('(?i)')) this.#isFolded = true
      else parts.push(this.#repeated(this.#single()))
    }
    return { kind: 'sequence', parts }
  }

  #repeated(part: Node): Node {
    const range = this.#quantifier()
    if (!range) return part
    if (part.kind === 'assert') throw new PatternFault('repeats an anchor or \\b')
    // Whether it takes little or much makes no difference for whether it matches.
    this.#take('?')
    if (this.#quantifier()) throw new PatternFault('repeats a repetition')
    return { kind: 'repeat', part, ...range }
  }

  #quantifier(): { min: number; max: number | undefined } | undefined {
    if (this.#take('*')) return { min: 0, max: undefined }
    if (this.#take('+')) return { min: 1, max: undefined }
    if (this.#take('?')) return { min: 0, max: 1 }
    if (this.#next !== '{') return undefined
    const rest = this.#signs.slice(this.#at, this.#at + 12).join('')
    const [all, low, comma, high] = /^\{(\d{1,4})(?:(,)(\d{1,4})?)?\}/.exec(rest) ?? []
    if (all === undefined) throw new PatternFault('has a { that begins no {2} or {2,5}; a literal one is \\{')
    this.#at += all.length
    const min = Number(low)
    const max = comma === undefined ? min : high === undefined ? undefined : Number(high)
    if (min > maxRepeat || (max ?? 0) > maxRepeat) throw new PatternFault(`repeats more than ${maxRepeat} times`)
    if (max !== undefined && max < min) throw new PatternFault('has a repetition whose end is before its beginning')
    return { min, max }
  }

  #single(): Node {
    const sign = this.#signs[this.#at++]!
    if (sign === '(') return this.#group()
    if (sign === '[') return this.#class()
    if (sign === '.') return this.#set([10, 10], true)
    if (sign === '^') return { kind: 'assert', what: 'start' }
    if (sign === '$') return { kind: 'assert', what: 'end' }
    if ('*+?{'.includes(sign)) throw new PatternFault(`has a ${sign} with nothing to repeat`)
    if (sign !== '\\') return this.#set([sign.codePointAt(0)!, sign.codePointAt(0)!])
    if (this.#take('b')) return { kind: 'assert', what: 'boundary' }
    if (this.#take('B')) return { kind: 'assert', what: 'no boundary' }
    if (this.#take('A')) return { kind: 'assert', what: 'start' }
    if (this.#take('z')) return { kind: 'assert', what: 'end' }
    return this.#set(this.#escape())
  }

  #set(ranges: readonly number[], isNegated = false): Node {
    return { kind: 'set', ranges, isNegated, isFolded: this.#isFolded }
  }

  #group(): Node {
    if (++this.#groups > maxGroups) throw new PatternFault(`has more than ${maxGroups} groups`)
    const before = this.#isFolded
    if (this.#take('?i:')) this.#isFolded = true
    else if (this.#take('?P<')) {
      while (this.#next !== undefined && /\w/.test(this.#next)) this.#at += 1
      if (!this.#take('>')) throw new PatternFault('has a group whose name has no end')
    } else if (!this.#take('?:') && this.#next === '?') {
      throw new PatternFault('has a group that is not supported: only (…), (?:…), (?i), (?i:…) and (?P<name>…) are')
    }
    const node = this.#choice()
    this.#isFolded = before
    if (!this.#take(')')) throw new PatternFault('has a ( without a )')
    return node
  }

  /** Reads what follows a backslash, as ranges. */
  #escape(): readonly number[] {
    const sign = this.#signs[this.#at++]
    if (sign === undefined) throw new PatternFault('ends in a backslash')
    const named = classes[sign.toLowerCase()]
    if (named && /[dws]/i.test(sign)) return sign === sign.toLowerCase() ? named : inverted(named)
    const control = controls[sign]
    if (control !== undefined) return [control, control]
    if (sign === 'x') return this.#hexadecimal()
    if (/[\p{L}\p{N}]/u.test(sign)) throw new PatternFault(`has \\${sign}, which is not supported`)
    return [sign.codePointAt(0)!, sign.codePointAt(0)!]
  }

  #hexadecimal(): readonly number[] {
    const rest = this.#signs.slice(this.#at, this.#at + 8).join('')
    const [all, braced, plain] = /^(?:\{([0-9a-fA-F]{1,6})\}|([0-9a-fA-F]{2}))/.exec(rest) ?? []
    const code = Number.parseInt(braced ?? plain ?? '', 16)
    if (all === undefined || code > lastCodePoint)
      throw new PatternFault('has \\x without a code such as \\x41 or \\x{1F600}')
    this.#at += all.length
    return [code, code]
  }

  #class(): Node {
    const isNegated = this.#take('^')
    const ranges: number[] = []
    while (this.#next !== ']') {
      if (this.#next === undefined) throw new PatternFault('has a [ without a ]')
      if (this.#next === '[' && this.#signs[this.#at + 1] === ':') {
        throw new PatternFault('has a class by name such as [:alpha:], which is not supported')
      }
      const low = this.#inClass()
      const isRange = this.#next === '-' && this.#signs[this.#at + 1] !== ']' && this.#signs[this.#at + 1] !== undefined
      if (!isRange) ranges.push(...low)
      else {
        this.#at += 1
        const high = this.#inClass()
        const isOne = low.length === 2 && low[0] === low[1] && high.length === 2 && high[0] === high[1]
        if (!isOne || low[0]! > high[0]!) throw new PatternFault('has a range in [] that ends before it begins')
        ranges.push(low[0]!, high[0]!)
      }
    }
    this.#at += 1
    if (ranges.length === 0) throw new PatternFault('has an empty []; a literal ] is \\]')
    return this.#set(ranges, isNegated)
  }

  #inClass(): readonly number[] {
    const sign = this.#signs[this.#at++]!
    return sign === '\\' ? this.#escape() : [sign.codePointAt(0)!, sign.codePointAt(0)!]
  }
}
