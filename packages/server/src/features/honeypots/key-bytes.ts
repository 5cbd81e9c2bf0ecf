import { unzipSync } from 'node:zlib'
import type { Slices, WorkBudget } from '../../work-turns.ts'
import { alphabet, runsOf } from './key-runs.ts'

/**
 * Maximum size of unpacked data, about a millisecond of unpacking and ten times what fits packed into a check. Larger
 * data is not searched; the budget records it.
 */
const maxUnpackedBytes = 256 * 1024
/** Fixed cost of unpacking, in addition to the bytes: each call creates a native object. */
const unitsOfUnpacking = 60_000

const valuesOf = (letters: string): Uint8Array =>
  Uint8Array.from({ length: 128 }, (_, code) => Math.max(0, letters.indexOf(String.fromCharCode(code))))
const base64Values = valuesOf('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/')
const base32Values = valuesOf('ABCDEFGHIJKLMNOPQRSTUVWXYZ234567')
for (let code = 97; code <= 122; code++) base32Values[code] = code - 97

const base64Letters = alphabet(/[A-Za-z0-9+/_-]/)
const hexLetters = alphabet(/[0-9a-fA-F]/)
const base32Letters = [alphabet(/[A-Z2-7]/), alphabet(/[a-z2-7]/)]

/** Returns the runs that could be base64 and contain a key. */
const base64Runs = (text: string): string[] => runsOf(text, base64Letters, 24).map((run) => run.text)
export const base64TextRuns = (text: string): string[] =>
  base64Runs(text).filter((run) => mayHoldText(run, base64Values, [0b100000, 0b1000, 0b10, 0], 4))
export const base32TextRuns = (text: string): string[] =>
  base32Letters.flatMap((letters) =>
    runsOf(text, letters, 32)
      .map((run) => run.text)
      .filter((run) => mayHoldText(run, base32Values, [0b10000, 0b10, 0, 0b1000, 0b1, 0, 0b100, 0], 2)),
  )
export const hexRuns = (text: string): string[] => runsOf(text, hexLetters, 40).map((run) => run.text)

/**
 * Whether a run could decode, at any alignment, to 16 characters of ASCII: each byte has a first bit of 0. `masks` says
 * where these bits are in a group of letters that makes whole bytes; 16 characters contain at least `groups` of them.
 * Words glued together hardly ever pass, and are not decoded.
 */
function mayHoldText(run: string, values: Uint8Array, masks: readonly number[], groups: number): boolean {
  for (let start = 0; start < masks.length; start++) {
    let good = 0
    for (let at = start; at + masks.length <= run.length; at += masks.length) {
      let place = 0
      while (place < masks.length && (values[run.charCodeAt(at + place)]! & masks[place]!) === 0) place++
      good = place === masks.length ? good + 1 : 0
      if (good === groups) return true
    }
  }
  return false
}

/**
 * Decodes every base64 or base64url run that could contain a key. Other text in the same alphabet (a path, a name) may
 * precede the key, so all runs are decoded at each of the four alignments; returns the decoded runs by alignment.
 */
export function base64Bytes(runs: readonly string[]): string[][] {
  return [0, 1, 2, 3].map((start) => runs.map((run) => Buffer.from(run.slice(start), 'base64').toString('latin1')))
}

/** First base64 characters of gzip, and of zlib at its usual levels. */
export const packedStart = /H4sI|eJ[w-z]|eN[o-r]|eA[E-H]|eF[4-7]/g

/**
 * Unpacks gzip and zlib data in base64 runs. Code has hundreds of starts by chance (`typeNode`), so each one is paid for.
 * The budget records data beyond the maximum size.
 */
