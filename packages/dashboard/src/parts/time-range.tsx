import { dayTimeText, useZone } from './time.tsx'

/** A range in the address, in ISO 8601. */
export interface TimeRange {
  from?: string
  to?: string
}

/** `22 Nov 14:00 to 22 Nov 16:30`, in the time zone that is shown. */
export function RangeText({ from, to }: TimeRange) {
  const zone = useZone()
  const text = (instant: string) => dayTimeText(zone, Date.parse(instant)).slice(0, -3)
  if (from !== undefined && to !== undefined) return `${text(from)} to ${text(to)}`
  if (from !== undefined) return `since ${text(from)}`
  return to === undefined ? '' : `before ${text(to)}`
}

/** An instant of the address, in the one form that the service takes; undefined for any other text. */
export function instantOf(value: unknown): string | undefined {
  const time = typeof value === 'string' && value.length < 40 ? Date.parse(value) : Number.NaN
  return Number.isFinite(time) ? new Date(time).toISOString() : undefined
}
