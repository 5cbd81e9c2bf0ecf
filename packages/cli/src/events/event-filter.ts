import type { Severity, StreamedRow } from '@wardline/contract'
import { matchesPattern } from '@wardline/text'

/** Each list contains alternatives; an omitted property matches everything. */
export interface EventFilter {
  severity?: readonly Severity[]
  type?: readonly string[]
  excludeType?: readonly string[]
  /** Instance ids, or prefixes ending in `*`, as keys are bound. */
  instance?: readonly string[]
  /** Text in source, type or description, in any case. */
  grep?: string
}

const isOneOf = (allowed: readonly string[] | undefined, value: string): boolean =>
  allowed === undefined || allowed.includes(value)

/** Whether the id matches one of the ids or prefixes ending in `*`. */
export function isInstance(allowed: readonly string[] | undefined, id: string | null): boolean {
  if (allowed === undefined) return true
  if (id === null) return false
  return allowed.some((given) => matchesPattern(given, id))
}

export function passes({ severity, type, excludeType, instance, grep }: EventFilter, row: StreamedRow): boolean {
  const text = grep?.toLowerCase()
  return (
    isOneOf(severity, row.severity) &&
    isOneOf(type, row.event_type) &&
    !excludeType?.includes(row.event_type) &&
    isInstance(instance, row.instance_id) &&
    (text === undefined ||
      [row.source, row.event_type, row.description].some((field) => field.toLowerCase().includes(text)))
  )
}
