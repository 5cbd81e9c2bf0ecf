import type { EventFilter } from '../service/live-tail.ts'

export const lastRanges = ['15m', '1h', '6h', '24h', '7d'] as const
export type LastRange = (typeof lastRanges)[number]
const minuteMs = 60_000
const lastMs: Record<LastRange, number> = {
  '15m': 15 * minuteMs,
  '1h': 60 * minuteMs,
  '6h': 360 * minuteMs,
  '24h': 1_440 * minuteMs,
  '7d': 10_080 * minuteMs,
}

/** Filters of the list in the address. */
export type EventSearch = EventFilter & {
  /** A range that ends now. */
  last?: LastRange
  /** A saved view. */
  view?: string
  /** The event in the drawer. */
  open?: number
}

/** Returns the filter for the service. For a range that ends now, `from` is `now` minus its length. */
export function filterOf({ last, view: _view, open: _open, ...filter }: EventSearch, now: number): EventFilter {
  const from = last === undefined ? filter.from : new Date(now - lastMs[last]).toISOString()
  const all = last === undefined ? filter : { ...filter, from, to: undefined }
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined))
}
