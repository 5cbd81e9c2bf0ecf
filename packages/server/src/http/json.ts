import { isUtf8 } from 'node:buffer'
import { limits } from '@wardline/contract'
import { AppError } from '../errors.ts'

/** Names come from the caller: a sentence shows no more of them than helps. */
const shownNameLength = 60
const place = (path: readonly (string | number)[]): string =>
  path.length === 0 ? 'The body' : path.map((name) => String(name).slice(0, shownNameLength)).join('.')

/** What makes text unfit to be stored: PostgreSQL refuses NUL, and a lone surrogate has no UTF-8 form. */
function textFault(text: string): string | undefined {
  if (text.includes('\u0000')) return 'must not contain the NUL character'
  if (!text.isWellFormed()) return 'must be well-formed Unicode'
  return undefined
}

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
  if (path.length >= limits.jsonDepth) {
    throw new AppError(
      'invalid',
      `${place(path.slice(0, 1))} must not be nested deeper than ${limits.jsonDepth} levels.`,
    )
  }
  if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) check(item, [...path, index], hasEscapes)
    return
  }
  for (const name of Object.keys(value)) {
    const fault = name === '__proto__' ? 'must not be named __proto__' : hasEscapes ? textFault(name) : undefined
    if (fault) throw new AppError('invalid', `A field of ${place(path)} ${fault}.`)
    path.push(name)
    check((value as Record<string, unknown>)[name], path, hasEscapes)
    path.pop()
  }
}

/**
 * Refuses what JSON allows but a later read, stream frame or page could fail on:
 * deep nesting, numbers beyond range, NUL, lone surrogates, `__proto__`.
 * NUL and lone surrogates can come only from escapes: texts are looked at only where the JSON had any.
 */
export function assertStorable(value: unknown, mayHoldEscapes: boolean): void {
  check(value, [], mayHoldEscapes)
}

/** The text of a body. Throws AppError `invalid` when it is not UTF-8. */
export function bodyText(bytes: Buffer): string {
  if (!isUtf8(bytes)) throw new AppError('invalid', 'The body must be UTF-8.')
  return bytes.toString('utf8')
}

/** Parses one JSON value. Throws AppError `invalid` when it is no JSON, or not storable. */
export function parseJson(text: string): unknown {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw new AppError('invalid', 'The body must be JSON.')
  }
  assertStorable(value, text.includes('\\'))
  return value
}
