import { ruleLimits } from '@wardline/contract'

/** Modifiers that compare a part of a date: those of Sigma, and `weekday`. */
export const dateParts = ['minute', 'hour', 'day', 'week', 'weekday', 'month', 'year'] as const
export type DatePart = (typeof dateParts)[number]

/** Creating one takes a hundred times as long as using it. */
const formats = new Map<string, Intl.DateTimeFormat>()
/** One for each rule, of 50 KiB each: with fewer, rules with more zones would create one for each event. */
const maxFormats = ruleLimits.rules

function formatOf(zone: string): Intl.DateTimeFormat {
  let format = formats.get(zone)
  if (!format) {
    if (formats.size >= maxFormats) formats.delete(formats.keys().next().value!)
    format = new Intl.DateTimeFormat('en-u-hc-h23', {
      timeZone: zone,
      year: 'numeric',
      month: 'numeric',
      day: 'numeric',
      hour: 'numeric',
      minute: 'numeric',
    })
    formats.set(zone, format)
  }
  return format
}

/** Whether this is a time zone of the IANA database, or an offset such as +02:00. */
export function isTimeZone(zone: string): boolean {
  try {
    formatOf(zone)
    return true
  } catch {
    return false
  }
}

/** Returns the week of ISO 8601, section 3.1.1.23: the first one of a year has its first Thursday. */
function weekOf(year: number, month: number, day: number): number {
  const date = new Date(Date.UTC(year, month - 1, day))
  const weekday = date.getUTCDay() || 7
  date.setUTCDate(date.getUTCDate() + 4 - weekday)
  return Math.ceil(((date.getTime() - Date.UTC(date.getUTCFullYear(), 0, 1)) / 86_400_000 + 1) / 7)
}

/** A date with a time as in RFC 3339, section 5.6. */
const dateTime = /^\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:[Zz]|[+-]\d{2}:?\d{2})?$/

/** Returns a part of a date in a time zone; undefined if the text is no date. A date without an offset is one in UTC. */
export function datePart(text: string, part: DatePart, zone: string): number | undefined {
  if (text.length > 40 || !dateTime.test(text)) return undefined
  const at = Date.parse(/[Zz]$|[+-]\d{2}:?\d{2}$/.test(text) ? text : `${text}Z`)
  if (Number.isNaN(at)) return undefined
  const parts = Object.fromEntries(
    formatOf(zone)
      .formatToParts(at)
      .map(({ type, value }) => [type, Number(value)]),
  )
  const { year = 0, month = 0, day = 0 } = parts
  if (part === 'week') return weekOf(year, month, day)
  // From 1, Monday, to 7, as in ISO 8601.
  if (part === 'weekday') return new Date(Date.UTC(year, month - 1, day)).getUTCDay() || 7
  return parts[part]
}
