import { counted } from '@wardline/text'
import { dayMs, hourMs, minuteMs } from '../../clock.ts'

/**
 * Formats the age of a time in English, in whole units rounded down: "just now" (less than a minute), "1 minute ago",
 * "2 hours ago", "3 days ago", "never" for null. Both times are epoch milliseconds. A time after `nowMs` is "just now",
 * because clocks of a fleet's processes differ.
 */
export function relativeTime(thenMs: number | null, nowMs: number): string {
  if (thenMs === null) return 'never'
  const elapsedMs = nowMs - thenMs
  if (elapsedMs < minuteMs) return 'just now'
  if (elapsedMs < hourMs) return ago(elapsedMs / minuteMs, 'minute')
  if (elapsedMs < dayMs) return ago(elapsedMs / hourMs, 'hour')
  return ago(elapsedMs / dayMs, 'day')
}

function ago(amount: number, unit: string): string {
  const whole = Math.floor(amount)
  return `${counted(whole, unit)} ago`
}
