import { unzipSync } from 'node:zlib'
import type { WorkBudget } from '../../work-turns.ts'

/** Maximum size of unpacked text. A larger text is not searched; the budget records it. */
const maxUnpackedBytes = 64 * 1024
/** Fixed cost of unpacking, in addition to the bytes: each call creates a native object. */
const unitsOfUnpacking = 10_000

/**
 * Decodes every base64 or base64url run that could contain a key. Other text in the same alphabet (a path, a name) may
 * precede the key, so all runs are decoded at each of the four alignments; returns the decoded runs by alignment.
 */
export function base64Bytes(text: string): string[][] {
  const runs = text.match(/[A-Za-z0-9+/_-]{24,}/g) ?? []
  return [0, 1, 2, 3].map((start) => runs.map((run) => Buffer.from(run.slice(start), 'base64').toString('latin1')))
}

/** First base64 characters of gzip, and of zlib at its usual levels. */
export const packedStart = /H4sI|eJ[w-z]|eN[o-r]|eA[E-H]|eF[4-7]/g
/** Maximum number of such starts per text: an honest text has one, and perhaps more by chance. */
const maxStarts = 16

/** Unpacks gzip and zlib data in base64 runs. The budget records data beyond the size and number limits. */
export function unpackedBytes(text: string, budget: WorkBudget): string[] {
  const runs = text.match(/[A-Za-z0-9+/_-]{24,}/g) ?? []
  const texts: string[] = []
  const packed = runs.flatMap((run) => [...run.matchAll(packedStart)].map(({ index }) => run.slice(index)))
  if (packed.length > maxStarts) budget.exhaust()
  for (const run of packed.slice(0, maxStarts)) {
    if (!budget.take(unitsOfUnpacking)) break
    const text = unzipped(Buffer.from(run, 'base64'), budget)
    if (text !== undefined && budget.take(text.length)) texts.push(text)
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

/** Decodes runs and lists of hexadecimal digits; runs also from their second digit on. Returns them by alignment. */
export function hexBytes(text: string): string[][] {
  const runs = text.match(/[0-9a-fA-F]{40,}/g) ?? []
  const lists = (withoutCalls(text).match(hexList) ?? []).map((list) => list.replace(/0x|[^0-9a-f]/gi, ''))
  return [[...runs, ...lists], runs.map((run) => run.slice(1))].map((aligned) =>
    aligned.map((hex) => Buffer.from(hex, 'hex').toString('latin1')),
  )
}

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

const base32Values = new Map([...'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'].map((letter, value) => [letter, value]))

/** Decodes every base32 run that could contain a key; returns the decoded runs by each of the eight alignments. */
export function base32Bytes(text: string): string[][] {
  const runs = (text.match(/[A-Z2-7]{32,}|[a-z2-7]{32,}/g) ?? []).map((run) =>
    [...run.toUpperCase()].map((letter) => base32Values.get(letter)!),
  )
  return Array.from({ length: 8 }, (_, start) => runs.map((values) => base32Decoded(values, start)))
}

function base32Decoded(values: readonly number[], start: number): string {
  const bytes = Buffer.alloc(Math.floor(((values.length - start) * 5) / 8))
  let bits = 0
  let carry = 0
  let place = 0
  for (let index = start; index < values.length; index++) {
    carry = ((carry << 5) | values[index]!) & 0xfff
    bits += 5
    if (bits >= 8) {
      bits -= 8
      bytes[place++] = (carry >> bits) & 0xff
    }
  }
  return bytes.toString('latin1')
}
