import { Buffer, isUtf8 } from 'node:buffer'
import { maxPathBytes, maxRequests, packed, pathTexts } from './decoy-paths.ts'

/** Length of the shortest decoy key; encoded keys are longer. */
const minKeyLength = 20
/** About half of the 64 KiB that the service searches at once, so that even escaped text fits into a request. */
const maxKeyTextLength = 32_000
/** Overlap of the parts of a long text; longer than any decoy key in any encoding. */
const overlap = 2_048

/**
 * Maximum characters of arguments. Longer ones are denied, because searching them would take seconds; no model writes
 * them.
 */
export const maxTextLength = 4 * 1024 * 1024
/** Far above real arguments, and far below what would exhaust the stack or block the agent. */
const maxDepth = 200
const maxValues = 500_000

export interface DecoyTexts {
  /** Texts that may contain a key, each for one request. */
  keys: string[]
  /** Paths, or commands that contain paths, one per request. */
  paths: string[]
  /**
   * Why the texts are incomplete. An attacker who controls the arguments chooses their size and depth (`tooLarge`), but
   * cannot insert values that are not data (`unreadable`).
   */
  gap: 'tooLarge' | 'unreadable' | undefined
}

/**
 * Returns the readings of a text with NUL or lone surrogates, which the service refuses. A tool may drop these
 * characters or end the text at them, and may treat the two kinds differently.
 */
export function sendable(text: string): string[] {
  if (text.isWellFormed() && !text.includes('\0')) return [text]
  const cleaned = (part: string) => part.replace(/[\0\p{Cs}]/gu, '')
  const parts = [/\0/, /\p{Cs}/u, /[\0\p{Cs}]/u].flatMap((sign) => text.split(sign).map(cleaned))
  return [...new Set([cleaned(text), ...parts])]
}

/** Returns the texts to compare with decoys before a tool gets these arguments. Does not throw and runs no getter. */
export function decoyTexts(args: unknown): DecoyTexts {
  const found = new Collector()
  found.visit(args, 0)
  const { texts, names, numbers, gap } = found
  return gap === 'tooLarge'
    ? { keys: [], paths: [], gap }
    : bounded(keyTexts([...texts, ...names, ...numbers]), pathTexts([...texts], [...names]), gap)
}

/** Splits a text that may contain a key into parts that the service can search. */
export const keyParts = (text: string): DecoyTexts =>
  bounded(text.length > maxTextLength ? undefined : sendable(text).filter(Boolean).flatMap(overlappingParts), [])

/** Splits a path or command into parts that the service can look up. */
export function pathParts(text: string): DecoyTexts {
  if (text.length > maxTextLength) return bounded(undefined, [])
  const paths = sendable(text).filter(Boolean)
  const fit = paths.filter((path) => Buffer.byteLength(path) <= maxPathBytes)
  const rest = pathTexts(fit.length < paths.length ? paths : [], [])
  return bounded([], rest && [...fit, ...rest])
}

function bounded(keys: string[] | undefined, paths: string[] | undefined, gap?: DecoyTexts['gap']): DecoyTexts {
  if (!keys || !paths || keys.length + paths.length > maxRequests) return { keys: [], paths: [], gap: 'tooLarge' }
  return { keys, paths, gap }
}

/** Collects all texts in a value: strings, bytes decoded as text (also those in a list of numbers), field names. */
class Collector {
  readonly texts = new Set<string>()
  readonly names = new Set<string>()
  /** Texts in lists of numbers. No tool takes a path so, and most such lists are data in which paths seem to be. */
  readonly numbers = new Set<string>()
  gap: DecoyTexts['gap']
  readonly #seen = new Set<object>()
  #values = 0
  #characters = 0

  visit(value: unknown, depth: number): void {
    this.#values += 1
    if (typeof value === 'string') this.#add(value, this.texts)
    else if (typeof value === 'object' && value !== null && !this.#seen.has(value)) {
      this.#seen.add(value)
      try {
        if (depth < maxDepth) this.#enter(value, depth + 1)
        else this.gap = 'tooLarge'
      } catch {
        // An unreadable value may hide a decoy.
        this.gap ??= 'unreadable'
      }
    }
  }

