import { dayTimeText, useZone } from '../ui/time.tsx'

/** A time range in the address, in ISO 8601. */
export interface TimeRange {
  from?: string
  to?: string
}

/** Shows `22 Nov 14:00 to 22 Nov 16:30`, in the selected time zone. */
export function RangeText({ from, to }: { [Edge in keyof TimeRange]: string | undefined }) {
  const zone = useZone()
  const text = (instant: string) => dayTimeText(zone, Date.parse(instant)).slice(0, -3)
  if (from !== undefined && to !== undefined) return `${text(from)} to ${text(to)}`
  if (from !== undefined) return `since ${text(from)}`
  return to === undefined ? '' : `before ${text(to)}`
}
