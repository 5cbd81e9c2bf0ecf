import type { RE2JS } from 're2js'

const maxRune = 0x10ffff

/** Sets that are kept by their source: an expression has some dozens, and most have the same. */
const maxKept = 5_000
const kept = new Map<string, CharacterSet>()

/** The characters that one place of an expression matches, as ranges of code points in their order. */
export class CharacterSet {
  /** First and last code point of each range in turn. */
  readonly ranges: readonly number[]
  static readonly any = new CharacterSet([0, maxRune])
  static readonly anyInLine = new CharacterSet([0, 9, 11, maxRune])
  static readonly word = new CharacterSet([48, 57, 65, 90, 95, 95, 97, 122])
  static readonly lineFeed = new CharacterSet([10, 10])

  constructor(ranges: readonly number[]) {
    this.ranges = ranges
  }

  /** Returns the set of a source such as `[a-z]`, or throws what the library finds wrong with it. */
  static of(source: string, { i }: { i: boolean }, re2: typeof RE2JS): CharacterSet {
    const key = `${i ? 'ignoring case' : 'as is'} ${source}`
    const known = kept.get(key)
    if (known) return known
    return CharacterSet.#keep(key, new CharacterSet(rangesOf(source, i, re2)))
  }

  /** Returns the set of one character, in both cases if `i` is set. */
  static one(sign: string, flags: { i: boolean }, re2: typeof RE2JS): CharacterSet {
    const code = sign.codePointAt(0)!
    if (flags.i && (code >= 128 || /[a-z]/i.test(sign)))
      return CharacterSet.of(`[\\x{${code.toString(16)}}]`, flags, re2)
    return kept.get(sign) ?? CharacterSet.#keep(sign, new CharacterSet([code, code]))
  }

  static #keep(key: string, set: CharacterSet): CharacterSet {
    if (kept.size >= maxKept) kept.clear()
    kept.set(key, set)
    return set
  }

  static union(sets: readonly CharacterSet[]): CharacterSet {
    const pairs = sets.flatMap(({ ranges }) => pairsOf(ranges)).toSorted((a, b) => a[0] - b[0])
    const joined: number[] = []
    for (const [first, last] of pairs) {
      if (joined.length > 0 && first <= joined.at(-1)! + 1) joined[joined.length - 1] = Math.max(joined.at(-1)!, last)
      else joined.push(first, last)
    }
    return new CharacterSet(joined)
  }

  /** The only character; undefined if there are others or none. */
  get only(): string | undefined {
    const [first, last] = this.ranges
    return this.ranges.length === 2 && first === last ? String.fromCodePoint(first!) : undefined
  }
}

function pairsOf(ranges: readonly number[]): [number, number][] {
  const pairs: [number, number][] = []
  for (let at = 0; at < ranges.length; at += 2) pairs.push([ranges[at]!, ranges[at + 1]!])
  return pairs
}

/** Reads the ranges from the only instruction that takes a character. */
function rangesOf(source: string, ignoresCase: boolean, re2: typeof RE2JS): readonly number[] {
  const { prog } = re2.compile(source, ignoresCase ? re2.CASE_INSENSITIVE : 0).re2Input
  const taking = prog.inst.find(({ op }: { op: number }) => op >= firstTaking && op <= lastTaking)
  if (taking === undefined) return []
  if (taking.op === takingAny) return CharacterSet.any.ranges
  if (taking.op === takingAnyInLine) return CharacterSet.anyInLine.ranges
  const runes: number[] = [...taking.runes]
  if (runes.length > 1) return runes
  const [rune] = runes as [number]
  // The library reads `[aA]` as an `a` in any case.
  const isAnyCase = ignoresCase || (taking.arg & foldsCase) !== 0
  if (!isAnyCase || rune === 0) return [rune, rune]
  // Alone it stands for all its cases; beside another character they are listed. That one is first, with its range.
  return rangesOf(`[\\0\\x{${rune.toString(16)}}]`, true, re2).slice(2)
}

// Constants of re2js: the instructions that take a character.
const firstTaking = 8
const takingAny = 10
const takingAnyInLine = 11
const lastTaking = 11
/** A flag of such an instruction. */
const foldsCase = 1
