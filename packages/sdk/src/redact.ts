import { Buffer } from 'node:buffer'
import { createHash } from 'node:crypto'
import { hasKnownCredential, isIdName, isSecretName, redactedMark, withoutCredentials } from './credentials.ts'

const maxDepth = 6
const maxEntries = 50
const maxCharacters = 500
const maxNameCharacters = 100

/** Replaces NUL and lone surrogates, which cannot be stored. */
const storable = (text: string): string => text.replaceAll('\0', '\ufffd').toWellFormed()

/** Returns the text up to its last separator, so that the cut splits no credential. */
function wholeWords(text: string): string {
  let end = text.length
  while (end > 0 && !/[\s,;"'&{}()<>]/.test(text[end - 1]!)) end--
  return text.slice(0, end)
}

/**
 * Returns the text without credentials, with at most `maxLength` characters. Searches only the first 2 × `maxLength`.
 */
export function redactedText(text: string, maxLength: number): string {
  const isCut = text.length > 2 * maxLength
  // Cut between words: half a credential would not be recognized.
  const clean = storable(withoutCredentials(isCut ? wholeWords(text.slice(0, 2 * maxLength)) : text))
  return clean.length <= maxLength && !isCut ? clean : `${storable(clean.slice(0, maxLength - 1))}…`
}

const maxIdCharacters = 200
const hashOf = (text: string): string => createHash('sha256').update(text).digest('hex')

/**
 * Returns an id as it is, however random it looks: if it were redacted, all sessions would be one. What has the format
 * of a credential is hashed, and what is too long ends with a hash: equal ids stay equal, different ones different.
 */
export function redactedId(text: string): string {
  if (hasKnownCredential(text.slice(0, 4 * maxIdCharacters))) return `sha256-${hashOf(text).slice(0, 32)}`
  if (text.length <= maxIdCharacters) return storable(text)
  return `${storable(text.slice(0, maxIdCharacters - 33))}…${hashOf(text).slice(0, 32)}`
}

/**
 * Returns a copy without credentials, as plain JSON of at most `maxBytes`. Placeholders replace values that are too
 * deep, too long or not data. For any value: does not throw, runs no getter, takes a bounded time.
 */
export function redacted(value: unknown, maxBytes: number): unknown {
  // Leaves room for closing brackets and placeholders of containers that are already open.
  const copy = new Copy(maxBytes - 512)
  return copy.of(value, maxDepth)
}

class Copy {
  #left: number
  readonly #above = new Set<object>()

  constructor(bytes: number) {
    this.#left = bytes
  }

  of(value: unknown, depth: number): unknown {
    try {
      return this.#spend(value, depth)
    } catch {
      return '[unreadable]'
    }
  }

  #spend(value: unknown, depth: number): unknown {
    if (typeof value === 'object' && value !== null) return this.#ofObject(value, depth)
    return this.#keep(plainValue(value))
  }

  #keep(plain: string | number | boolean | null) {
    const bytes = Buffer.byteLength(JSON.stringify(plain))
    if (bytes > this.#left) return '[cut]'
    this.#left -= bytes
    return plain
  }

  #ofObject(value: object, depth: number): unknown {
    if (this.#above.has(value)) return '[circular]'
    const special = specialObject(value)
    if (special !== undefined) return this.#spend(special, depth)
    if (value instanceof Set) return this.#spend([...firstOf(value, maxEntries)], depth)
    if (depth === 0) return '[deep]'
    this.#above.add(value)
    const copy = Array.isArray(value) ? this.#ofArray(value, depth) : this.#ofEntries(entriesOf(value), depth)
    this.#above.delete(value)
    return copy
  }

  #ofArray(values: readonly unknown[], depth: number): unknown[] {
    const copy: unknown[] = []
    for (let place = 0; place < values.length; place++) {
      if (place === maxEntries || this.#left <= 0) return [...copy, `[${values.length - place} more]`]
      this.#left -= 1
      copy.push(this.of(dataProperty(values, String(place)), depth - 1))
    }
    return copy
  }

  #ofEntries(entries: Iterable<[string, unknown]>, depth: number): Record<string, unknown> {
    const copy: Record<string, unknown> = {}
    let count = 0
    for (const [name, value] of entries) {
      const shown = redactedText(name, maxNameCharacters)
      this.#left -= Buffer.byteLength(JSON.stringify(shown)) + 2
      if (count++ === maxEntries || this.#left <= 0) {
        copy['…'] = '[more]'
        break
      }
      if (shown === '__proto__') continue
      if (isKeptBack(name, value)) copy[shown] = redactedMark
      else if (typeof value === 'string' && isIdName(name)) copy[shown] = this.#keep(redactedId(value))
      else copy[shown] = this.of(value, depth - 1)
    }
    return copy
  }
}

/** Booleans, null and undefined stay: they reveal only whether a secret is set. */
const isKeptBack = (name: string, value: unknown): boolean =>
  isSecretName(name) && value !== null && value !== undefined && typeof value !== 'boolean'

function plainValue(value: unknown): string | number | boolean | null {
  if (typeof value === 'string') return redactedText(value, maxCharacters)
  if (typeof value === 'boolean') return value
  if (typeof value === 'number') return Number.isFinite(value) ? value : String(value)
  if (typeof value === 'bigint') return redactedText(value.toString().slice(0, maxCharacters), maxCharacters)
  if (value === null || value === undefined) return null
  return `[${typeof value}]`
}

/** Returns a text or placeholder for an object that is not a plain container. */
function specialObject(value: object): string | undefined {
  if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer) return `[${value.byteLength} bytes]`
  if (value instanceof Date) return Number.isFinite(value.getTime()) ? value.toISOString() : '[date]'
  if (value instanceof URL || value instanceof RegExp) return String(value)
  if (value instanceof Error) return `${value.name}: ${value.message}`
  return undefined
}

function* firstOf(values: Iterable<unknown>, count: number): Generator<unknown> {
  for (const value of values)
    if (count-- > 0) yield value
    else return
}

/** The entries of a map, or the properties of an object without running its getters. */
export function* entriesOf(value: object): Generator<[string, unknown]> {
  if (value instanceof Map) for (const [name, item] of value) yield [nameOf(name), item]
  else for (const name of Object.keys(value)) yield [name, dataProperty(value, name)]
}

const nameOf = (name: unknown): string => (typeof name === 'object' ? '[object]' : String(name))

/** Returns a property's value without running getters, which are code of the agent. */
function dataProperty(value: object, name: string): unknown {
  const property = Object.getOwnPropertyDescriptor(value, name)
  return property?.get ? '[getter]' : property?.value
}
