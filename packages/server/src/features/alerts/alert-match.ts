import { type AlertMatch, severities } from '@wardline/contract'
import type { Severity } from './message.ts'

/** What of an alert decides where it goes. */
export interface AlertFacts {
  severity: Severity
  event_type: string
  instance_id: string | null
}

const rank = (severity: Severity): number => severities.indexOf(severity)

export const isAtLeast = (severity: Severity, least: Severity): boolean => rank(severity) >= rank(least)
export const highest = (left: Severity, right: Severity): Severity => (isAtLeast(left, right) ? left : right)

/** A pattern is a name, or a prefix followed by *. */
const fits = (pattern: string, name: string): boolean =>
  pattern.endsWith('*') ? name.startsWith(pattern.slice(0, -1)) : name === pattern

/** Every given part must match. An alert without an instance matches only what names no instances. */
export function matchesAlert({ severities: among, types, instances }: AlertMatch, alert: AlertFacts): boolean {
  const { severity, event_type, instance_id } = alert
  if (among && !among.includes(severity)) return false
  if (types && !types.some((pattern) => fits(pattern, event_type))) return false
  return !instances || (instance_id !== null && instances.some((pattern) => fits(pattern, instance_id)))
}
