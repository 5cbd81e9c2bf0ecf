import type { Slices, WorkBudget } from '../../work-turns.ts'
import { KeyReader, type KeyTexts, readingUnits } from './key-texts.ts'

/** A longer event is no piece of a text; it is read as it is. Parsing this takes a few milliseconds at worst. */
const maxLineLength = 16 * 1024
/** Bytes that are read at once. */
const sliceBytes = 4 * 1024
/** Cost of an event besides its bytes; one that cannot be parsed costs an exception. */
const unitsOfEvent = 2_000
const unitsOfFault = 10_000
const unitsOfEventByte = 20
/** Texts of one answer that arrive in pieces: choices, blocks and arguments of tools. */
const maxTexts = 200
const maxDepth = 8
/** Memory of a text besides its characters. */
const heldByReader = 200

/** Fields of events that hold a piece of a text, and those that say of which text. */
const pieces = new Set([
  ...['text', 'content', 'delta', 'thinking', 'partial_json', 'arguments', 'input', 'refusal'],
  ...['reasoning', 'reasoning_content', 'reasoning_text'],
])
const indexes = ['index', 'output_index', 'content_index', 'summary_index']

/** Returns the pieces of texts in an event, each with the place by which the next piece is recognized. */
function* piecesIn(value: unknown, place: string, depth: number): Generator<[place: string, piece: string]> {
  if (typeof value !== 'object' || value === null || depth === 0) return
  const fields = value as Record<string, unknown>
  const here = `${place} ${indexes.map((name) => (typeof fields[name] === 'number' ? fields[name] : '')).join()}`
  for (const [name, field] of Object.entries(fields)) {
    if (typeof field !== 'string') yield* piecesIn(field, `${here}/${name}`, depth - 1)
    else if (pieces.has(name)) yield [`${here}/${name}`, field]
  }
}

/**
 * Finds what may be a key in an answer while it passes: in its bytes and, because a model writes a key in several events
 * of a stream, in the texts that its events are pieces of.
 */
export class AnswerTexts {
  readonly #found: KeyTexts
  readonly #isStream: boolean
  readonly #onRead: () => void
  readonly #onTooMany: () => void
  readonly #bytes: KeyReader
  readonly #texts = new Map<string, KeyReader>()
  /** Whether it has more texts than are put together. */
  #hasMore = false
  /** The end of an answer as far as it is not read: of a line, or of an event in a list. */
  #line = ''
  /** Of an answer of JSON: brackets that are open, and whether it is a list, which Gemini streams without `alt=sse`. */
  #depth = 0
  #isList: boolean | undefined
  #inString = false
  #isEscaped = false

  /** `onRead`: called after each chunk; `onTooMany`: once, if some texts are not put together. */
  constructor(found: KeyTexts, isStream: boolean, onRead: () => void, onTooMany: () => void = () => {}) {
    this.#found = found
    this.#isStream = isStream
    this.#onRead = onRead
    this.#onTooMany = onTooMany
    this.#bytes = new KeyReader(found)
  }

  /** Characters that are kept until the answer ends, as an estimate. */
  get held(): number {
    let held = this.#found.held + this.#bytes.held + this.#line.length
    for (const [place, reader] of this.#texts) held += place.length + reader.held + heldByReader
    return held
  }

  /** Reads the next bytes. */
  *read(chunk: Buffer, budget: WorkBudget): Slices<void> {
    for (let start = 0; start < chunk.length; start += sliceBytes) {
      // Each byte a character: no key has others than ASCII, and JSON stays JSON.
      const part = chunk.toString('latin1', start, start + sliceBytes)
      this.#bytes.push(part)
      budget.count(readingUnits(part))
      if (this.#isStream) yield* this.#readLines(part, budget)
      else if (this.#isList !== false) yield* this.#readList(part, budget)
      if (budget.isSliceOver()) yield
    }
    this.#onRead()
  }

  *end(budget: WorkBudget): Slices<void> {
    if (this.#isStream) yield* this.#readLines('\n', budget)
    for (const reader of [this.#bytes, ...this.#texts.values()]) {
      budget.count(reader.end())
      if (budget.isSliceOver()) yield
    }
    this.#found.flush()
    this.#onRead()
  }

  *#readLines(part: string, budget: WorkBudget): Slices<void> {
    let start = 0
    for (let end = part.indexOf('\n'); end >= 0; end = part.indexOf('\n', start)) {
      this.#keep(part.slice(start, end))
      this.#readLine(budget)
      start = end + 1
      if (budget.isSliceOver()) yield
    }
    this.#keep(part.slice(start))
  }

  /** Reads each event of a list once it is complete. */
  *#readList(part: string, budget: WorkBudget): Slices<void> {
    let start = 0
    for (let at = 0; at < part.length && this.#isList !== false; at++) {
      const character = part[at]!
      if (this.#inString) {
        if (this.#isEscaped) this.#isEscaped = false
        else if (character === '\\') this.#isEscaped = true
        else if (character === '"') this.#inString = false
      } else if (character === '"') this.#inString = true
      else if (character === '[' || character === '{') {
        this.#isList ??= character === '['
        this.#depth += 1
        if (this.#depth === 2) start = at
      } else if (character === ']' || character === '}') {
        this.#depth -= 1
        if (this.#depth !== 1) continue
        this.#keep(part.slice(start, at + 1))
        this.#readEvent(this.#takeLine(), budget)
        if (budget.isSliceOver()) yield
      }
    }
    if (this.#isList && this.#depth > 1) this.#keep(part.slice(start))
  }

  /** Keeps a little more than a line may have, so that a longer one is recognized. */
  #keep(part: string): void {
    this.#line += part.slice(0, maxLineLength + 1 - this.#line.length)
  }

  #readLine(budget: WorkBudget): void {
    const line = this.#takeLine()
    if (line.startsWith('data:')) this.#readEvent(line.slice('data:'.length), budget)
  }

  #takeLine(): string {
    const line = this.#line
    this.#line = ''
    return line
  }

  #readEvent(json: string, budget: WorkBudget): void {
    if (json.length > maxLineLength) return
    let event: unknown
    budget.count(unitsOfEvent + json.length * unitsOfEventByte)
    try {
      event = JSON.parse(json)
    } catch {
      budget.count(unitsOfFault)
      return
    }
    for (const [place, piece] of piecesIn(event, '', maxDepth)) {
      let text = this.#texts.get(place)
      if (!text) {
        if (this.#texts.size >= maxTexts) {
          if (!this.#hasMore) this.#onTooMany()
          this.#hasMore = true
          continue
        }
        text = new KeyReader(this.#found)
        this.#texts.set(place, text)
      }
      text.push(piece)
    }
  }
}