  #enter(value: object, depth: number): void {
    if (value instanceof URL) this.#add(value.href, this.texts)
    else if (value instanceof ArrayBuffer) this.#addBytes(Buffer.from(value))
    else if (ArrayBuffer.isView(value)) this.#addBytes(Buffer.from(value.buffer, value.byteOffset, value.byteLength))
    else {
      for (const item of isCollection(value) ? value : []) {
        if (this.#isFull(1)) return
        this.visit(item, depth)
      }
      const isList = Array.isArray(value)
      if (isList && this.#isFull(value.length)) return
      let bytes: number[] = []
      for (const name of Object.keys(value)) {
        if (this.#isFull(1)) return
        if (!isList) this.#add(name, this.names)
        const property = Object.getOwnPropertyDescriptor(value, name)
        if (property?.get) this.gap ??= 'unreadable'
        this.visit(property?.value, depth)
        if (isByte(property?.value)) bytes.push(property.value)
        else if (bytes.length > 0) {
          this.#addNumbers(bytes)
          bytes = []
        }
      }
      this.#addNumbers(bytes)
    }
  }

  #isFull(more: number): boolean {
    if (this.#values + more > maxValues || this.#characters > maxTextLength) this.gap = 'tooLarge'
    return this.gap === 'tooLarge'
  }

  #addBytes(bytes: Buffer): void {
    if (bytes.length > maxTextLength) this.gap = 'tooLarge'
    else if (isUtf8(bytes)) this.#add(bytes.toString(), this.texts)
    else this.#addRuns(bytes, /[\t\n\r -~]{4,}/g, this.texts)
  }

  /**
   * Adds the texts in a list of bytes, such as a serialized Buffer. Only those as long as a key: lists of numbers are
   * mostly something else, such as pixels, of which short texts would be found everywhere.
   */
  #addNumbers(bytes: number[]): void {
    if (bytes.length >= minKeyLength) this.#addRuns(Buffer.from(bytes), keyLengthRuns, this.numbers)
  }

  /** Adds the texts in binary data: as ASCII, and as UTF-16 by removing the NUL next to each character. */
  #addRuns(bytes: Buffer, run: RegExp, found: Set<string>): void {
    const characters = bytes.toString('latin1')
    for (const form of new Set([characters, characters.replaceAll('\0', '')])) {
      this.#add(form.match(run)?.join('\n') ?? '', found)
    }
  }

  #add(text: string, found: Set<string>): void {
    this.#characters += text.length
    if (this.#characters > maxTextLength) this.gap = 'tooLarge'
    else for (const form of sendable(text)) if (form !== '') found.add(form)
  }
}

const keyLengthRuns = new RegExp(`[\\t\\n\\r -~]{${minKeyLength},}`, 'g')

const isByte = (value: unknown): value is number =>
  Number.isInteger(value) && (value as number) >= 0 && (value as number) <= 255

/** Whether the object keeps its content outside enumerable fields. */
const isCollection = (value: object): value is Iterable<unknown> =>
  value instanceof Map || value instanceof Set || value instanceof Headers || value instanceof URLSearchParams

function keyTexts(texts: string[]): string[] {
  const parts = texts.filter(({ length }) => length >= minKeyLength).flatMap(overlappingParts)
  // The separator contains no character of a decoy, so that parts do not join into one.
  return packed(parts, '\n;\n', maxKeyTextLength, ({ length }) => length)
}

function overlappingParts(text: string): string[] {
  const parts: string[] = []
  for (let start = 0; ; start += maxKeyTextLength - overlap) {
    const part = text.slice(start, start + maxKeyTextLength)
    // A cut through a surrogate pair leaves halves, which are part of no key.
    parts.push(part.isWellFormed() ? part : part.replace(/\p{Cs}/gu, ''))
    if (start + maxKeyTextLength >= text.length) return parts
  }
}
