import { textOf } from './call-body.ts'

/** Fields that are read: `true` is a text, a number or null; the fields of an object are also those of each in a list. */
export interface WantedFields {
  readonly [key: string]: true | WantedFields
}

/** Raw bytes of a key or text that are kept: names and reasons are shorter, also with each character escaped. */
const maxRaw = 1_000
/** Objects in lists that are kept of one value; OpenAI has at most 128 choices. */
const maxListed = 1_000

const [quote, backslash, opening, closing, openingList, closingList, colon, comma] = Buffer.from('"\\{}[]:,')
const isSpace = (byte: number) => byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09

interface Frame {
  wanted: WantedFields
  isList: boolean
  /** Undefined: a list that is the whole value, whose objects are passed on one by one. */
  value: Record<string, unknown> | unknown[] | undefined
}

/** Keys that mean something, by their length: they are recognized by their bytes, without a string for each. */
type KnownKeys = { key: string; bytes: Buffer }[][]

function* keysOf(wanted: WantedFields): Generator<string> {
  for (const [key, fields] of Object.entries(wanted)) {
    yield key
    if (fields !== true) yield* keysOf(fields)
  }
}

function knownKeys(keys: ReadonlySet<string>): KnownKeys {
  const known: KnownKeys = []
  for (const key of keys) {
    known[key.length] ??= []
    known[key.length]!.push({ key, bytes: Buffer.from(key) })
  }
  return known
}

function isAt(chunk: Buffer, from: number, bytes: Buffer): boolean {
  for (let at = 0; at < bytes.length; at++) if (chunk[from + at] !== bytes[at]) return false
  return true
}

/**
 * Makes readers of a few fields of values of JSON while they pass, in pieces of any size: parsing some megabytes at their
 * end would hold the event loop. What a reader keeps is bounded by the fields.
 */
export class FieldsToRead {
  readonly wanted: WantedFields
  readonly texts: ReadonlySet<string>
  readonly #names: ReadonlySet<string>
  readonly #known: KnownKeys

  /** `texts`: keys of the texts to count, wherever they are. */
  constructor(wanted: WantedFields, texts: ReadonlySet<string>) {
    this.wanted = wanted
    this.texts = texts
    this.#names = new Set([...texts, ...keysOf(wanted)])
    this.#known = knownKeys(this.#names)
  }

  /** Returns the key in these bytes; undefined: one that means nothing. */
  keyAt(chunk: Buffer, from: number, to: number): string | undefined {
    return this.#known[to - from]?.find(({ bytes }) => isAt(chunk, from, bytes))?.key
  }

  /** The same for the raw text of a key, which may be escaped. */
  keyOf(raw: string): string | undefined {
    const key = textOf(raw)
    return key !== undefined && this.#names.has(key) ? key : undefined
  }
}

export class JsonFields {
  readonly #fields: FieldsToRead
  readonly #onValue: (value: Record<string, unknown>) => void
  /** Raw bytes of the texts that passed. */
  textBytes = 0
  /** Objects and lists that are open and wanted; the last one is `#frame`. */
  readonly #frames: Frame[] = []
  #frame: Frame | undefined
  /** Open brackets in what is not wanted. */
  #skipped = 0
  #listed = 0
  #whole: Record<string, unknown> | undefined
  #isFaulty = false
  /** Last byte outside strings that is not space. */
  #before = 0
  #inString = false
  #isEscaped = false
  #isText = false
  /** Raw bytes of the string or number that is read; undefined: not kept. */
  #raw: string | undefined
  /** Key that the last string would be. */
  #lastString: string | undefined
  #key: string | undefined
  #inScalar = false

  /** `onValue`: gets each value, or each object in a list. */
  constructor(fields: FieldsToRead, onValue: (value: Record<string, unknown>) => void) {
    this.#fields = fields
    this.#onValue = onValue
  }

