import { isUtf8 } from 'node:buffer'
import { limits } from '@wardline/contract'
import { AppError } from '../errors.ts'

/** Names come from the caller, so error messages cut them to this length. */
const shownNameLength = 60
const place = (path: readonly (string | number)[]): string =>
  path.length === 0 ? 'The body' : path.map((name) => String(name).slice(0, shownNameLength)).join('.')

/** Describes why text cannot be stored: PostgreSQL refuses NUL, and lone surrogates have no UTF-8 form. */
function textFault(text: string): string | undefined {
  if (text.includes('\u0000')) return 'must not contain the NUL character'
  if (!text.isWellFormed()) return 'must be well-formed Unicode'
  return undefined
}

/** Throws AppError `invalid` if a text of the path's parameters or of the query cannot be passed to the database. */
export function assertSearchable(values: object): void {
  for (const [name, value] of Object.entries(values)) {
    const fault = typeof value === 'string' ? textFault(value) : undefined
    if (fault) throw new AppError('invalid', `${place([name])} ${fault}.`)
  }
}

/** Changes `path` in place and restores it, because copying it for each item would cost more than the check. */
function check(value: unknown, path: (string | number)[], hasEscapes: boolean): void {
  if (typeof value === 'string') {
    const fault = hasEscapes ? textFault(value) : undefined
    if (fault) throw new AppError('invalid', `${place(path)} ${fault}.`)
    return
  }
  if (typeof value === 'number') {
    if (!Number.isFinite(value)) throw new AppError('invalid', `${place(path)} must be a finite number.`)
    return
  }
  if (value === null || typeof value !== 'object') return
  const depth = path.length
  if (depth >= limits.jsonDepth) {
    throw new AppError(
      'invalid',
      `${place(path.slice(0, 1))} must not be nested deeper than ${limits.jsonDepth} levels.`,
    )
  }
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index++) {
      path[depth] = index
      check(value[index], path, hasEscapes)
    }
  } else {
    // Objects from JSON.parse have no inherited enumerable properties.
    for (const name in value) {
      const fault = name === '__proto__' ? 'must not be named __proto__' : hasEscapes ? textFault(name) : undefined
      if (fault) throw new AppError('invalid', `A field of ${place(path.slice(0, depth))} ${fault}.`)
      path[depth] = name
      check((value as Record<string, unknown>)[name], path, hasEscapes)
    }
  }
  path.length = depth
}

/**
 * Refuses valid JSON that a later read, stream frame or page could fail on: deep nesting, numbers out of range, NUL,
 * lone surrogates, `__proto__`. NUL and lone surrogates can only come from escapes, so strings are checked only if the
 * JSON `text` contains any. Throws AppError `invalid`.
 */
export function assertStorable(value: unknown, text: string): void {
  check(value, [], text.includes('\\'))
}

/**
 * Decodes a body. A byte order mark in front, which some systems write, is ignored (RFC 8259, section 8.1). Throws
 * AppError `invalid` if it is not UTF-8.
 */
export function bodyText(bytes: Buffer): string {
  if (!isUtf8(bytes)) throw new AppError('invalid', 'The body must be UTF-8.')
  const text = bytes.toString('utf8')
  return text.startsWith('\ufeff') ? text.slice(1) : text
}

const isWhiteSpace = (code: number): boolean => code === 0x20 || code === 0x09 || code === 0x0a || code === 0x0d

/** Removes the white space of JSON at both ends. `trim` also removes what JSON refuses, such as byte order marks. */
export function trimJson(text: string): string {
  let [start, end] = [0, text.length]
  while (start < end && isWhiteSpace(text.charCodeAt(start))) start++
  while (end > start && isWhiteSpace(text.charCodeAt(end - 1))) end--
  return text.slice(start, end)
}

/** Shorter texts cannot contain enough values to be slow to parse. */
const fewSigns = 32 * 1024

/**
 * Throws AppError `invalid` for too many values: parsing tens of thousands of small objects blocks the event loop for
 * too long.
 */
export function assertFewValues(text: string): void {
  if (text.length < fewSigns) return
  let signs = 0
  let isText = false
  for (let place = 0; place < text.length; place++) {
    const code = text.charCodeAt(place)
    if (code === 0x5c) place++
    else if (code === 0x22) isText = !isText
    else if (!isText && (code === 0x2c || code === 0x3a || code === 0x5b || code === 0x7b)) signs++
  }
  if (signs > limits.jsonSigns) {
    throw new AppError(
      'invalid',
      `The body must contain at most ${limits.jsonSigns} fields, entries and levels together.`,
    )
  }
}

/** Parses one JSON value. Throws AppError `invalid` if it is not JSON or not storable. */
export function parseJson(text: string): unknown {
  assertFewValues(text)
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw new AppError('invalid', 'The body must be JSON.')
  }
  assertStorable(value, text)
  return value
}
