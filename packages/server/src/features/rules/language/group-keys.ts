import { createHash } from 'node:crypto'
import { askedOnce } from './asked-once.ts'
import type { Field, RuleEvent } from './fields.ts'

/** Longer values are replaced by their digest, so that a group never costs as much as an event's metadata. */
const maxKeyLength = 200

/** Joins the values of the fields; undefined if one is missing or not a scalar. */
function keyOf(fields: readonly Pick<Field, 'read'>[], event: RuleEvent): string | undefined {
  const values: string[] = []
  for (const field of fields) {
    const value = field.read(event)
    if (typeof value !== 'string' && typeof value !== 'number' && typeof value !== 'boolean') return undefined
    const text = String(value)
    values.push(text.length > maxKeyLength ? `sha256:${createHash('sha256').update(text).digest('hex')}` : text)
  }
  return JSON.stringify(values)
}

/** Returns the distinct values of an event; each element of a list is a value. */
function valuesOf(fields: readonly Field[], event: RuleEvent): readonly string[] {
  const [only] = fields
  const value = fields.length === 1 ? only!.read(event) : undefined
  const readers = Array.isArray(value) ? value.map((element) => [{ read: () => element }]) : [fields]
  return [...new Set(readers.map((reader) => keyOf(reader, event)).filter((key) => key !== undefined))]
}

const nameOf = (fields: readonly Field[]): string => JSON.stringify(fields.map(({ name }) => name))

/** Maximum cached keys per reader. */
const maxKeys = 10_000

/** Returns a reader of an event's group, which is undefined if the event belongs to none. */
export function groupReader(fields: readonly Field[]): (event: RuleEvent) => string | undefined {
  // Rules share one string per group: comparing a string with itself does not read it.
  const keys = new Map<string, string>()
  return askedOnce(`group ${nameOf(fields)}`, (event: RuleEvent) => {
    const key = keyOf(fields, event)
    if (key === undefined) return undefined
    const known = keys.get(key)
    if (known !== undefined) return known
    if (keys.size >= maxKeys) keys.clear()
    keys.set(key, key)
    return key
  })
}

/** Returns a reader of the distinct values of these fields in an event. */
export const valuesReader = (fields: readonly Field[]): ((event: RuleEvent) => readonly string[]) =>
  askedOnce(`values ${nameOf(fields)}`, (event: RuleEvent) => valuesOf(fields, event))

/** Returns a reader of the key of an event's group in the history of its rule, which several correlations share. */
export function historyReader(correlation: string, fields: readonly Field[]): (event: RuleEvent) => string {
  const group = groupReader(fields)
  return askedOnce(`history ${correlation}${nameOf(fields)}`, (event: RuleEvent) => `${correlation}${group(event)}`)
}
