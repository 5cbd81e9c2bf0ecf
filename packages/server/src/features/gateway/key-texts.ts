import { keyFormats } from '../honeypots/key-formats.ts'
import { alphabet, runsOf } from '../honeypots/key-runs.ts'
import { withoutEscapes } from '../honeypots/text-escapes.ts'

/** Characters of keys. */
const keyLetters = alphabet(/[\w.~+/=-]/)
/** With the backslash of escapes: a key that is escaped, also twice, is still one run. */
const writtenLetters = alphabet(/[\w.~+/=\\-]/)
/** The shortest key has 20 characters. */
const minRun = 20
/** Characters before a run that show what it is: `-----BEGIN ENCRYPTED PRIVATE KEY-----`, `Authorization: Bearer`. */
const contextLength = 48
/** The longest key has some 500 characters, each of which can be an escape of six. */
const maxKeyLength = 4 * 1024
/** Characters of a part that is read in one turn, and of a text that is searched: together less than a check may have. */
const partLength = 24 * 1024
const textLength = 32 * 1024
/** Of a run that goes on, added before it is read again: a model writes it in pieces of a few characters. */
const heldLength = 512
/** A longer run is data, such as a picture, of which any part could be a key without a mark: only marks are looked for. */
const dataLength = 1_000
/** Before and after a mark: the longest key has some 500 characters after, and 76 before its mark. */
const aroundMark = { before: 100, after: 600 } as const
/** Two letters come in any data. */
const marks = keyFormats.map(({ mark }) => mark).filter((mark) => mark.length > 2)
/** Runs of ordinary text that come again in each event of a stream, such as ids. */
const maxSeen = 1_000
const maxSeenLength = 100

const isWritten = (code: number): boolean => code < 128 && writtenLetters[code] === 1

function isAllWritten(part: string): boolean {
  let at = part.length - 1
  while (at >= 0 && isWritten(part.charCodeAt(at))) at--
  return at < 0
}

/** Cost of a character of a text that is read, and of an escape in it, which is undone twice. */
const unitsOfCharacter = 8
const unitsOfEscape = 150

/** Returns the cost of reading a part of a text. */
export function readingUnits(part: string): number {
  let units = part.length * unitsOfCharacter
  for (let at = 0; at < part.length; at++) if (part.charCodeAt(at) === 0x5c) units += unitsOfEscape
  return units
}

/** Returns a text that does not keep the longer one in memory of which it is a part. */
export const ownCopy = (text: string): string => ` ${text}`.slice(1)

/** Collects what may be a key, with what stands before it, as texts to search. */
export class KeyTexts {
  readonly #emit: (text: string) => void
  readonly #seen = new Set<string>()
  #seenLength = 0
  #text = ''

  constructor(emit: (text: string) => void) {
    this.#emit = emit
  }

  /** `isApart`: more stands between this and what was added before. */
  add(context: string, run: string, isApart: boolean): void {
    if (this.#seen.has(run)) return
    if (run.length <= maxSeenLength && this.#seen.size < maxSeen) {
      this.#seen.add(ownCopy(run))
      this.#seenLength += run.length
    }
    this.#text += ownCopy(`${isApart ? '\n' : ''}${context}${run}`)
    if (this.#text.length >= textLength) this.flush()
  }

  /** Characters that are kept. */
  get held(): number {
    return this.#seenLength + this.#text.length
  }

  flush(): void {
    if (this.#text === '') return
    const text = this.#text
    this.#text = ''
    this.#emit(text)
  }
}

/** Reads a text in parts of any size, and finds what may be a key in it, also over the borders of parts. */
export class KeyReader {
  readonly #found: Pick<KeyTexts, 'add'>
  /** The run at the end of the last part, which may go on, and what stands before it. */
  #rest = ''
  #isRestApart = true

  constructor(found: Pick<KeyTexts, 'add'>) {
    this.#found = found
  }

  /** Characters that are kept. */
  get held(): number {
    return this.#rest.length
  }

  push(part: string): void {
    if (this.#rest.length + part.length <= maxKeyLength + heldLength && isAllWritten(part)) {
      this.#rest += part
      return
    }
    for (let at = 0; at < part.length; at += partLength) this.#read(this.#rest + part.slice(at, at + partLength))
  }

  /** Call once, after the last part. Returns its cost. */
  end(): number {
    const units = readingUnits(this.#rest)
    this.#read(`${this.#rest} `)
    this.#rest = ''
    return units
  }

  #read(text: string): void {
    let open = text.length
    const furthest = Math.max(0, text.length - maxKeyLength)
    while (open > furthest && isWritten(text.charCodeAt(open - 1))) open--
    // In a longer run, such as a picture, the end is read again with the next part.
    const isLong = text.length - open === maxKeyLength
    let end = 0
    let isApart = this.#isRestApart
    for (const { text: run, start } of runsOf(text, writtenLetters, minRun)) {
      if (start >= open && !isLong) break
      const from = Math.max(end, start - contextLength)
      const context = text.slice(from, start)
      if (run.length <= dataLength) this.#found.add(context, run, isApart || from > end)
      else this.#readLong(context + withoutEscapes(withoutEscapes(run)))
      end = start + run.length
      isApart = false
    }
    const from = isLong ? open : Math.max(end, open - contextLength)
    this.#isRestApart = isApart || isLong || from > end
    this.#rest = ownCopy(text.slice(from))
  }

  /** Reads a run that is too long for one key: several in lines, or data. */
  #readLong(text: string): void {
    let end = 0
    let isApart = true
    for (const { text: run, start } of runsOf(text, keyLetters, minRun)) {
      const from = Math.max(end, start - contextLength)
      if (run.length <= dataLength) this.#found.add(text.slice(from, start), run, isApart || from > end)
      else for (const part of aroundMarks(run)) this.#found.add('', part, true)
      end = start + run.length
      isApart = false
    }
  }
}

/** Returns the parts of a text around marks of keys; marks that are close to each other are in one part. */
function aroundMarks(text: string): string[] {
  const places = marks.flatMap((mark) => {
    const found: number[] = []
    for (let at = text.indexOf(mark); at >= 0; at = text.indexOf(mark, at + 1)) found.push(at)
    return found
  })
  const parts: string[] = []
  let from = 0
  let to = 0
  for (const place of places.sort((one, other) => one - other)) {
    if (place - aroundMark.before > to) {
      if (to > 0) parts.push(text.slice(from, to))
      from = place - aroundMark.before
    }
    to = place + aroundMark.after
  }
  if (to > 0) parts.push(text.slice(from, to))
  return parts
}
