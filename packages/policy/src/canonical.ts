import { createHash } from 'node:crypto'

/** Nesting of arguments that can be hashed. */
const maxDepth = 64
/** Characters of canonical text: 4 MiB take about 20 ms. */
const maxLength = 4_194_304

/**
 * Returns the SHA-256 of the arguments of a call, in hex, over their canonical JSON (RFC 8785): what an approval is bound to.
 * As in `JSON.stringify`, functions and undefined are left out; an integer of arbitrary size is written by its digits.
 * Undefined for arguments that cannot be hashed: nested more than 64 times, longer than 4 MiB, unreadable, or with what JSON
 * writes alike although it differs, as infinite numbers and maps. Such a call cannot be approved.
 */
export function argsHash(args: unknown): string | undefined {
  try {
    const parts: string[] = []
    let length = 0
    const write = (text: string): void => {
      length += text.length
      if (length > maxLength) throw new RangeError('too long')
      parts.push(text)
    }
    writeCanonical(args, write, 0)
    return createHash('sha256').update(parts.join('')).digest('hex')
  } catch {
    return undefined
  }
}

const isWritten = (value: unknown): boolean => !['undefined', 'function', 'symbol'].includes(typeof value)

function writeCanonical(given: unknown, write: (text: string) => void, depth: number): void {
  if (depth > maxDepth) throw new RangeError('too deep')
  const { toJSON } = (typeof given === 'object' && given !== null ? given : {}) as { toJSON?: unknown }
  const value: unknown = typeof toJSON === 'function' ? toJSON.call(given, '') : given
  // One approval would be for all of them.
  const isAlike = typeof value === 'number' ? !Number.isFinite(value) : value instanceof Map || value instanceof Set
  if (isAlike) throw new TypeError('written as others are')
  if (typeof value === 'bigint') write(String(value))
  else if (typeof value !== 'object' || value === null) write(JSON.stringify(isWritten(value) ? value : null))
  else if (Array.isArray(value)) {
    write('[')
    for (const [at, inner] of value.entries()) {
      if (at > 0) write(',')
      writeCanonical(inner, write, depth + 1)
    }
    write(']')
  } else writeFields(value as Record<string, unknown>, write, depth)
}

function writeFields(fields: Readonly<Record<string, unknown>>, write: (text: string) => void, depth: number): void {
  write('{')
  const names = Object.keys(fields).filter((name) => isWritten(fields[name]))
  // The order of UTF-16 code units, which RFC 8785 asks for.
  for (const [at, name] of names.sort().entries()) {
    write(`${at > 0 ? ',' : ''}${JSON.stringify(name)}:`)
    writeCanonical(fields[name], write, depth + 1)
  }
  write('}')
}
