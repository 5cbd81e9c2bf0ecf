const hostileTexts = [
  '',
  ' ',
  '\u0000',
  '\ud800',
  '__proto__',
  'constructor',
  'null',
  "' or 1=1 --",
  '%00',
  '../../etc/passwd',
  '\u202e\ufeff\u2028',
  '🦊'.repeat(600),
  'x'.repeat(20_000),
  '{"a":1}',
  '-1',
  '1e999',
  '2026-01-01T00:00:00Z',
  '$(id)',
  '<script>alert(1)</script>',
  'a*',
  '*',
]
const hostileValues: unknown[] = [
  null,
  true,
  0,
  -1,
  1.5,
  2 ** 53,
  -(2 ** 31) - 1,
  1e308,
  [],
  {},
  [[]],
  [null],
  { toString: 1 },
  { length: 1e9 },
]

/** Generates bodies by mutating values and bytes of valid ones; the sequence repeats for the same seed. */
export function mutator(draw: () => number): (valid: unknown) => Buffer {
  const below = (bound: number) => Math.floor(draw() * bound)
  const pick = <Value>(values: readonly Value[]): Value => values[below(values.length)]!
  const nested = (depth: number): unknown =>
    depth === 0 ? 1 : below(2) ? [nested(depth - 1)] : { a: nested(depth - 1) }

  function other(value: unknown): unknown {
    const kind = below(8)
    if (kind < 3) return pick(hostileTexts)
    if (kind < 5) return pick(hostileValues)
    if (kind === 5) return nested(1 + below(40))
    if (kind === 6 && typeof value === 'string') return value.slice(0, below(value.length + 1)) + pick(hostileTexts)
    return typeof value === 'number'
      ? value * 10 ** below(30)
      : `${JSON.stringify(value)}${String.fromCharCode(below(0x10000))}`
  }

  /** Returns the value with one of its parts replaced, removed, duplicated or added. */
  function changed(value: unknown): unknown {
    if (Array.isArray(value) && value.length > 0 && below(4) > 0) {
      const at = below(value.length)
      if (below(5) === 0) return [...value, ...value]
      return value.map((item, index) => (index === at ? changed(item) : item))
    }
    if (typeof value === 'object' && value !== null && !Array.isArray(value) && below(5) > 0) {
      const entries = Object.entries(value)
      const at = below(entries.length + 1)
      if (at === entries.length) return Object.fromEntries([...entries, [pick(hostileTexts).slice(0, 300), other('')]])
      if (below(6) === 0) return Object.fromEntries(entries.filter((_, index) => index !== at))
      return Object.fromEntries(entries.map(([name, item], index) => [name, index === at ? changed(item) : item]))
    }
    return other(value)
  }

  function damaged(bytes: Buffer): Buffer {
    const copy = Buffer.from(bytes)
    for (let times = 1 + below(4); times > 0 && copy.length > 0; times--) copy[below(copy.length)] = below(256)
    const at = below(copy.length + 1)
    return below(3) === 0 ? copy.subarray(0, at) : Buffer.concat([copy, copy.subarray(at)])
  }

  return (valid) => {
    let value = valid
    for (let times = below(4); times > 0; times--) value = changed(value)
    const text = JSON.stringify(value) ?? ''
    // As escapes, lone surrogates and NUL survive the encoding.
    const bytes = Buffer.from(below(10) === 0 ? text.replace(/[a-z]/, '\\u0000') : text)
    return below(4) === 0 ? damaged(bytes) : bytes
  }
}
