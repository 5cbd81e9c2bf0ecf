import { Buffer } from 'node:buffer'
import { createHash, createHmac } from 'node:crypto'
import { keysIn, secretFormats } from './credentials.ts'
import { entriesOf, redactedText } from './redact.ts'

/** Of a longer text only this much is hashed and searched: it takes the agent some milliseconds. */
const maxLength = 256 * 1024
const maxValues = 10_000
const maxDepth = 8
const maxTextLength = 1_000
/** In JSON, within what metadata has room for. */
const maxTextBytes = 3 * 1024

/** Result of a tool or answer of a model, in events. */
interface ReportedResult {
  /** Characters of all texts in it. */
  length: number
  /** HMAC-SHA-256 of the text, cut to 32 hexadecimal digits. The same text has the same hash under one key. */
  hash: string
  /** Names of the formats of secrets in it. */
  secrets?: string[]
  /** The text is longer than what was hashed and searched. */
  cut?: true
  /** Only if switched on: the text without secrets. */
  text?: string
}

class Texts {
  readonly found: string[] = []
  length = 0
  #values = 0
  isCut = false

  visit(value: unknown, depth: number): void {
    this.#values += 1
    if (this.#values > maxValues || depth > maxDepth) this.isCut = true
    else if (typeof value === 'string') this.#add(value)
    else if (typeof value === 'number' || typeof value === 'bigint') this.#add(String(value))
    else if (ArrayBuffer.isView(value)) {
      this.#add(Buffer.from(value.buffer, value.byteOffset, Math.min(value.byteLength, maxLength)).toString())
      this.isCut ||= value.byteLength > maxLength
    } else if (Array.isArray(value)) for (const item of value.slice(0, maxValues)) this.visit(item, depth + 1)
    else if (typeof value === 'object' && value !== null) {
      for (const [, item] of entriesOf(value)) {
        if (this.#values > maxValues) return
        this.visit(item, depth + 1)
      }
    }
  }

  #add(text: string): void {
    if (this.length < maxLength) this.found.push(text.slice(0, maxLength - this.length))
    this.length += text.length
    if (this.length > maxLength) this.isCut = true
  }
}

/** A result or answer as it was read. */
export interface ReadResult {
  result: ReportedResult
  /** What in it may be a key; empty: nothing. */
  keys: string
}

/** Describes results of tools and answers of models. */
export class Results {
  readonly #hashKey: Buffer
  readonly #withText: boolean

  /**
   * Hashes are keyed by the key of the agent, so that a reader of events cannot guess a short result, such as a code of
   * four digits, by hashing all of them.
   */
  constructor(key: string, withText: boolean) {
    this.#hashKey = createHash('sha256').update(`wardline-result-v1\n${key}`).digest()
    this.#withText = withText
  }

  /** For any value; does not throw. Undefined for a value without a text. */
  of(result: unknown): ReadResult | undefined {
    const texts = new Texts()
    try {
      texts.visit(result, 0)
    } catch {
      texts.isCut = true
    }
    if (texts.found.length === 0) return undefined
    const text = texts.found.join('\n')
    const secrets = secretFormats(text)
    const described: ReportedResult = {
      length: texts.length,
      hash: createHmac('sha256', this.#hashKey).update(text).digest('hex').slice(0, 32),
      ...(secrets.length === 0 ? {} : { secrets }),
      ...(texts.isCut ? { cut: true } : {}),
      ...(this.#withText ? { text: shown(text) } : {}),
    }
    return { result: described, keys: keysIn(text) }
  }
}

function shown(text: string): string {
  const short = redactedText(text, maxTextLength)
  return Buffer.byteLength(JSON.stringify(short)) <= maxTextBytes ? short : redactedText(text, maxTextLength / 4)
}
