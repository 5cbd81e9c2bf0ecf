import type { IncomingHttpHeaders } from 'node:http'

/** What the body of a call says, as far as it decides whether the call may go on. */
export interface CallBody {
  /** Why this cannot be read without doubt, as the end of a sentence about the body; undefined if it can. */
  fault: string | undefined
  model: string | undefined
  /** Whether a field can name further models, which the provider uses in place of the first. */
  namesFallbacks: boolean
  /** The highest limit of output tokens that is given, for each choice. */
  maxOutputTokens: number | undefined
  /** Answers that are asked for in one call; at least 1. */
  choices: number
}

/** Sizes of the blocks of a body after the first: no more than is there already, so at most half of them is empty. */
const blockBytes = { min: 4 * 1024, max: 64 * 1024 } as const

/**
 * The bytes of a body, in blocks: joining 32 MiB would hold the event loop. They are copied, because a client can send
 * each byte alone, and a buffer for each would take a hundred times its memory.
 */
export class CallBytes {
  readonly #blocks: Buffer[] = []
  /** Bytes of the last block. */
  #used = 0
  length = 0

  get blocks(): Buffer[] {
    return this.#blocks.map((block, at) => (at === this.#blocks.length - 1 ? block.subarray(0, this.#used) : block))
  }

  push(chunk: Buffer): void {
    let copied = 0
    while (copied < chunk.length) {
      const last = this.#blocks.at(-1)
      if (!last || this.#used === last.length) {
        const size = last ? Math.min(Math.max(this.length, blockBytes.min), blockBytes.max) : chunk.length
        this.#blocks.push(Buffer.allocUnsafe(size))
        this.#used = 0
      }
      const bytes = chunk.copy(this.#blocks.at(-1)!, this.#used, copied)
      copied += bytes
      this.#used += bytes
      this.length += bytes
    }
  }
}

/** Raw bytes of a key or value that are kept: names of models are shorter, also with each character escaped. */
const maxRaw = 1_000

const [quote, backslash, opening, closing, openingList, closingList, colon, comma] = Buffer.from('"\\{}[]:,')
const isSpace = (byte: number) => byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09

/** Bytes outside strings that JSON allows. A comment, for example, could hide a quote from this reader. */
const allowed = new Uint8Array(256)
for (const byte of Buffer.from('{}[]:,+-.0123456789eEtrufalsn \n\r\t')) allowed[byte] = 1

/** Objects whose fields are read, by the path of their key. */
const readObjects = new Set(['generationconfig'])

interface Frame {
  path: string
  expects: 'first key' | 'key' | 'colon' | 'value' | 'comma'
}

/**
 * Reads the body of a call while it arrives, in pieces of any size: parsing 32 MiB at its end would hold the event loop.
 * Strict where providers may be, because a body that they read in another way could name another model: keys count
 * without regard to case and underscores, and a model that is named twice is a fault.
 */
export class CallBodyReader {
  readonly #frames: Frame[] = []
  #hasBegun = false
  #fault: string | undefined
  /** Open brackets below the last frame, in values that are not read. */
  #depth = 0
  #inString = false
  #isEscaped = false
  #inScalar = false
  /** Raw characters of the key or value that is read, each a byte; undefined: not kept. */
  #raw: string | undefined
  #key = ''
  readonly #models: (string | undefined)[] = []
  #namesFallbacks = false
  #maxOutputTokens: number | undefined
  #choices = 1

  constructor(headers: IncomingHttpHeaders) {
    this.#fault = faultOf(headers)
  }

