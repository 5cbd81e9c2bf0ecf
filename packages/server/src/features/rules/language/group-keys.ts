import { createHash, hash } from 'node:crypto'
import { askedOnce } from './asked-once.ts'
import type { Field, RuleEvent } from './fields.ts'

/** Longer values are replaced by their digest, so that a firing is never as long as an event's metadata. */
const maxKeyLength = 200
/** Longer keys are replaced by their digest: whatever agents report, a key costs a rule the same. */
const maxCompact = 32
const digestBytes = 16

/** Returns the text, or its digest if it is long. No text of groups or values looks like one, since it has a bracket. */
export const compactKey = (text: string): string =>
  text.length <= maxCompact ? text : hash('sha256', text, 'buffer').toString('base64url', 0, digestBytes)

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
  const texts = readers.map((reader) => keyOf(reader, event)).filter((text) => text !== undefined)
  return [...new Set(texts.map(compactKey))]
}

const nameOf = (fields: readonly Field[]): string => JSON.stringify(fields.map(({ name }) => name))

/** Maximum shared keys: a megabyte. */
const maxKeys = 10_000
const keys = new Map<string, string>()

/** Rules share one string per key: comparing a string with itself does not read it. */
function sharedKey(key: string): string {
  const known = keys.get(key)
  if (known !== undefined) return known
  if (keys.size >= maxKeys) keys.clear()
  keys.set(key, key)
  return key
}

/** Returns the instance of an event, '' if it has none: the text that the shares of rules have too. */
export const instanceOf = askedOnce('instance', ({ row }: RuleEvent) => sharedKey(row.instance_id ?? ''))

/** A group of events. */
export interface GroupKey {
  /** Values of group-by as a JSON list. */
  text: string
  key: string
}

/** Returns a reader of an event's group, which is undefined if the event belongs to none. */
export const groupReader = (fields: readonly Field[]): ((event: RuleEvent) => GroupKey | undefined) =>
  askedOnce(`group ${nameOf(fields)}`, (event: RuleEvent) => {
    const text = keyOf(fields, event)
    return text === undefined ? undefined : { text, key: sharedKey(compactKey(text)) }
  })

/** Returns a reader of the distinct values of these fields in an event. */
export const valuesReader = (fields: readonly Field[]): ((event: RuleEvent) => readonly string[]) =>
  askedOnce(`values ${nameOf(fields)}`, (event: RuleEvent) => valuesOf(fields, event))

/** Returns a reader of the key of an event's group in the history of its rule, which several correlations share. */
export function historyReader(correlation: string, fields: readonly Field[]): (event: RuleEvent) => string {
  const group = groupReader(fields)
  return askedOnce(`history ${correlation}${nameOf(fields)}`, (event: RuleEvent) =>
    compactKey(`${correlation}${group(event)?.text}`),
  )
}
