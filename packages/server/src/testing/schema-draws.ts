import fc from 'fast-check'
import { Compile } from 'typebox/schema'
import { seededChoices } from '../../../../test-servers/seeded-draws.ts'

/** What the schemas of the OpenAPI description use of JSON Schema. */
export interface Schema {
  type?: string
  const?: unknown
  enum?: unknown[]
  anyOf?: Schema[]
  oneOf?: Schema[]
  then?: Schema
  properties?: Record<string, Schema>
  required?: string[]
  patternProperties?: Record<string, Schema>
  additionalProperties?: boolean
  minProperties?: number
  maxProperties?: number
  items?: Schema
  minItems?: number
  maxItems?: number
  pattern?: string
  format?: string
  minLength?: number
  maxLength?: number
  minimum?: number
  maximum?: number
}

/** A value that breaks a rule, and which. */
export interface Broken {
  rule: string
  value: unknown
}

const checks = new WeakMap<Schema, { Check(value: unknown): boolean }>()

export function isValid(schema: Schema, value: unknown): boolean {
  let check = checks.get(schema)
  if (!check) {
    check = Compile(schema as never)
    checks.set(schema, check)
  }
  return check.Check(value)
}

/** Longer texts and lists are drawn by other tests: here they would only take time. */
const longest = { text: 2_000, list: 120 }
const instantPattern = '^\\d{4}-\\d{2}-\\d{2}T'

/**
 * Draws values of schemas, and values that break one rule; the same for the same seed. `known` returns a value that an
 * earlier answer had under this name, if there is one. `now`: in milliseconds, for times near it.
 */
