import { hashKey, type InfiniteData } from '@tanstack/react-query'
import type { QueryOf, StreamedRow } from '@wardline/contract'

/** A stored event, or one that another program published without storing it: its seq is null. */
export type Row = StreamedRow
export type EventFilter = Pick<
  NonNullable<QueryOf<'listEvents'>>,
  'severity' | 'instance_id' | 'session_id' | 'event_type' | 'q' | 'from' | 'to'
>

export interface EventPage {
  events: Row[]
  next: string | null
  /** How far a search has scanned, if not to the end. */
  scanned_to?: string
  /** Number of streamed rows skipped just above a row, by the row's id. */
  skipped?: Readonly<Record<string, number>>
}
export type EventPages = InfiniteData<EventPage, string | null>

/** Maximum rows kept by a list, so that a tab that is open for weeks does not use more and more memory. */
export const maxRows = 2_000

/** Whether a new event matches a list's filter, with the same result as the service for stored events. */
export function matchesFilter(filter: EventFilter, row: Row): boolean {
  const { severity, instance_id, session_id, event_type, q, from, to } = filter
  const text = () => `${row.source}\n${row.event_type}\n${row.description}`.toLowerCase()
  return (
    (severity === undefined || row.severity === severity) &&
    (instance_id === undefined || row.instance_id === instance_id) &&
    (session_id === undefined || row.session_id === session_id) &&
    (event_type === undefined || row.event_type === event_type) &&
    (q === undefined || text().includes(q.toLowerCase())) &&
    (from === undefined || Date.parse(row.created_at) >= Date.parse(from)) &&
    (to === undefined || Date.parse(row.created_at) < Date.parse(to))
  )
}

/** A list can take a burst of `maxRows`, and then this many rows per second: people cannot read more. */
export const maxShownPerSecond = 50

/** Tracks the streamed rows of one list: exact counts, and how many rows may still be shown this second. */
export class Tail {
  received = 0
  #room = maxRows
  #at = 0
  /** Rows in each of the last seconds. */
  #seconds: [second: number, count: number][] = []

  /** Counts rows (oldest first) and returns those to show. Breaches and critical events are always shown. */
  take(rows: readonly Row[], now: number): Row[] {
    this.received += rows.length
    const second = Math.floor(now / 1_000)
    const last = this.#seconds.at(-1)
    if (last?.[0] === second) last[1] += rows.length
    else this.#seconds = [...this.#seconds.slice(-rateSeconds), [second, rows.length]]
    this.#room = Math.min(maxRows, this.#room + (Math.max(0, now - this.#at) / 1_000) * maxShownPerSecond)
    this.#at = now
    const share = Math.min(1, Math.floor(this.#room) / rows.length)
    let due = 0
    const shown = rows.filter(({ severity }, index) => {
      // Counts from the newest row, which is always shown, because the top of the list is the latest row.
      const age = rows.length - 1 - index
      const isDue = Math.ceil((age + 1) * share) > Math.ceil(age * share)
      if (isDue) due += 1
      return isDue || severity === 'breach' || severity === 'critical'
    })
    this.#room -= due
    return shown
  }

  /** Rows per second, averaged over the last full seconds. */
  perSecond(now: number): number {
    const second = Math.floor(now / 1_000)
    const counted = this.#seconds.filter(([at]) => at < second && at >= second - rateSeconds)
    return counted.reduce((sum, [, count]) => sum + count, 0) / rateSeconds
  }
}
const rateSeconds = 5

/** Maximum lists for which counts are kept. */
const maxTails = 50
const tails = new Map<string, Tail>()

export function tailOf(filter: EventFilter): Tail {
  const key = hashKey([filter])
  const tail = tails.get(key) ?? new Tail()
  tails.delete(key)
  tails.set(key, tail)
  const [oldest] = tails.keys()
  if (tails.size > maxTails && oldest !== undefined) tails.delete(oldest)
  return tail
}

/**
 * Adds the shown rows to the list and counts the skipped ones. Above `max`, the oldest rows are removed and can be
 * loaded again.
 */
export function withNewRows(
  pages: EventPages,
  rows: readonly Row[],
  shown: readonly Row[] = rows,
  max = maxRows,
): EventPages {
  const [first, ...older] = pages.pages
  if (!first) return pages
  const known = new Set(first.events.map(({ id }) => id))
  const isShown = new Set(shown)
  const skipped: Record<string, number> = { ...first.skipped }
  const added: Row[] = []
  for (const row of rows) {
    if (known.has(row.id)) continue
    const below = added.at(-1) ?? first.events[0]
    // The skip count is stored on the row below, so without one the row is added.
    if (isShown.has(row) || !below) added.push(row)
    else skipped[below.id] = (skipped[below.id] ?? 0) + 1
  }
  const events = [...added.reverse(), ...first.events]
  if (events.length <= max) return { ...pages, pages: [{ ...first, events, skipped }, ...older] }
  const kept = events.slice(0, max)
  const oldest = kept.findLast(({ seq }) => seq !== null)
  const named = kept.flatMap(({ id }) => (skipped[id] ? [[id, skipped[id]] as const] : []))
  return {
    pages: [{ events: kept, next: oldest ? String(oldest.seq) : null, skipped: Object.fromEntries(named) }],
    pageParams: [pages.pageParams[0] ?? null],
  }
}
