import { Buffer } from 'node:buffer'

/** The shortest decoy key has 20 characters; anything that encodes one is longer. */
const leastKeyLength = 20
/** Of the 64 KiB that the service searches at once, so that even escaped it fits into a request. */
const mostKeyText = 32_000
/** Longer than any decoy key in any encoding: where a long text is cut, both parts have so much of it. */
const overlap = 2_048
/** A name or a short command may be a path by its looks or not (`id_rsa`); a longer text has to look like one. */
const nameLength = 255
const mostPathBytes = 4_000
/** Requests of each kind for one call. */
const mostRequests = 8

const mostDepth = 12
const mostValues = 5_000
const mostText = mostRequests * mostKeyText

export interface DecoyTexts {
  /** Texts that may hold a key, each for one request. */
  keys: string[]
  /** Paths, or commands with paths in them, each for one request. */
  paths: string[]
  /** Whether that is all there is; false when arguments are too many, too long or too deep, or cannot be read. */
  isComplete: boolean
}

/** What is to be compared with the decoys before a tool gets these arguments. Does not throw, runs no getter. */
export function decoyTexts(args: unknown): DecoyTexts {
  const found = new Collector()
  found.visit(args, 0)
  const keys = keyTexts([...found.texts, ...found.names])
  const paths = pathTexts([...found.texts], [...found.names])
  return bounded(keys, paths, found.isComplete)
}

/** A text that holds a key, in parts that can be searched. */
export const keyParts = (text: string): DecoyTexts => bounded(text === '' ? [] : overlappingParts(text), [], true)

/** A path, or a command, in parts that can be looked up. */
export const pathParts = (text: string): DecoyTexts =>
  bounded([], text !== '' && fitsPathCheck(text) ? [text] : pathTexts([text], []), true)

const bounded = (keys: string[], paths: string[], isComplete: boolean): DecoyTexts => ({
  keys: keys.slice(0, mostRequests),
  paths: paths.slice(0, mostRequests),
  isComplete: isComplete && keys.length <= mostRequests && paths.length <= mostRequests,
})

/** All texts in a value: strings, bytes read as text, names of fields. */
class Collector {
  readonly texts = new Set<string>()
  readonly names = new Set<string>()
  isComplete = true
  readonly #seen = new Set<object>()
  #values = 0
  #characters = 0

  visit(value: unknown, depth: number): void {
    this.#values += 1
    if (typeof value === 'string') this.#add(value, this.texts)
    else if (typeof value === 'object' && value !== null && !this.#seen.has(value)) {
      this.#seen.add(value)
      try {
        if (depth < mostDepth) this.#enter(value, depth + 1)
        else this.isComplete = false
      } catch {
        // What cannot be read is not known to be harmless.
        this.isComplete = false
      }
    }
  }

  #enter(value: object, depth: number): void {
    if (value instanceof URL) this.#add(value.href, this.texts)
    else if (value instanceof ArrayBuffer) this.#addBytes(Buffer.from(value))
    else if (ArrayBuffer.isView(value)) this.#addBytes(Buffer.from(value.buffer, value.byteOffset, value.byteLength))
    else {
      for (const item of isCollection(value) ? value : []) {
        if (this.#isFull()) return
        this.visit(item, depth)
      }
      for (const name of Object.keys(value)) {
        if (this.#isFull()) return
        if (!Array.isArray(value)) this.#add(name, this.names)
        const property = Object.getOwnPropertyDescriptor(value, name)
        if (property?.get) this.isComplete = false
        this.visit(property?.value, depth)
      }
    }
  }

  #isFull(): boolean {
    const isFull = this.#values > mostValues || this.#characters >= mostText
    if (isFull) this.isComplete = false
    return isFull
  }

  #addBytes(bytes: Buffer): void {
    if (bytes.length > mostText) this.isComplete = false
    // Decoys are ASCII; in UTF-16 a NUL stands beside each character.
    this.#add(bytes.subarray(0, mostText).toString('latin1').replaceAll('\0', ''), this.texts)
  }

  #add(text: string, found: Set<string>): void {
    if (text === '' || found.has(text)) return
    const room = mostText - this.#characters
    if (text.length > room) this.isComplete = false
    this.#characters += Math.min(text.length, room)
    found.add(text.slice(0, room))
  }
}

/** Whose content is not in fields of its own. */
const isCollection = (value: object): value is Iterable<unknown> =>
  value instanceof Map || value instanceof Set || value instanceof Headers || value instanceof URLSearchParams

function keyTexts(texts: string[]): string[] {
  const parts = texts.filter(({ length }) => length >= leastKeyLength).flatMap(overlappingParts)
  // Nothing that a decoy consists of stands between the parts, so that they stay apart.
  return packed(parts, '\n;\n', ({ length }) => length <= mostKeyText)
}

function overlappingParts(text: string): string[] {
  const parts: string[] = []
  for (let start = 0; ; start += mostKeyText - overlap) {
    parts.push(text.slice(start, start + mostKeyText))
    if (start + mostKeyText >= text.length) return parts
  }
}

/** A separator, a home, a name with an ending or a leading dot. */
const looksLikePath = (text: string): boolean => /[/\\~]|\w\.\w{1,12}(?!\w)|(?<![\w.])\.\w/.test(text)
const mayBePath = (text: string): boolean => (text.length <= nameLength && /\p{L}/u.test(text)) || looksLikePath(text)
const isOneWord = (text: string): boolean => !/[\s;|&<>()`"'\\]/.test(text)
/** The service follows these from folder to folder, so such a command stays by itself. */
const changesFolder = (text: string): boolean => /(?:^|[\s;|&(])(?:cd|pushd|chdir|set-location|-C)\s/i.test(text)
const fitsPathCheck = (text: string): boolean =>
  text.length * 3 <= mostPathBytes || (text.length <= mostPathBytes && Buffer.byteLength(text) <= mostPathBytes)

function pathTexts(texts: string[], names: string[]): string[] {
  const words = new Set<string>()
  const alone: string[] = []
  for (const text of [...texts.filter(mayBePath), ...names.filter(looksLikePath)]) {
    if (fitsPathCheck(text) && changesFolder(text)) alone.push(text)
    else if (isOneWord(text)) words.add(text)
    else {
      // In quotes, as the name of one file; and its words, by themselves or as they stand in a longer text.
      const quoted = `'${text.replaceAll("'", '')}'`
      if (fitsPathCheck(quoted)) words.add(quoted)
      if (text.length <= nameLength) words.add(text)
      else for (const word of text.split(/[\s;|&<>()`"']+/)) if (looksLikePath(word)) words.add(word)
    }
  }
  return [...alone, ...packed([...words].filter(fitsPathCheck), '\n', fitsPathCheck)]
}

/** The parts, joined as long as they fit. */
function packed(parts: string[], separator: string, fits: (text: string) => boolean): string[] {
  const packs: string[] = []
  for (const part of parts) {
    const joined = `${packs.at(-1)}${separator}${part}`
    if (packs.length > 0 && fits(joined)) packs[packs.length - 1] = joined
    else packs.push(part)
  }
  return packs
}