  push(chunk: Buffer, from = 0, to = chunk.length): void {
    let at = from
    while (at < to && !this.#isFaulty) {
      if (this.#inString) at = this.#readString(chunk, at, to)
      else {
        const byte = chunk[at]!
        at += 1
        if (!isSpace(byte)) this.#readByte(byte)
        else if (this.#inScalar) this.#endScalar()
      }
    }
  }

  /** Ends a value, and begins the next. One that is not whole or no JSON is passed over. */
  end(): void {
    const whole = this.#frames.length + this.#skipped === 0 && !this.#inString && !this.#isFaulty && this.#whole
    this.#frames.length = 0
    this.#frame = undefined
    this.#skipped = 0
    this.#listed = 0
    this.#whole = undefined
    this.#isFaulty = false
    this.#before = 0
    this.#inString = false
    this.#isEscaped = false
    this.#isText = false
    this.#raw = undefined
    this.#inScalar = false
    if (whole) this.#onValue(whole)
  }

  #readString(chunk: Buffer, from: number, to: number): number {
    let at = from
    let isEscaped = this.#isEscaped
    let hasEscapes = isEscaped
    for (; at < to; at++) {
      const byte = chunk[at]
      if (isEscaped) isEscaped = false
      else if (byte === backslash) {
        isEscaped = true
        hasEscapes = true
      } else if (byte === quote) break
    }
    this.#isEscaped = isEscaped
    if (this.#isText) this.textBytes += at - from
    const isWhole = at < to
    const isKey = this.#before !== colon
    if (this.#raw === undefined) {
      // It is not kept.
    } else if (isKey && isWhole && this.#raw === '' && !hasEscapes) {
      this.#lastString = this.#fields.keyAt(chunk, from, at)
      this.#raw = undefined
    } else if (this.#raw.length + at - from > maxRaw) this.#raw = undefined
    else this.#raw += chunk.toString('latin1', from, at)
    if (!isWhole) return at
    if (this.#raw !== undefined) {
      if (isKey) this.#lastString = this.#fields.keyOf(this.#raw)
      else this.#keep(textOf(this.#raw))
      this.#raw = undefined
    }
    this.#inString = false
    this.#isText = false
    this.#before = quote!
    return at + 1
  }

  #readByte(byte: number): void {
    if (this.#inScalar) {
      if (byte !== comma && byte !== closing && byte !== closingList) {
        if (this.#raw !== undefined && this.#raw.length < maxRaw) this.#raw += String.fromCharCode(byte)
        return
      }
      this.#endScalar()
    }
    switch (byte) {
      case quote:
        this.#beginString()
        return
      case colon:
        this.#key = this.#before === quote ? this.#lastString : undefined
        break
      case opening:
      case openingList:
        this.#open(byte === openingList)
        break
      case closing:
      case closingList:
        this.#close(byte === closingList)
        break
      case comma:
        break
      default:
        this.#inScalar = true
        this.#raw = this.#before === colon && this.#wantedHere() === true ? String.fromCharCode(byte) : undefined
        return
    }
    this.#before = byte
  }

  #beginString(): void {
    this.#inString = true
    const isValue = this.#before === colon
    this.#isText = isValue && this.#key !== undefined && this.#fields.texts.has(this.#key)
    this.#lastString = undefined
    this.#raw = !isValue || this.#wantedHere() === true ? '' : undefined
  }

  #endScalar(): void {
    this.#inScalar = false
    const raw = this.#raw
    this.#raw = undefined
    this.#before = 0
    if (raw === undefined) return
    const value = raw === 'null' ? null : Number(raw)
    if (!Number.isNaN(value)) this.#keep(value)
  }

  /** Returns what is wanted of the value that begins here. */
  #wantedHere(): true | WantedFields | undefined {
    if (this.#skipped > 0) return undefined
    const frame = this.#frame
    if (!frame) return this.#whole ? undefined : this.#fields.wanted
    if (frame.isList) return frame.wanted
    return this.#key !== undefined && Object.hasOwn(frame.wanted, this.#key) ? frame.wanted[this.#key] : undefined
  }

  /** Notes the value of the last key, if it is wanted. */
  #keep(value: unknown): void {
    const frame = this.#frame
    if (frame?.value && !frame.isList && this.#wantedHere() !== undefined) {
      ;(frame.value as Record<string, unknown>)[this.#key!] = value
    }
  }

  #open(isList: boolean): void {
    const wanted = this.#wantedHere()
    const frame = this.#frame
    const isInList = frame?.isList === true
    const isKept = typeof wanted === 'object' && !(isInList && (isList || this.#listed >= maxListed))
    if (!isKept) {
      this.#isFaulty = !frame && this.#skipped === 0
      this.#skipped += 1
      return
    }
    if (isInList) this.#listed += 1
    const value = isList ? (frame ? [] : undefined) : {}
    if (Array.isArray(frame?.value)) frame.value.push(value)
    else this.#keep(value)
    this.#frame = { wanted, isList, value }
    this.#frames.push(this.#frame)
  }

  #close(isList: boolean): void {
    if (this.#skipped > 0) {
      this.#skipped -= 1
      return
    }
    const frame = this.#frames.pop()
    this.#frame = this.#frames.at(-1)
    this.#isFaulty = frame?.isList !== isList
    if (this.#isFaulty || isList) return
    const value = frame!.value as Record<string, unknown>
    if (!this.#frame) this.#whole = value
    else if (this.#frame.value === undefined) {
      this.#listed = 0
      this.#onValue(value)
    }
  }
}