  push(chunk: Buffer): void {
    let at = 0
    while (at < chunk.length && this.#fault === undefined) {
      if (this.#inString) at = this.#readString(chunk, at)
      else {
        const byte = chunk[at]!
        at += 1
        if (byte !== quote && allowed[byte] === 0) this.#fault = notJson
        else if (this.#depth > 0) this.#skip(byte)
        else this.#readByte(byte)
      }
    }
  }

  /** Returns what was read. Call once, after the last piece. */
  end(): CallBody {
    const isWhole = this.#hasBegun && this.#frames.length === 0
    const fault = this.#fault ?? (isWhole ? undefined : notJson)
    return {
      fault: fault ?? (this.#models.length > 1 ? 'names its model more than once' : undefined),
      model: fault === undefined && this.#models.length === 1 ? this.#models[0] : undefined,
      namesFallbacks: this.#namesFallbacks,
      maxOutputTokens: this.#maxOutputTokens,
      choices: this.#choices,
    }
  }

  #readString(chunk: Buffer, from: number): number {
    let at = from
    let isEscaped = this.#isEscaped
    for (; at < chunk.length; at++) {
      const byte = chunk[at]
      if (isEscaped) isEscaped = false
      else if (byte === backslash) isEscaped = true
      else if (byte === quote) break
    }
    this.#isEscaped = isEscaped
    this.#keep(chunk, from, at)
    if (at === chunk.length) return at
    this.#inString = false
    if (this.#depth === 0) this.#endString()
    return at + 1
  }

  #keep(chunk: Buffer, from: number, to: number): void {
    if (this.#raw !== undefined && this.#raw.length <= maxRaw) {
      this.#raw += chunk.toString('latin1', from, Math.min(to, from + maxRaw + 1))
    }
  }

  #skip(byte: number): void {
    if (byte === quote) this.#inString = true
    else if (byte === opening || byte === openingList) this.#depth += 1
    else if (byte === closing || byte === closingList) {
      this.#depth -= 1
      if (this.#depth === 0) this.#frames.at(-1)!.expects = 'comma'
    }
  }

  #readByte(byte: number): void {
    const frame = this.#frames.at(-1)
    if (this.#inScalar) {
      if (!isSpace(byte) && byte !== comma && byte !== closing) {
        if (this.#raw!.length < maxRaw) this.#raw += String.fromCharCode(byte)
        return
      }
      this.#inScalar = false
      this.#endValue(this.#raw!)
    }
    if (isSpace(byte)) return
    if (!frame) {
      if (this.#hasBegun || byte !== opening) this.#fault = notJson
      else this.#frames.push({ path: '', expects: 'first key' })
      this.#hasBegun = true
    } else if (byte === closing && (frame.expects === 'comma' || frame.expects === 'first key')) {
      this.#frames.pop()
      const parent = this.#frames.at(-1)
      if (parent) parent.expects = 'comma'
    } else if (frame.expects === 'comma' && byte === comma) frame.expects = 'key'
    else if (frame.expects === 'colon' && byte === colon) frame.expects = 'value'
    else if (frame.expects === 'value') this.#beginValue(frame, byte)
    else if (byte === quote && (frame.expects === 'key' || frame.expects === 'first key')) this.#beginString()
    else this.#fault = notJson
  }

  #beginString(): void {
    this.#inString = true
    this.#raw = ''
  }

  #beginValue(frame: Frame, byte: number): void {
    if (byte === quote) this.#beginString()
    else if (byte === opening && readObjects.has(this.#key)) {
      this.#frames.push({ path: `${this.#key}.`, expects: 'first key' })
    } else if (byte === opening || byte === openingList) {
      this.#endValue(undefined)
      this.#depth = 1
      this.#raw = undefined
    } else if (byte === closing || byte === closingList || byte === comma || byte === colon) this.#fault = notJson
    else {
      this.#inScalar = true
      this.#raw = String.fromCharCode(byte)
      frame.expects = 'comma'
    }
  }

  #endString(): void {
    const frame = this.#frames.at(-1)!
    const text = textOf(this.#raw!)
    this.#raw = undefined
    if (frame.expects === 'value') {
      this.#endValue(text)
      frame.expects = 'comma'
    } else {
      this.#key = `${frame.path}${text?.toLowerCase().replaceAll('_', '') ?? ''}`
      frame.expects = 'colon'
    }
  }

  /** Notes a value; undefined: it is a list, an object or too long. */
  #endValue(text: string | undefined): void {
    switch (this.#key) {
      case 'model':
        this.#models.push(text)
        break
      case 'models':
      case 'fallbacks':
        this.#namesFallbacks = true
        break
      case 'maxtokens':
      case 'maxcompletiontokens':
      case 'maxoutputtokens':
      case 'generationconfig.maxoutputtokens':
        this.#maxOutputTokens = maxOf(this.#maxOutputTokens, text)
        break
      case 'n':
      case 'generationconfig.candidatecount':
        this.#choices = maxOf(this.#choices, text)
    }
  }
}

/** Returns the larger of a count and a value; a value that is no count is ignored. */
function maxOf<Count extends number | undefined>(count: Count, text: string | undefined): Count | number {
  const value = text === undefined || text.trim() === '' ? Number.NaN : Number(text)
  return value >= 0 ? Math.max(count ?? 0, value) : count
}

const notJson = 'is not an object of JSON'

/** Returns why a body with these headers may be something else than the JSON that it looks like. */
function faultOf({ 'content-encoding': encoding, 'content-type': type = '' }: IncomingHttpHeaders): string | undefined {
  if (encoding !== undefined && encoding !== 'identity') return 'is compressed'
  if (!/^($|text\/plain\b|application\/([\w.-]+\+)?json\b)/i.test(type)) return notJson
  const charset = /charset\s*=\s*"?([^";\s]*)/i.exec(type)?.[1]
  return charset === undefined || /^utf-?8$/i.test(charset) ? undefined : 'is not in UTF-8'
}

/** ASCII without escapes and control characters: such a string of JSON is its text. */
const plainText = /^[\x20-\x5b\x5d-\x7e]*$/

/** Returns the text of a string of JSON from its raw bytes; undefined if it is too long or invalid. */
export function textOf(raw: string): string | undefined {
  if (raw.length > maxRaw) return undefined
  // Millions of short keys would each be parsed otherwise.
  if (plainText.test(raw)) return raw
  try {
    return JSON.parse(`"${Buffer.from(raw, 'latin1')}"`) as string
  } catch {
    return undefined
  }
}
