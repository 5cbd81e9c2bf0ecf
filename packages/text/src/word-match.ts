/** Characters of a word that are compared. Longer words of ids and paths differ before. */
const maxLetters = 40
/** Words of a query that are compared. */
export const maxQueryWords = 8

/** Cost of a word of a query at a known word: 0 for the same word, up to 4 for a typo in its beginning. */
export type MatchCost = 0 | 1 | 2 | 3 | 4

/** Returns the distinct words of a text, in lower case: its runs of letters and digits. */
export function wordsOf(text: string, max = Number.POSITIVE_INFINITY): string[] {
  const words = new Set<string>()
  for (const word of text
    .normalize('NFKC')
    .toLowerCase()
    .match(/[\p{L}\p{N}]+/gu) ?? []) {
    if (words.size >= max) break
    words.add(word.slice(0, maxLetters))
  }
  return [...words]
}

/**
 * A set of the letters of a word, as bits. A letter that another word lacks costs at least one edit, so most words need no
 * comparison. Letters may share a bit, which only makes more comparisons.
 */
export function lettersOf(word: string): number {
  let letters = 0
  for (let index = 0; index < word.length; index++) {
    const code = word.charCodeAt(index)
    letters |= 1 << (code >= 48 && code <= 57 ? 26 + (code % 6) : code % 26)
  }
  return letters
}

/** A word of a query, prepared for many comparisons. */
export interface AskedWord {
  word: string
  letters: number
  /** Edits that still count as the same word. */
  edits: 0 | 1 | 2
}

/** A wrong digit names another agent, so only words with a letter may have typos; in short ones, everything is near. */
const editsOf = (word: string) => (word.length < 4 || !/\p{L}/u.test(word) ? 0 : word.length < 8 ? 1 : 2)

export const askedWords = (query: string): AskedWord[] =>
  wordsOf(query, maxQueryWords).map((word) => ({ word, letters: lettersOf(word), edits: editsOf(word) }))

function bitCount(bits: number): number {
  let count = 0
  for (let left = bits; left !== 0; left &= left - 1) count += 1
  return count
}

/** Rows of a comparison, kept because a search makes thousands of them. */
const comparison = {
  before: new Uint8Array(maxLetters + 4),
  row: new Uint8Array(maxLetters + 4),
  next: new Uint8Array(maxLetters + 4),
}

/**
 * Returns the edits (a letter inserted, left out or replaced, or two neighbours swapped) between a word and another one,
 * and between the word and the nearest beginning of the other; undefined as soon as both exceed `edits`. Compares no more
 * of the other word than a match can reach.
 */
function distances(word: string, known: string, edits: number): { whole: number; beginning: number } | undefined {
  let { before, row, next } = comparison
  const columns = Math.min(known.length, word.length + edits + 1)
  for (let column = 0; column <= columns; column++) row[column] = column
  let lowestBefore = 0
  let lowest = 0
  for (let line = 1; line <= word.length; line++) {
    const letter = word.charCodeAt(line - 1)
    const letterBefore = line > 1 ? word.charCodeAt(line - 2) : -1
    next[0] = line
    lowestBefore = lowest
    lowest = line
    for (let column = 1; column <= columns; column++) {
      const other = known.charCodeAt(column - 1)
      let cost = Math.min(row[column]! + 1, next[column - 1]! + 1, row[column - 1]! + (letter === other ? 0 : 1))
      const isSwapped = column > 1 && letterBefore === other && letter === known.charCodeAt(column - 2)
      if (isSwapped) cost = Math.min(cost, before[column - 2]! + 1)
      next[column] = cost
      if (cost < lowest) lowest = cost
    }
    // A swap continues from the row before.
    if (lowest > edits && lowestBefore >= edits) return undefined
    ;[before, row, next] = [row, next, before]
  }
  return { whole: row[columns]!, beginning: lowest }
}

/** Returns how well a known word matches; undefined if it does not. `letters` are those of the known word. */
export function matchCost(asked: AskedWord, known: string, letters: number): MatchCost | undefined {
  const { word, edits } = asked
  // Words with edits have more letters than edits, so at least one is in both.
  if ((asked.letters & letters) === 0) return undefined
  const missing = bitCount(asked.letters & ~letters)
  if (missing > edits || known.length < word.length - edits) return undefined
  if (missing === 0) {
    const at = known.indexOf(word)
    if (at === 0) return known.length === word.length ? 0 : 1
    if (at > 0) return 2
  }
  if (edits === 0) return undefined
  const near = distances(word, known, edits)
  if (near === undefined) return undefined
  if (near.whole <= edits) return 3
  return near.beginning <= edits ? 4 : undefined
}

/** Returns how well a text matches all words, in any order; undefined if a word is missing or none was asked for. */
export function textCost(asked: readonly AskedWord[], text: string): number | undefined {
  if (asked.length === 0) return undefined
  const known = wordsOf(text).map((word) => ({ word, letters: lettersOf(word) }))
  let total = 0
  for (const one of asked) {
    const costs = known.flatMap(({ word, letters }) => matchCost(one, word, letters) ?? [])
    if (costs.length === 0) return undefined
    total += Math.min(...costs)
  }
  return total
}
