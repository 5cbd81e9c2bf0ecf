import {
  type AuditEntry,
  type AuditQuery,
  type Client,
  type ControlChange,
  type ControlChangeQuery,
  type EventList,
  type EventRow,
  limits,
} from '@wardline/contract'

export type AnyRow =
  | { kind: 'event'; row: EventRow }
  | { kind: 'control'; row: ControlChange }
  | { kind: 'audit'; row: AuditEntry }

/** Entry of a merged timeline. `seq` is numbered separately for each kind. */
export type Entry = AnyRow & { at: string; seq: number }

interface Page {
  entries: Entry[]
  isLast: boolean
}

/** Entries of one kind, newest first. Pages are read on demand. */
export interface Source {
  /** Returns the next entry without removing it; undefined at the end. */
  head(): Promise<Entry | undefined>
  take(): void
  /** Whether the end is known to be reached. */
  readonly isDone: boolean
}

export function createSource(pages: AsyncIterator<Page>): Source {
  let page: Page = { entries: [], isLast: false }
  let taken = 0
  return {
    get isDone() {
      return page.isLast && taken >= page.entries.length
    },
    async head() {
      while (taken >= page.entries.length && !page.isLast) {
        const { value, done } = await pages.next()
        page = done ? { entries: [], isLast: true } : value
        taken = 0
      }
      return page.entries[taken]
    },
    take() {
      taken++
    },
  }
}

/** Removes and returns the newest entry of all sources; undefined at the end. */
export async function takeNewest(sources: readonly Source[]): Promise<Entry | undefined> {
  let newest: { source: Source; entry: Entry } | undefined
  for (const source of sources) {
    const entry = await source.head()
    if (entry && (newest === undefined || entry.at > newest.entry.at)) newest = { source, entry }
  }
  newest?.source.take()
  return newest?.entry
}

export async function* eventEntries(pages: AsyncIterable<EventList>): AsyncGenerator<Page> {
  for await (const { events, next } of pages) {
    const entries = events.map((row): Entry => ({ kind: 'event', at: row.created_at, seq: row.seq, row }))
    yield { entries, isLast: next === null }
  }
}

/** Yields pages of kills and resumes, newest first. */
export async function* controlPages(
  call: Client,
  query: ControlChangeQuery,
  pageSize: number = limits.pageSize,
): AsyncGenerator<{ changes: ControlChange[]; next: string | null }> {
  let before = query.before
  for (;;) {
    const page = await call('listControlChanges', { query: { ...query, before, limit: String(pageSize) } })
    yield page
    if (page.next === null) return
    before = page.next
  }
}

export async function* controlEntries(
  call: Client,
  query: ControlChangeQuery,
  pageSize?: number,
): AsyncGenerator<Page> {
  for await (const { changes, next } of controlPages(call, query, pageSize)) {
    const entries = changes.map((row): Entry => ({ kind: 'control', at: row.at, seq: row.seq, row }))
    yield { entries, isLast: next === null }
  }
}

/** Yields pages of the audit log, newest first. */
export async function* auditEntries(call: Client, query: AuditQuery): AsyncGenerator<Page> {
  let before = query.before
  for (;;) {
    const { entries: rows, next } = await call('listAudit', {
      query: { ...query, before, order: 'newest', limit: String(limits.pageSize) },
    })
    yield {
      entries: rows.map((row): Entry => ({ kind: 'audit', at: row.at, seq: row.seq, row })),
      isLast: next === null,
    }
    if (next === null) return
    before = next
  }
}
