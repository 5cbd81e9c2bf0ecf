/** Separates words of a text: white space, quotes, brackets, commas. What may stand inside an address does not. */
const separators = /[\s"'`,;()[\]{}<>|*\u2018\u2019\u201c\u201d\u00ab\u00bb]+/u
/** Punctuation at the edges of a word. */
const edges = '.:!?=-'

/** Returns a text without these signs at its end, in linear time: an expression that ends in `[…]+$` takes quadratic. */
export function withoutEnd(text: string, signs: string): string {
  let end = text.length
  while (end > 0 && signs.includes(text[end - 1]!)) end -= 1
  return text.slice(0, end)
}

function withoutEdges(text: string): string {
  let start = 0
  while (start < text.length && edges.includes(text[start]!)) start += 1
  return withoutEnd(text.slice(start), edges)
}

export const normalized = (text: string): string => text.normalize('NFC').toLowerCase().trim()

/** Splits a text into words, in lower case. An address or a mail address is one word. */
export function wordsOf(text: string): string[] {
  return normalized(text)
    .split(separators)
    .map(withoutEdges)
    .filter((word) => word !== '')
}

/** A number of up to three digits stands in every other text by accident. */
export const provesNothing = (words: readonly string[]): boolean => words.every((word) => /^\d{1,3}$/.test(word))
