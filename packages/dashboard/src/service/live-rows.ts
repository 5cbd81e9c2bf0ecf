import type { EventPages, Row } from './event-tail.ts'

/** Rows that a page keeps: the memory of a tab that is open for weeks stays flat. */
export const maxRows = 2_000
/** A list takes as many rows at once as it holds, and in a flood so many a second: nobody reads more. */
const maxRowsPerSecond = 200

/** What a list may still take. */
export interface RowBudget {
  rows: number
  at: number
}
export const fullBudget = (now: number): RowBudget => ({ rows: maxRows, at: now })

/**
 * The rows of a batch that a list takes: all within its budget, in a flood every n-th. Breaches and critical events are
 * always among them.
 */
export function sampled(rows: readonly Row[], budget: RowBudget, now: number): readonly Row[] {
  budget.rows = Math.min(maxRows, budget.rows + (Math.max(0, now - budget.at) / 1_000) * maxRowsPerSecond)
  budget.at = now
  const share = Math.min(1, Math.floor(budget.rows) / rows.length)
  let due = 0
  const taken = rows.filter(({ severity }, index) => {
    // Counted from the newest on, which is always due: the top of the list is what came last.
    const age = rows.length - 1 - index
    const isDue = Math.ceil((age + 1) * share) > Math.ceil(age * share)
    if (isDue) due += 1
    return isDue || severity === 'breach' || severity === 'critical'
  })
  budget.rows -= due
  return taken
}

/** How many rows are newer than the first one of a list that stands still; of a list that moved on wholly, `2,000+`. */
export function newSince(rows: readonly Row[], held: readonly Row[] | undefined): string {
  const newest = held?.[0]?.id
  if (newest === undefined) return rows.length.toLocaleString('en')
  const index = rows.findIndex(({ id }) => id === newest)
  return index < 0 ? `${rows.length.toLocaleString('en')}+` : index.toLocaleString('en')
}

/** Adds rows of the `came` that the stream brought. Beyond the bound the oldest rows go, and can be loaded again from there. */
export function withNewRows(pages: EventPages, rows: readonly Row[], came = rows.length, max = maxRows): EventPages {
  const [first, ...older] = pages.pages
  if (!first) return pages
  const known = new Set(first.events.map(({ id }) => id))
  const added = rows.filter(({ id }) => !known.has(id)).reverse()
  if (added.length === 0 && came === rows.length) return pages
  const { streamed: before = { came: 0, skipped: 0 } } = first
  const streamed = { came: before.came + came, skipped: before.skipped + came - rows.length }
  const events = [...added, ...first.events]
  if (events.length <= max) return { ...pages, pages: [{ ...first, streamed, events }, ...older] }
  const kept = events.slice(0, max)
  const oldest = kept.findLast(({ seq }) => seq !== null)
  return {
    pages: [{ streamed, events: kept, next: oldest ? String(oldest.seq) : null }],
    pageParams: [pages.pageParams[0] ?? null],
  }
}
