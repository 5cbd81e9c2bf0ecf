import type { Slices, WorkBudget } from '../../work-turns.ts'
import {
  base32Bytes,
  base32TextRuns,
  base64Bytes,
  base64TextRuns,
  byteListBytes,
  hexBytes,
  hexListBytes,
  hexRuns,
  packedStart,
  unpackedBytes,
} from './key-bytes.ts'
import { alphabet, runsOf } from './key-runs.ts'
import { withoutEscapes } from './text-escapes.ts'

/**
 * Maximum number of characters of a reading, because a step of the search runs without a pause. Only Unicode
 * normalization can make a text longer, of 64 KiB with some ellipses or fractions by a little: a longer reading is cut,
 * and the budget records it.
 */
const maxReadingLength = 80 * 1024

/**
 * What is tried next on a reading, by how it came about, beside decoding what is in a container. Encodings of single
 * characters are undone all at once after the first time, and joining is the last step: every order and selection of
 * these would give hundreds of readings of one page of code.
 */
const openTo = {
  whole: ['unescaped', 'quotedPrintable', 'withoutMargins', 'joined', 'reversed'],
  unescaped: ['unescaped', 'withoutMargins', 'joined'],
  withoutMargins: ['unescaped', 'joined'],
  quotedPrintable: ['joined'],
  /** Unescaped and without margins. */
  plain: ['joined'],
  joined: ['unescaped'],
  reversed: ['joined'],
  final: [],
} as const satisfies Record<string, readonly string[]>
type Origin = keyof typeof openTo

export interface Reading {
  text: string
  origin: Origin
}

/** A reading by replacing what has a sign. Its cost is that of its signs: most texts have few. */
interface Replacement {
  /** Counts the signs of the encoding. */
  signs(text: string): number
  /** Approximate cost of one sign. */
  units: number
  decode(text: string): string
}

const countOf =
  (sign: string) =>
  (text: string): number => {
    let count = 0
    for (let at = text.indexOf(sign); at !== -1; at = text.indexOf(sign, at + 1)) count++
    return count
  }

function countNonAscii(text: string): number {
  let count = 0
  for (let index = 0; index < text.length; index++) if (text.charCodeAt(index) > 0x7f) count++
  return count
}

/** Cost per character of counting signs, and of copying a text. */
const unitsOfCounting = 2

/** Encodings of single characters, such as `%41`. */
const escapes: readonly Replacement[] = [
  { signs: countNonAscii, units: 50, decode: (text) => text.normalize('NFKC') },
  { signs: countOf('%'), units: 50, decode: percentDecoded },
  { signs: countOf('\\'), units: 50, decode: withoutEscapes },
  { signs: countOf('&'), units: 50, decode: withoutEntities },
]

const decodings: Readonly<Record<'quotedPrintable' | 'withoutMargins' | 'joined', Replacement>> = {
  quotedPrintable: { signs: countOf('='), units: 50, decode: quotedPrintable },
  withoutMargins: { signs: (text) => countOf('\n')(text) + 1, units: 50, decode: withoutMargins },
  // One pass over the text, whatever is in it.
  joined: { signs: (text) => text.length, units: 8, decode: joined },
}

/** Returns the decoded text, or undefined if it has no sign of the encoding or the budget does not cover it. */
function replaced(text: string, { signs, units, decode }: Replacement, budget: WorkBudget): string | undefined {
  if (!budget.take(text.length * unitsOfCounting)) return undefined
  const count = signs(text)
  return count > 0 && budget.take(count * units) ? decode(text) : undefined
}

/** An encoding of whole texts, such as base64. */
interface Container {
  /** Returns the parts of the text that may be encoded so. */
  parts(text: string): string[]
  /** Approximate costs per character of the text, and of its parts. */
  units: number
  unitsOfParts: number
  /** Returns one reading for each alignment. */
  decode(parts: readonly string[]): string[]
}

/** Four bytes in a row, six character codes in a row, perhaps each in a call. A key has at least 20. */
const hexListSign = /\W(?:0x)?[0-9a-f]{2}(?:\W{1,3}(?:[a-z]{2,14}(?:\.[a-z]{2,14})?\W{1,3})?(?:0x)?[0-9a-f]{2}){3}\W/i
const codeListSign = /(?:\d{2,3}\W{1,3}(?:[a-zA-Z]{2,14}(?:\.[a-zA-Z]{2,14})?\W{1,3})?){6}/

const containers: readonly Container[] = [
  {
    parts: base64TextRuns,
    units: 3,
    unitsOfParts: 20,
    decode: (runs) => base64Bytes(runs).map(printable),
  },
  { parts: hexRuns, units: 1, unitsOfParts: 20, decode: (runs) => hexBytes(runs).map(printable) },
  {
    parts: (text) => (hexListSign.test(text) ? [text] : []),
    units: 3,
    unitsOfParts: 20,
    decode: ([text]) => [printable(hexListBytes(text!))],
  },
  {
    parts: (text) => (codeListSign.test(text) ? [text] : []),
    units: 2,
    unitsOfParts: 20,
    decode: ([text]) => [printable(byteListBytes(text!))],
  },
  { parts: base32TextRuns, units: 3, unitsOfParts: 40, decode: (runs) => base32Bytes(runs).map(printable) },
]