export function schemaDraws(seed: number, known: (name: string) => unknown, now: () => number) {
  const { chance, between, pick } = seededChoices(seed)
  const ofPattern = new Map<string, string[]>()

  function matching(pattern: string): string {
    let texts = ofPattern.get(pattern)
    if (!texts) {
      texts = fc.sample(fc.stringMatching(new RegExp(pattern, 'u')), { seed, numRuns: 60 })
      ofPattern.set(pattern, texts)
    }
    return pick(texts)
  }

  function text(schema: Schema, name: string): string {
    const { minLength = 0, maxLength = 40, pattern, format } = schema
    if (format === 'date-time' || pattern?.startsWith(instantPattern)) {
      // A period begins before it ends, mostly; other times matter most in the future.
      const days = chance(0.1) ? 0 : name === 'from' ? -2 : 2
      return new Date(now() + (days + between(-10, 10) / 10) * 86_400_000).toISOString()
    }
    if (pattern === '^https?://') return `https://192.0.2.${between(1, 254)}/${between(0, 9)}`
    // Lengths at their limits are likelier than between them.
    const length = pick([minLength, Math.min(maxLength, longest.text), between(minLength, Math.min(maxLength, 20))])
    const plain = pick(['a', '0', 'Ä', '🦊', ' x']).repeat(length)
    const shortened = [...plain].slice(0, Math.max(length, 0)).join('')
    if (pattern === undefined) return shortened
    if (chance(0.3) && isValid(schema, shortened)) return shortened
    for (let attempts = 0; attempts < 20; attempts++) {
      const drawn = matching(pattern)
      if (isValid(schema, drawn)) return drawn
      const cut = drawn.slice(0, maxLength)
      if (isValid(schema, cut)) return cut
    }
    throw new Error(`no text of ${JSON.stringify(schema)} was drawn`)
  }

  function number({ type, minimum = 0, maximum = 1_000 }: Schema): number {
    const drawn = pick([
      minimum,
      maximum,
      Math.min(minimum + 1, maximum),
      between(minimum, Math.min(maximum, minimum + 5)),
    ])
    return type === 'number' && chance(0.3) ? Math.min(drawn + 0.5, maximum) : drawn
  }

  function object(schema: Schema): Record<string, unknown> {
    const { properties = {}, required = [], patternProperties, minProperties = 0, maxProperties = Infinity } = schema
    const drawn: Record<string, unknown> = {}
    // Few optional properties: more of them leave little that is valid together.
    const wanted = pick([0, 0.15, 0.3, 0.8])
    const names = Object.keys(properties)
    for (const [name, property] of Object.entries(properties)) {
      const hasRoom = Object.keys(drawn).length < maxProperties
      if (required.includes(name) || (hasRoom && chance(wanted))) drawn[name] = value(property, name)
    }
    const free = Object.values(patternProperties ?? {})[0] ?? (schema.additionalProperties === false ? undefined : {})
    const extra = patternProperties || names.length === 0 ? between(minProperties, Math.min(maxProperties, 3)) : 0
    for (let n = 0; free && n < extra; n++) drawn[pick(['a', 'toolName', 'a.b', `k${n}`])] = value(free, '')
    while (names.length > 0 && Object.keys(drawn).length < minProperties) {
      const name = pick(names)
      drawn[name] ??= value(properties[name]!, name)
    }
    return drawn
  }

  function list(schema: Schema, name: string): unknown[] {
    const { items = {}, minItems = 0, maxItems = 5 } = schema
    const many =
      chance(0.05) && maxItems <= longest.list ? maxItems : between(minItems, Math.min(maxItems, minItems + 3))
    return Array.from({ length: many }, () => value(items, name))
  }

  const anything = (): unknown => pick([null, true, 0, -1.5, 'text', [], {}, { a: [1, { b: null }] }])

  /** A valid value. */
  function value(schema: Schema, name: string): unknown {
    if (schema.const !== undefined) return schema.const
    if (schema.enum) return pick(schema.enum)
    const earlier = chance(0.7) ? known(name) : undefined
    if (earlier !== undefined && isValid(schema, earlier)) return earlier
    const branches = schema.anyOf ?? schema.oneOf
    if (branches) {
      const branch = value(pick(branches), name)
      return schema.properties ? { ...object(schema), ...(branch as object) } : branch
    }
    if (schema.then) return value(schema.then, name)
    switch (schema.type) {
      case 'object':
        return object(schema)
      case 'array':
        return list(schema, name)
      case 'string':
        return text(schema, name)
      case 'integer':
      case 'number':
        return number(schema)
      case 'boolean':
        return chance(0.5)
      case 'null':
        return null
      default:
        return anything()
    }
  }

  /** All ways to break one rule of a valid value. */
  function breaks(schema: Schema, valid: unknown): Broken[] {
    const found: Broken[] = []
    const add = (rule: string, broken: unknown) => found.push({ rule, value: broken })
    if (schema.type !== undefined) add('type', schema.type === 'string' ? [7] : 'no such type')
    if (schema.enum || schema.const !== undefined) add('enum', 'no-such-choice')
    if (typeof valid === 'string') {
      if (schema.minLength) add('minLength', '')
      if (schema.maxLength !== undefined && schema.maxLength <= longest.text) {
        add('maxLength', valid.padEnd(schema.maxLength + 1, valid.at(-1) ?? 'a'))
      }
      if (schema.pattern !== undefined) add('pattern', pick([`\u0001${valid}`, '', ' ', `${valid}\n`]))
      if (schema.format !== undefined) add('format', 'tomorrow')
    }
    if (typeof valid === 'number') {
      if (schema.minimum !== undefined) add('minimum', schema.minimum - 1)
      if (schema.maximum !== undefined) add('maximum', schema.maximum + 1)
      if (schema.type === 'integer') add('integer', valid + 0.5)
    }
    if (Array.isArray(valid)) {
      if (schema.minItems) add('minItems', [])
      if (schema.maxItems !== undefined && schema.maxItems <= longest.list && valid.length > 0) {
        add('maxItems', Array(schema.maxItems + 1).fill(valid[0]))
      }
      for (const { rule, value: item } of valid.length > 0 ? breaks(schema.items ?? {}, valid[0]) : []) {
        add(rule, [item, ...valid.slice(1)])
      }
    } else if (typeof valid === 'object' && valid !== null) {
      for (const name of schema.required ?? []) add(`required ${name}`, { ...valid, [name]: undefined })
      if (schema.additionalProperties === false) add('additionalProperties', { ...valid, no_such_field: 1 })
      if (schema.minProperties) add('minProperties', {})
      for (const [name, property] of Object.entries(schema.properties ?? {})) {
        const own = (valid as Record<string, unknown>)[name]
        if (own === undefined) continue
        for (const { rule, value: part } of breaks(property, own)) add(`${name}: ${rule}`, { ...valid, [name]: part })
      }
    }
    return found
  }

  return {
    chance,
    between,
    pick,
    value,
    /** A value that breaks one rule; undefined if the schema has none that the value can break. */
    broken(schema: Schema, valid: unknown): Broken | undefined {
      const found = breaks(schema, valid).filter((one) => !isValid(schema, JSON.parse(JSON.stringify(one.value))))
      return found.length > 0 ? pick(found) : undefined
    },
  }
}
