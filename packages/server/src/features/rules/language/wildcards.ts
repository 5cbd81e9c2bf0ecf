import { folded } from './fold.ts'

const any = Symbol('any')
const one = Symbol('one')
type Part = string | typeof any | typeof one

/**
 * Splits a value at its wildcards. A backslash escapes `*`, `?` and another backslash; before other characters it is
 * literal.
 */
function partsOf(value: string): Part[] {
  const parts: Part[] = []
  // Joined, not appended sign by sign: that would take 30 bytes for each of them.
  let texts: string[] = []
  let from = 0
  const flush = () => {
    const text = texts.join('')
    if (text !== '') parts.push(text)
    texts = []
  }
  for (const { 0: sign, index } of value.matchAll(/\\[*?\\]|[*?]/g)) {
    texts.push(value.slice(from, index))
    from = index + sign.length
    if (sign.length > 1) texts.push(sign.slice(1))
    else {
      flush()
      if (sign === '?') parts.push(one)
      else if (parts.at(-1) !== any) parts.push(any)
    }
  }
  texts.push(value.slice(from))
  flush()
  return parts
}

interface Wildcards {
  /** The only matching text, in lower case unless cased; undefined if the value has wildcards. */
  exact: string | undefined
  /** Expects text in lower case unless cased. */
  matches(text: string): boolean
  /** Maximum characters compared at each position of a text. */
  signs: number
  /** The longest part without wildcards, which each matching text contains. */
  longest: string
}

let lastText = ''
let lastCharacters: string[] = []

/**
 * Splits text into code points, so that `?` matches a whole character. Caches the last text, because all values of a
 * list are compared with the same text in turn.
 */
function characters(text: string): string[] {
  if (text !== lastText) {
    lastCharacters = [...text]
    lastText = text
  }
  return lastCharacters
}

/** The part of a value between two `*`, with a fixed number of characters. */
interface Piece {
  /** undefined matches any character. */
  signs: (string | undefined)[]
}

function piecesOf(parts: Part[]): Piece[] {
  const pieces: Piece[] = [{ signs: [] }]
  for (const part of parts) {
    if (part === any) pieces.push({ signs: [] })
    else if (part === one) pieces.at(-1)!.signs.push(undefined)
    else pieces.at(-1)!.signs.push(...part)
  }
  return pieces
}

function fits({ signs }: Piece, text: string[], at: number): boolean {
  for (let index = 0; index < signs.length; index += 1) {
    const sign = signs[index]
    if (sign !== undefined && sign !== text[at + index]) return false
  }
  return true
}

/** Matches the general case: pieces in order, each as early as possible, so that it never backtracks. */
function matchPieces(pieces: Piece[], text: string[]): boolean {
  const [first, ...others] = pieces as [Piece, ...Piece[]]
  const last = others.pop()
  if (last === undefined) return first.signs.length === text.length && fits(first, text, 0)
  const end = text.length - last.signs.length
  let from = first.signs.length
  if (from > end || !fits(first, text, 0) || !fits(last, text, end)) return false
  for (const piece of others) {
    while (from + piece.signs.length <= end && !fits(piece, text, from)) from += 1
    if (from + piece.signs.length > end) return false
    from += piece.signs.length
  }
  return true
}

/** Matches values without `?`: texts in order, each as early as possible. */
function matchTexts(parts: readonly Part[], texts: readonly string[], given: string): boolean {
  const first = parts[0] === any ? '' : texts[0]!
  const last = parts.at(-1) === any ? '' : texts.at(-1)!
  const end = given.length - last.length
  let from = first.length
  if (from > end || !given.startsWith(first) || !given.endsWith(last)) return false
  for (const text of texts.slice(first === '' ? 0 : 1, last === '' ? texts.length : -1)) {
    const found = given.indexOf(text, from)
    if (found < 0) return false
    from = found + text.length
  }
  return from <= end
}

export type Anchor = 'contains' | 'startswith' | 'endswith'

/** Parses a value. Unless it is `cased`, both sides are compared in lower case. */
export function readWildcards(value: string, anchor?: Anchor, isCased = false): Wildcards {
  const parts = partsOf(isCased ? value : folded(value))
  if (anchor === 'contains' || anchor === 'endswith') if (parts[0] !== any) parts.unshift(any)
  if (anchor === 'contains' || anchor === 'startswith') if (parts.at(-1) !== any || parts.length === 1) parts.push(any)
  const texts = parts.filter((part) => typeof part === 'string')
  const [text = ''] = texts
  const longest = texts.reduce((found, each) => (each.length > found.length ? each : found), '')
  const found = (matches: Wildcards['matches'], signs = 0): Wildcards => ({
    exact: undefined,
    matches,
    signs,
    longest,
  })
  const stars = parts.map((part) => (part === any ? '*' : part === one ? '?' : 'a')).join('')
  switch (stars) {
    case '':
    case 'a':
      return { ...found((given) => given === text), exact: text }
    case '*':
    case '**':
      return found(() => true)
    case '*a*':
      return found((given) => given.includes(text))
    case 'a*':
      return found((given) => given.startsWith(text))
    case '*a':
      return found((given) => given.endsWith(text))
  }
  if (!parts.includes(one)) return found((given) => matchTexts(parts, texts, given))
  const pieces = piecesOf(parts)
  const signs = Math.max(0, ...pieces.slice(1, -1).map((piece) => piece.signs.length))
  return found((given) => matchPieces(pieces, characters(given)), signs)
}
