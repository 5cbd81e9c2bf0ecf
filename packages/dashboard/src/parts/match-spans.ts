import { toolFields } from '@wardline/contract'
import type { Match } from '../data/rules.ts'
import type { Span } from '../ui/hostile-text.tsx'

/** From this length on, the service sends what surrounds the part. */
const longValue = 2_000

/** Parts of a text to mark: those that rules matched of one of the fields. Keywords are found in any field. */
export function spansOf(matches: readonly Match[], fields: readonly string[], text: string): Span[] {
  return matches.flatMap(({ field, value, start, end }) => {
    if (value === null || (field !== null && !fields.includes(field))) return []
    const at = text === value ? 0 : value.length >= longValue ? text.indexOf(value) : -1
    return at < 0 ? [] : [{ start: at + start, end: at + end }]
  })
}

/** The fields of a value in the metadata, by the names on the way to it. */
export function metadataFields(path: readonly string[]): string[] {
  const field = `metadata.${path.join('.')}`
  return path.length === 1 && (toolFields as readonly string[]).includes(path[0]!) ? [field, 'tool'] : [field]
}
