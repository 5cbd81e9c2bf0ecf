import { severities } from '@wardline/contract'
import type { EventFilter } from '../data/live-tail.ts'
import { instant, number, oneOf, type SearchOf, searchParams, text } from '../data/search-params.ts'

const minuteMs = 60_000
/** Ranges that end now, by their name in the address. */
export const lastRanges = {
  '15m': { name: 'Last 15 minutes', ms: 15 * minuteMs },
  '1h': { name: 'Last hour', ms: 60 * minuteMs },
  '6h': { name: 'Last 6 hours', ms: 360 * minuteMs },
  '24h': { name: 'Last 24 hours', ms: 1_440 * minuteMs },
  '7d': { name: 'Last 7 days', ms: 10_080 * minuteMs },
}
export const lastNames = Object.keys(lastRanges) as (keyof typeof lastRanges)[]

/** Filters of the list. */
export const eventSearch = searchParams({
  severity: oneOf(severities),
  instance_id: text,
  event_type: text,
  session_id: text,
  q: text,
  /** A range that ends now. */
  last: oneOf(lastNames),
  from: instant,
  to: instant,
  /** A saved view. */
  view: text,
  /** The event in the drawer. */
  open: number,
  /** The rule whose matches the drawer marks, where the event did not complete its firing. */
  rule: text,
})
export type EventSearch = SearchOf<typeof eventSearch>

/** Returns the filter for the service. For a range that ends now, `from` is `now` minus its length. */
export function filterOf(
  { last, view: _view, open: _open, rule: _rule, ...filter }: EventSearch,
  now: number,
): EventFilter {
  const from = last === undefined ? filter.from : new Date(now - lastRanges[last].ms).toISOString()
  const all = last === undefined ? filter : { ...filter, from, to: undefined }
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined))
}