export function* unpackedBytes(text: string, budget: WorkBudget): Slices<string[]> {
  const texts: string[] = []
  for (const run of base64Runs(text)) {
    for (const { index } of run.matchAll(packedStart)) {
      if (!budget.take(unitsOfUnpacking + run.length - index)) return texts
      const unpacked = unzipped(Buffer.from(run.slice(index), 'base64'), budget)
      if (unpacked !== undefined && budget.take(unpacked.length * 4)) texts.push(unpacked)
      if (budget.isSliceOver()) yield
    }
  }
  return texts
}

function unzipped(bytes: Buffer, budget: WorkBudget): string | undefined {
  try {
    return unzipSync(bytes, { maxOutputLength: maxUnpackedBytes, finishFlush: 2 }).toString('latin1')
  } catch (fault) {
    if ((fault as { code?: string }).code === 'ERR_BUFFER_TOO_LARGE') budget.exhaust()
    return undefined
  }
}

/** Lists of at least 20 hexadecimal bytes: `41:42`, `41 42`, `0x41, 0x42`, `41-42`. */
const hexList = /(?:0x)?[0-9a-f]{2}(?:[\s,:;.-]{1,3}(?:0x)?[0-9a-f]{2}){19,}/gi

/** Decodes runs of hexadecimal digits, also from their second digit on. Returns them by alignment. */
export function hexBytes(runs: readonly string[]): string[][] {
  return [0, 1].map((start) => runs.map((run) => fromHex(run.slice(start))))
}

/** Decodes lists of hexadecimal bytes. */
export function hexListBytes(text: string): string[] {
  return (withoutCalls(text).match(hexList) ?? []).map((list) => fromHex(list.replace(/0x|[^0-9a-f]/gi, '')))
}

const fromHex = (digits: string): string => Buffer.from(digits, 'hex').toString('latin1')

/** Decodes lists of character codes: `String.fromCharCode(115, 107)`, `chr(115)+chr(107)`, `[115,107]`, `115 107`. */
export function byteListBytes(text: string): string[] {
  const lists = withoutCalls(text).match(/\d{2,3}(?:[\s,;:.-]{1,3}\d{2,3}){19,}/g) ?? []
  return lists.map((list) =>
    String.fromCharCode(
      ...list
        .split(/\D+/)
        .map(Number)
        .filter((code) => code < 128),
    ),
  )
}

/** Removes the calls around single codes (`chr(115)`), as written in many languages. */
function withoutCalls(text: string): string {
  if (!/\(|\[char\]/i.test(text)) return text
  return text
    .replace(/\[char\]|(?:(?:String\s?\.\s?)?from(?:Char|Code)\w{4,5}|chr|char|ord)?[()[\]+&."']+/gi, ' ')
    .replace(/\s{2,}/g, ' ')
}

/** Decodes every base32 run; returns the decoded runs by each of the eight alignments. */
export function base32Bytes(runs: readonly string[]): string[][] {
  const decoded = runs.map(base32Decoded)
  return Array.from({ length: 8 }, (_, bits) => decoded.map((bytes) => shifted(bytes, bits)))
}

function base32Decoded(run: string): Buffer {
  const bytes = Buffer.allocUnsafe(Math.floor((run.length * 5) / 8))
  let bits = 0
  let carry = 0
  let place = 0
  for (let index = 0; index < run.length; index++) {
    carry = ((carry << 5) | base32Values[run.charCodeAt(index)]!) & 0xfff
    bits += 5
    if (bits >= 8) {
      bits -= 8
      bytes[place++] = (carry >> bits) & 0xff
    }
  }
  return bytes
}

/** Letters have five bits, so each start within eight letters is another shift by bits. */
function shifted(bytes: Buffer, bits: number): string {
  if (bits === 0) return bytes.toString('latin1')
  const moved = Buffer.allocUnsafe(Math.max(0, bytes.length - 1))
  for (let index = 0; index < moved.length; index++) {
    moved[index] = ((bytes[index]! << bits) | (bytes[index + 1]! >> (8 - bits))) & 0xff
  }
  return moved.toString('latin1')
}