/**
 * Decodes a text by one step in every way that its origin leaves open: percent-encoding, string escapes, HTML entities
 * and Unicode look-alikes; listings with line numbers or diff marks; text broken into lines or string parts; quoted-
 * printable; base64, hexadecimal, lists of character codes, base32; optionally backwards.
 * Every step is linear in the text, and skipped if the budget does not cover it.
 */
export function* readings({ text, origin }: Reading, isReversible: boolean, budget: WorkBudget): Slices<Reading[]> {
  const found = new Map<string, Reading>()
  const add = (reading: string, origin: Origin): void => {
    if (reading.length > maxReadingLength) budget.exhaust()
    const cut = reading.slice(0, maxReadingLength)
    if (cut !== text && cut.length > 0 && !found.has(cut)) found.set(cut, { text: cut, origin })
  }
  const steps: readonly string[] = openTo[origin]
  if (steps.includes('unescaped')) yield* unescaped(text, origin, add, budget)
  for (const step of ['quotedPrintable', 'withoutMargins', 'joined'] as const) {
    const made = steps.includes(step) ? replaced(text, decodings[step], budget) : undefined
    if (made !== undefined) add(made, originAfter(step, origin))
    if (budget.isSliceOver()) yield
  }
  if (isReversible && steps.includes('reversed') && budget.take(text.length)) add(reversed(text), 'reversed')
  for (const { parts, units, unitsOfParts, decode } of containers) {
    if (!budget.take(text.length * units)) continue
    const encoded = parts(text)
    const length = encoded.reduce((total, part) => total + part.length, 0)
    if (length === 0 || !budget.take(length * unitsOfParts)) continue
    for (const reading of decode(encoded)) add(reading, 'whole')
    if (budget.isSliceOver()) yield
  }
  return [...found.values()]
}

/** Unpacks compressed data in base64. Much more costly than the other decodings. */
export function* unpackedReadings({ text }: Reading, budget: WorkBudget): Slices<Reading[]> {
  if (!budget.take(text.length) || text.search(packedStart) === -1) return []
  const unpacked = yield* unpackedBytes(text, budget)
  return unpacked.flatMap((bytes) => pieces(printable([bytes]))).map((piece) => ({ text: piece, origin: 'whole' }))
}

/** Overlap of the pieces of a long text; longer than any decoy key in any encoding. */
const overlap = 2_048

function pieces(text: string): string[] {
  const found: string[] = []
  for (let start = 0; start === 0 || start + overlap < text.length; start += maxReadingLength - overlap) {
    found.push(text.slice(start, start + maxReadingLength))
  }
  return found
}

function originAfter(step: 'unescaped' | 'quotedPrintable' | 'withoutMargins' | 'joined', origin: Origin): Origin {
  if (origin === 'whole') return step
  if (step === 'joined' || origin === 'joined') return 'final'
  return step === origin ? origin : 'plain'
}

/** Undoes all escapes at once, and for a whole text also each of several separately. */
function* unescaped(
  text: string,
  origin: Origin,
  add: (reading: string, origin: Origin) => void,
  budget: WorkBudget,
): Slices<void> {
  const single: string[] = []
  let all = text
  for (const encoding of escapes) {
    const alone = origin === 'whole' ? replaced(text, encoding, budget) : undefined
    if (alone !== undefined && alone !== text) single.push(alone)
    all = (all === text ? alone : undefined) ?? replaced(all, encoding, budget) ?? all
    if (all.length > maxReadingLength) {
      budget.exhaust()
      all = all.slice(0, maxReadingLength)
    }
    if (budget.isSliceOver()) yield
  }
  for (const reading of single) if (single.length > 1) add(reading, 'final')
  add(all, originAfter('unescaped', origin))
}

function reversed(text: string): string {
  return Buffer.from(text, 'latin1').reverse().toString('latin1')
}

/** Decodes one layer; invalid sequences are unchanged. */
export function percentDecoded(text: string): string {
  return text.replace(/%([0-9a-fA-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
}

/** Drops the marks of a diff and the line numbers that file viewers put before each line. */
function withoutMargins(text: string): string {
  return text.replace(/^(?:[+-]|[ \t]{0,8}\d{1,6}[ \t]?[:|→\t ])[ \t]?/gm, '')
}

/** Characters that quoting, wrapping and commenting put between the parts of a key; none occurs in a key. */
const glue = /[\s"'`\\,>|#*\u00ad\u200b-\u200d\u2060\ufeff]/
const isGlue = Uint8Array.from({ length: 0x10000 }, (_, code) => (glue.test(String.fromCharCode(code)) ? 1 : 0))

/** Rejoins a key that was wrapped, quoted line by line, or concatenated from string literals. */
export function joined(text: string): string {
  return withoutGlue(text.replace(/(?<!\\)\\+[nrt]/g, '').replace(/["'`]\s*[+.&]\s*["'`]/g, ''))
}

/** Five times as fast as `replace`, in text of which every sixth character is a space. */
function withoutGlue(text: string): string {
  const kept = new Uint16Array(text.length)
  let length = 0
  let bits = 0
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index)
    if (isGlue[code] === 1) continue
    kept[length++] = code
    bits |= code
  }
  if (bits < 0x100) return Buffer.from(kept.subarray(0, length)).toString('latin1')
  return Buffer.from(kept.buffer, 0, length * 2).toString('utf16le')
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
  return decoded
    .flatMap((bytes) => runsOf(bytes.replaceAll('\0', ''), printableLetters, 16).map((run) => run.text))
    .join('\n')
}

const printableLetters = alphabet(/[\x20-\x7e\r\n\t]/)
