export type Json = null | boolean | number | string | Json[] | { [key: string]: Json }

/**
 * Returns canonical JSON (RFC 8785): equal values have the same text, so it can be hashed. Throws for values that JSON
 * cannot represent: lone surrogates, NaN, Infinity.
 */
export function canonicalJson(value: Json): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`
  if (typeof value === 'object' && value !== null) {
    // Without a compare function, `sort` compares UTF-16 code units, as the RFC requires.
    const names = Object.keys(value).sort()
    return `{${names.map((name) => `${canonicalJson(name)}:${canonicalJson(value[name]!)}`).join(',')}}`
  }
  if (typeof value === 'string' && !value.isWellFormed()) throw new TypeError('A lone surrogate is not Unicode text.')
  if (typeof value === 'number' && !Number.isFinite(value)) throw new TypeError(`${value} is not a number of JSON.`)
  return JSON.stringify(value)
}
