import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { getRouteApi } from '@tanstack/react-router'
import { useMemo, useRef, useState } from 'react'
import { useChange } from '../data/change.ts'
import { call } from '../data/client.ts'
import { eventsQuery } from '../data/event-tail.ts'
import { maxRows, type Row, tailOf } from '../data/live-tail.ts'
import { useRows } from '../ui/rows.ts'
import { useKeys } from '../ui/shortcuts.ts'
import { facetsQuery } from './facets.tsx'
import { type EventSearch, filterOf } from './search.ts'
import { type Gap, tailLines, withMissing } from './tail-lines.ts'

const route = getRouteApi('/inside/events')

/** Snapshot of the list from when it was paused. */
interface Frozen {
  rows: readonly Row[]
  skipped: Readonly<Record<string, number>>
  /** Streamed events until then. */
  received: number
}

/** Key of the list. The open drawer and the view's name do not change it. */
const filterText = ({ open: _open, rule: _rule, view: _view, ...search }: EventSearch) => JSON.stringify(search)

/** State of the screen: the filter in the address, its events, whether the list is paused, and the current line. */
export function useEvents() {
  const search = route.useSearch()
  const navigate = route.useNavigate()
  // A range that ends now keeps the start from when it was chosen, so the list grows with new events.
  const filter = useMemo(() => filterOf(search, Date.now()), [filterText(search)])
  const list = useInfiniteQuery(eventsQuery(filter))
  const facets = useQuery(facetsQuery(filter))
  const { severity: _severity, ...ofAnySeverity } = filter
  const { data: anySeverity } = useQuery(facetsQuery(ofAnySeverity))
  const tail = tailOf(filter)
  const pages = list.data?.pages
  const rows = useMemo(() => pages?.flatMap((page) => page.events) ?? [], [pages])
  const [frozen, setFrozen] = useState<Frozen>()
  const field = useRef<HTMLInputElement>(null)
  const scroller = useRef<HTMLDivElement>(null)
  const reading = useChange({ changes: [] })
  const live: Frozen = { rows, skipped: pages?.[0]?.skipped ?? {}, received: tail.received }
  const shown = frozen ?? live
  const lines = useMemo(() => tailLines(shown.rows, shown.skipped), [shown.rows, shown.skipped])

  const follow = () => {
    setFrozen(undefined)
    setAt(0)
    scroller.current?.scrollTo({ top: 0 })
  }
  const show = (change: Partial<EventSearch>) => {
    follow()
    void navigate({ search: (before) => ({ ...before, ...change }), replace: true })
  }
  const open = (seq: number | null | undefined) =>
    void navigate({ search: (before) => ({ ...before, open: seq ?? undefined, rule: undefined }), replace: true })
  const pause = () => (frozen ? follow() : setFrozen(live))
  const showMissing = (gap: Gap) => {
    setFrozen(shown)
    void reading.run(async () => void setFrozen({ ...shown, ...(await withMissing(shown, gap, filter, call)) }))
  }
  const { at, setAt } = useRows(lines, {
    Enter: (line) => (line.kind === 'row' ? open(line.row.seq) : showMissing(line)),
  })
  useKeys({
    '/': () => field.current?.focus(),
    p: pause,
    Escape: () => frozen && follow(),
  })
  return {
    search,
    filter,
    facets,
    /** Counts of the severities, as if none were chosen. */
    severityCounts: anySeverity?.severity,
    /** Rows that were read, also those that a paused list does not show. */
    rows,
    shown,
    lines,
    tail,
    isPaused: frozen !== undefined,
    list,
    isFull: (pages?.[0]?.events.length ?? 0) >= maxRows,
    /** How far the search has scanned, if not to the end. */
    scannedTo: pages?.at(-1)?.scanned_to,
    fault: reading.fault ?? list.error,
    at,
    setAt,
    field,
    scroller,
    show,
    open,
    pause,
    showMissing,
    /** Pauses the list while it is scrolled down: new rows would push away what is being read. */
    holdWhileReading() {
      if ((scroller.current?.scrollTop ?? 0) > 60 && !frozen) setFrozen(live)
    },
    /** Reads the list again and pauses it, so that no rows are skipped while a person reads. */
    async showAll() {
      const { data } = await list.refetch()
      if (data) setFrozen({ rows: data.pages.flatMap((page) => page.events), skipped: {}, received: tail.received })
    },
    async loadOlder() {
      const { data } = await list.fetchNextPage()
      if (frozen && data) setFrozen({ ...frozen, rows: data.pages.flatMap((page) => page.events) })
    },
  }
}

export type EventsState = ReturnType<typeof useEvents>
