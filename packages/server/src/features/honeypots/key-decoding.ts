import type { Slices, WorkBudget } from '../../work-turns.ts'
import { base32Bytes, base64Bytes, byteListBytes, hexBytes, packedStart, unpackedBytes } from './key-bytes.ts'
import { withoutEscapes } from './text-escapes.ts'

/**
 * Maximum number of characters of a reading, because a step of the search runs without a pause. Only Unicode
 * normalization can make a text longer: a longer reading is cut, and the budget records it.
 */
export const maxReadingLength = 65_536

/** Characters that quoting, wrapping and commenting put between the parts of a key; none occurs in a key. */
const glue = /[\s"'`\\,>|#*\u00ad\u200b-\u200d\u2060\ufeff]+/g

/** One way to decode a text. `units`: approximate cost per character. */
interface Decoding {
  /** Whether the text has any sign of this encoding; most texts have none. */
  applies(text: string): boolean
  units: number
  /** Returns one reading for each alignment. */
  decode(text: string, budget: WorkBudget): string[]
}

const decodings: readonly Decoding[] = [
  { applies: (text) => text.includes('%'), units: 20, decode: (text) => [percentDecoded(text)] },
  { applies: (text) => text.includes('\\'), units: 30, decode: (text) => [withoutEscapes(text)] },
  { applies: (text) => /[^\0-\x7f]/.test(text), units: 20, decode: (text) => [text.normalize('NFKC')] },
  { applies: (text) => /^[ \t]{0,8}(?:[+-]|\d)/m.test(text), units: 10, decode: (text) => [withoutMargins(text)] },
  {
    applies: (text) => /[\s"'`\\,>|#*\u00ad\u200b-\u200d\u2060\ufeff]/.test(text),
    units: 15,
    decode: (text) => [joined(text)],
  },
  { applies: (text) => /&(?:#|\w{2,8};)/.test(text), units: 20, decode: (text) => [withoutEntities(text)] },
  { applies: (text) => /=(?:[0-9A-Fa-f]{2}|\r?\n)/.test(text), units: 20, decode: (text) => [quotedPrintable(text)] },
  {
    applies: (text) => /[A-Za-z0-9+/_-]{24}/.test(text),
    units: 30,
    decode: (text) => base64Bytes(text).map(printable),
  },
  {
    applies: (text) => text.search(packedStart) !== -1,
    units: 10,
    decode: (text, budget) => unpackedBytes(text, budget).map((unpacked) => printable([unpacked])),
  },
  {
    applies: (text) => /[0-9a-f]{40}|(?:[0-9a-f]{2}\W{1,3}(?:0x)?){4}|0x[0-9a-f]{2}\W/i.test(text),
    units: 20,
    decode: (text) => hexBytes(text).map(printable),
  },
  {
    applies: (text) => /(?:\d{2,3}\W{1,3}){4}|(?:chr|char|code|point)\W{0,2}[(\d]/i.test(text),
    units: 30,
    decode: (text) => [printable(byteListBytes(text))],
  },
  {
    applies: (text) => /[A-Z2-7]{32}|[a-z2-7]{32}/.test(text),
    units: 60,
    decode: (text) => base32Bytes(text).map(printable),
  },
]

/**
 * Decodes a text by one step in every known way: percent-encoding, string escapes, Unicode look-alikes, listings with
 * line numbers or diff marks, text broken into lines or string parts, HTML entities, quoted-printable, base64 (also of
 * compressed text), hexadecimal, lists of character codes, base32. Every step is linear in the text, and skipped if the
 * budget does not cover it.
 */
export function* readings(text: string, budget: WorkBudget): Slices<string[]> {
  const found = new Set<string>()
  for (const { applies, units, decode } of decodings) {
    if (!budget.take(text.length) || !applies(text)) continue
    if (!budget.take(text.length * units)) continue
    for (const reading of decode(text, budget)) {
      if (reading.length > maxReadingLength) budget.exhaust()
      if (reading !== text && reading.length > 0) found.add(reading.slice(0, maxReadingLength))
    }
    if (budget.isSliceOver()) yield
  }
  return [...found]
}

/** Decodes one layer; invalid sequences are unchanged. */
export function percentDecoded(text: string): string {
  return text.replace(/%([0-9a-fA-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
}

/** Drops the marks of a diff and the line numbers that file viewers put before each line. */
function withoutMargins(text: string): string {
  return text.replace(/^(?:[+-]|[ \t]{0,8}\d{1,6}[ \t]?[:|→\t ])[ \t]?/gm, '')
}

/** Rejoins a key that was wrapped, quoted line by line, or concatenated from string literals. */
function joined(text: string): string {
  return text
    .replace(/(?<!\\)\\+[nrt]/g, '')
    .replace(/["'`]\s*[+.&]\s*["'`]/g, '')
    .replace(glue, '')
}

/** HTML entities for characters that occur in or around a key. */
const entities: Readonly<Record<string, string>> = {
  amp: '&',
  quot: '"',
  apos: "'",
  lt: '<',
  gt: '>',
  nbsp: ' ',
  lowbar: '_',
  underbar: '_',
  hyphen: '-',
  dash: '-',
  period: '.',
  sol: '/',
  plus: '+',
  equals: '=',
  colon: ':',
  commat: '@',
  tab: '\t',
  newline: '\n',
}

function withoutEntities(text: string): string {
  return text.replace(/&(?:#0{0,8}(\d{1,7})|#[xX]0{0,8}([0-9a-fA-F]{1,6})|(\w{2,8}));?/g, (all, decimal, hex, name) => {
    if (name !== undefined) return entities[name.toLowerCase()] ?? all
    const code = decimal === undefined ? Number.parseInt(hex, 16) : Number(decimal)
    return code <= 0x10ffff ? String.fromCodePoint(code) : all
  })
}

function quotedPrintable(text: string): string {
  return text
    .replace(/=[ \t]{0,8}\r?\n/g, '')
    .replace(/=([0-9A-Fa-f]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
}

/**
 * Returns the stretches of decoded bytes that are ASCII text, like every key. NULs are removed first, because UTF-16
 * has one per ASCII character.
 */
function printable(decoded: readonly string[]): string {
  return decoded.flatMap((bytes) => bytes.replaceAll('\0', '').match(/[\x20-\x7e\r\n\t]{16,}/g) ?? []).join('\n')
}
