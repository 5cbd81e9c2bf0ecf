import type { QuietHours, Severity } from '@wardline/contract'
import { isAtOrAbove } from '../outbox/alert.ts'

const minuteMs = 60_000
const dayMinutes = 24 * 60

/** Cached by zone: creating a formatter takes longer than using it a hundred times. */
const formats = new Map<string, Intl.DateTimeFormat>()

/** Returns minutes since midnight in a time zone. */
function minuteOfDay(timeZone: string, now: number): number {
  let format = formats.get(timeZone)
  if (!format) {
    format = new Intl.DateTimeFormat('en-GB', { timeZone, hour: '2-digit', minute: '2-digit', hourCycle: 'h23' })
    formats.set(timeZone, format)
  }
  return minutesOf(format.format(now))
}

const minutesOf = (clock: string): number => {
  const [hours, minutes] = clock.split(':')
  return Number(hours) * 60 + Number(minutes)
}

/**
 * Returns the end of the quiet hours that now apply to this severity (epoch milliseconds); undefined if none do. In the
 * night of a clock change the end, and thus the digest, may be an hour off.
 */
export function quietUntil(quiet: QuietHours, severity: Severity, now: number): number | undefined {
  if (isAtOrAbove(severity, quiet.min_severity ?? 'critical')) return undefined
  const from = minutesOf(quiet.from)
  const to = minutesOf(quiet.to)
  const minute = minuteOfDay(quiet.time_zone, now)
  const sinceStart = (minute - from + dayMinutes) % dayMinutes
  const length = (to - from + dayMinutes) % dayMinutes
  if (sinceStart >= length) return undefined
  const start = Math.floor(now / minuteMs) * minuteMs
  return start + (length - sinceStart) * minuteMs
}

/** Refuses offsets such as +01:00, which the formatter accepts but which have no daylight saving time. */
function isTimeZone(name: string): boolean {
  try {
    return /^[A-Za-z]/.test(name) && new Intl.DateTimeFormat('en', { timeZone: name }) !== undefined
  } catch {
    return false
  }
}

/** Returns a sentence that says why hours are invalid beyond the schema. */
export function quietHoursFault(hours: QuietHours | null | undefined): string | undefined {
  if (!hours) return undefined
  if (hours.from === hours.to) return 'quiet_hours.to must differ from quiet_hours.from.'
  return isTimeZone(hours.time_zone)
    ? undefined
    : 'quiet_hours.time_zone must be an IANA time zone, such as Europe/Berlin.'
}
