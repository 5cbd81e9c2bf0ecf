import { compilePattern, type Pattern } from './pattern.ts'

/** A fault with its place in the document: `rules[2].when`. */
export interface PolicyFault {
  path: string
  message: string
}

/** Bounds of one policy: it travels to every agent, and each decision looks at all of its rules. */
export const policyLimits = {
  rules: 200,
  tools: 200,
  conditions: 20,
  values: 500,
  cases: 50,
  textLength: 500,
  labels: 2_000,
  calls: 1_000,
  patterns: 50,
} as const

/** A document with more is wrong as a whole; a person corrects the first few. */
const maxFaults = 100

export type Fields = Record<string, unknown>
export const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

export const join = (path: string, name: string): string => (path === '' ? name : `${path}.${name}`)

const unitMs: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }

/** Reads parts of a document, and collects what is wrong with it. It throws at no document. */
export class Reader {
  readonly faults: PolicyFault[] = []
  #patterns = 0

  fault(path: string, message: string): undefined {
    if (this.faults.length < maxFaults) this.faults.push({ path: path.slice(0, policyLimits.textLength), message })
  }

  fields(value: unknown, path: string, known: readonly string[]): Fields {
    if (!isFields(value)) {
      this.fault(path, 'must be a map of names and values.')
      return {}
    }
    for (const name of Object.keys(value)) {
      if (!known.includes(name)) this.fault(join(path, name), `is unknown; known are ${known.join(', ')}.`)
    }
    return value
  }

  text(value: unknown, path: string): string {
    if (typeof value === 'string' && value.trim() !== '' && value.length <= policyLimits.textLength) return value.trim()
    this.fault(path, `must be a text of 1 to ${policyLimits.textLength} characters.`)
    return ''
  }

  /** Reads a text or a list of texts. */
  texts(value: unknown, path: string, max: number): string[] {
    if (value === undefined) return []
    const list = Array.isArray(value) ? value : [value]
    if (list.length === 0 || list.length > max) this.fault(path, `must have 1 to ${max} entries.`)
    return list.slice(0, max).map((one, at) => this.text(one, Array.isArray(value) ? `${path}[${at}]` : path))
  }

  choice<Name extends string>(value: unknown, path: string, names: readonly Name[], missing?: Name): Name {
    if (value === undefined && missing !== undefined) return missing
    if (names.includes(value as Name)) return value as Name
    this.fault(path, `must be ${names.slice(0, -1).join(', ')} or ${names.at(-1)}.`)
    return names[0]!
  }

  /** One of the names or a list of them; without a value none. */
  choices<Name extends string>(value: unknown, path: string, names: readonly Name[]): Name[] {
    return this.texts(value, path, names.length).map((one, at) =>
      this.choice(one, Array.isArray(value) ? `${path}[${at}]` : path, names),
    )
  }

  /** Compiles patterns. Those of a whole document are bounded, because each takes its time for each call. */
  patterns(texts: readonly unknown[], path: string): Pattern[] {
    this.#patterns += texts.length
    if (this.#patterns > policyLimits.patterns) {
      this.fault(path, `would cost too much: a policy has at most ${policyLimits.patterns} patterns.`)
      return []
    }
    return texts.flatMap((text) => {
      const pattern = compilePattern(String(text))
      if (typeof pattern !== 'string') return [pattern]
      return this.fault(path, `has a pattern that ${pattern}.`) ?? []
    })
  }

  /** Reads a time such as `30s`, `15m`, `1h` or `1d` in milliseconds. */
  duration(value: unknown, path: string, { min, max }: { min: string; max: string }): number | undefined {
    const ms = millisecondsOf(value)
    if (ms !== undefined && ms >= millisecondsOf(min)! && ms <= millisecondsOf(max)!) return ms
    return this.fault(path, `must be a time such as 30s, 15m or 1h, at least ${min} and at most ${max}.`)
  }

  /** Reads a date or a time in UTC in milliseconds since the epoch. */
  time(value: unknown, path: string): number | undefined {
    const text = value instanceof Date && !Number.isNaN(value.getTime()) ? value.toISOString() : value
    const isTime = typeof text === 'string' && /^\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?Z)?$/.test(text)
    const at = isTime ? Date.parse(text) : Number.NaN
    // Some engines take the 30th of February for the 2nd of March.
    const isSameDay = !Number.isNaN(at) && new Date(at).toISOString().startsWith(String(text).slice(0, 10))
    return !isSameDay ? this.fault(path, 'must be a date or a time in UTC such as 2026-12-31T18:00Z.') : at
  }
}

function millisecondsOf(value: unknown): number | undefined {
  const [, number, unit] = (typeof value === 'string' && /^(\d{1,5})\s*([smhd])$/.exec(value)) || []
  return number === undefined ? undefined : Number(number) * unitMs[unit!]!
}
