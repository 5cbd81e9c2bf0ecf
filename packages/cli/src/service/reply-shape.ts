/** Keywords of JSON Schema that distinguish one body from another. */
interface Schema {
  type?: string
  const?: unknown
  anyOf?: Schema[]
  properties?: Record<string, Schema>
  required?: string[]
  items?: Schema
}

function isOfType(type: string, value: unknown): boolean {
  if (type === 'array') return Array.isArray(value)
  if (type === 'integer') return Number.isInteger(value)
  if (type === 'null') return value === null
  if (type === 'object') return typeof value === 'object' && value !== null && !Array.isArray(value)
  return typeof value === type
}

/**
 * Whether a value has the fields and types of a schema. Enums, patterns and lengths are ignored, because a newer
 * service may allow more values.
 */
export function hasShape(schema: object, value: unknown): boolean {
  const { type, anyOf, properties = {}, required = [], items, ...rest } = schema as Schema
  if ('const' in rest && value !== rest.const) return false
  if (anyOf) return anyOf.some((choice) => hasShape(choice, value))
  if (type !== undefined && !isOfType(type, value)) return false
  if (items && Array.isArray(value)) return value.every((item) => hasShape(items, item))
  if (type !== 'object') return true
  const fields = value as Record<string, unknown>
  if (!required.every((name) => Object.hasOwn(fields, name))) return false
  return Object.entries(properties).every(
    ([name, field]) => !Object.hasOwn(fields, name) || hasShape(field, fields[name]),
  )
}

/**
 * Whether the next cursor makes progress compared with the requested one; otherwise a list could be read forever.
 * `before` is checked first, because with it `after` may be a filter.
 */
export function leadsOn(query: object, answer: object): boolean {
  const { before, after } = query as { before?: unknown; after?: unknown }
  const { next } = answer as { next?: unknown }
  if (typeof next !== 'string') return true
  const isLess = (one: string, other: string) =>
    /^\d+$/.test(one) && /^\d+$/.test(other) ? Number(one) < Number(other) : one < other
  if (typeof before === 'string') return isLess(next, before)
  return typeof after !== 'string' || isLess(after, next)
}
