import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { useVirtualizer } from '@tanstack/react-virtual'
import { severities } from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import { useEffect, useMemo, useRef, useState } from 'react'
import { EventLine } from '../parts/event-rows.tsx'
import { HostileText } from '../parts/hostile-text.tsx'
import { SavedViews } from '../parts/saved-views.tsx'
import { SessionLine } from '../parts/session-line.tsx'
import { sessionsOf } from '../parts/sessions.ts'
import { SeverityChart } from '../parts/severity-chart.tsx'
import { TailFacts } from '../parts/tail-facts.tsx'
import { Time, useNow } from '../parts/time.tsx'
import '../parts/rows-in-view.css'
import { CopyButton } from '../parts/copy-button.tsx'
import { RangeText } from '../parts/time-range.tsx'
import { call, sentenceOf } from '../service/client.ts'
import { eventsQuery } from '../service/event-tail.ts'
import { useLiveState } from '../service/live.ts'
import { maxRows, type Row, tailOf } from '../service/live-tail.ts'
import { useKeys } from '../shell/keys.ts'
import { useTitle } from '../shell/title.ts'
import { asCurl } from './copy.ts'
import { EventDrawer } from './event-drawer.tsx'
import './events.css'
import { ExportDialog } from './export-dialog.tsx'
import { FacetPanel, facetsQuery } from './facets.tsx'
import { type EventSearch, filterOf, type LastRange, lastRanges } from './search.ts'
import { type TailLine, tailLines, withMissing } from './tail-lines.ts'

const route = getRouteApi('/inside/events')

/** Filters besides severity, text and time. Each is shown with a button to remove it. */
const narrowed = ['instance_id', 'event_type', 'session_id'] as const
const rangeNames: Record<LastRange, string> = {
  '15m': 'Last 15 minutes',
  '1h': 'Last hour',
  '6h': 'Last 6 hours',
  '24h': 'Last 24 hours',
  '7d': 'Last 7 days',
}

/** Snapshot of the list from when it was paused. */
interface Frozen {
  rows: readonly Row[]
  skipped: Readonly<Record<string, number>>
  received: number
}

export function Events() {
  const search = route.useSearch()
  const { open, severity } = search
  const navigate = route.useNavigate()
  // A range that ends now keeps the start from when it was chosen, so the list grows with new events.
  const filter = useMemo(() => filterOf({ ...search, open: undefined }, Date.now()), [filterText(search)])
  const list = useInfiniteQuery(eventsQuery(filter))
  const { data: facets } = useQuery(facetsQuery(useMemo(() => withoutSeverity(filter), [filter])))
  const now = useNow()
  const { phase } = useLiveState()
  const tail = tailOf(filter)
  const pages = list.data?.pages
  const rows = useMemo(() => pages?.flatMap((page) => page.events) ?? [], [pages])
  const [frozen, setFrozen] = useState<Frozen>()
  const [at, setAt] = useState(0)
  const [text, setText] = useState(search.q ?? '')
  const [fault, setFault] = useState<string>()
  const [isExporting, setExporting] = useState(false)
  const input = useRef<HTMLInputElement>(null)
  const scroller = useRef<HTMLDivElement>(null)
  const live: Frozen = { rows, skipped: pages?.[0]?.skipped ?? {}, received: tail.received }
  const shown = frozen ?? live
  const lines = useMemo(() => tailLines(shown.rows, shown.skipped), [shown.rows, shown.skipped])
  const session = useMemo(
    () => (search.session_id === undefined ? undefined : sessionsOf(rows)[0]),
    [rows, search.session_id],
  )
  useTitle('Events')
  useEffect(() => {
    if (document.activeElement !== input.current) setText(search.q ?? '')
  }, [search.q])

  const since = frozen ? tail.received - frozen.received : 0
  const isOver = filter.to !== undefined && Date.parse(filter.to) <= now
  const show = (change: Partial<EventSearch>) => {
    setFrozen(undefined)
    setAt(0)
    void navigate({ search: (before) => ({ ...before, ...change }), replace: true })
  }
  const openEvent = (seq: number | undefined) =>
    void navigate({ search: (before) => ({ ...before, open: seq }), replace: true })
  const virtual = useVirtualizer({
    count: lines.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => (matchMedia('(max-width: 720px)').matches ? 62 : 30),
    overscan: 12,
    getItemKey: (index) => lines[index]?.key ?? index,
  })
  useEffect(() => {
    if (at > 0) virtual.scrollToIndex(at)
  }, [at, virtual])
  /** Pauses the list while it is scrolled down: new rows would push away what is being read. */
  function holdWhileReading() {
    const top = scroller.current?.scrollTop ?? 0
    if (top > 60 && !frozen) setFrozen(live)
  }
  function follow() {
    setFrozen(undefined)
    setAt(0)
    scroller.current?.scrollTo({ top: 0 })
  }
  async function showMissing(line: TailLine & { kind: 'gap' }) {
    const held = frozen ?? live
    setFrozen(held)
    setFault(undefined)
    try {
      setFrozen({ ...held, ...(await withMissing(held, line, filter, call)) })
    } catch (problem) {
      setFault(sentenceOf(problem))
    }
  }
  /** Reads the list again and pauses it, so that no rows are skipped while a person reads. */
  async function showAll() {
    const { data } = await list.refetch()
    if (data) setFrozen({ rows: data.pages.flatMap((page) => page.events), skipped: {}, received: tail.received })
  }
  const current = lines[at]
  useKeys({
    '/': () => input.current?.focus(),
    p: () => (frozen ? follow() : setFrozen(live)),
    j: () => setAt(Math.min(lines.length - 1, at + 1)),
    k: () => setAt(Math.max(0, at - 1)),
    Enter: () => {
      if (current?.kind === 'row') openEvent(current.row.seq ?? undefined)
      if (current?.kind === 'gap') void showMissing(current)
    },
    Escape: () => {
      if (frozen) follow()
    },
  })
  const isFull = (pages?.[0]?.events.length ?? 0) >= maxRows
  const scannedTo = pages?.at(-1)?.scanned_to
  const countOf = (name: string) => facets?.severity.find(({ value }) => value === name)?.count ?? 0
  const range = { ...(filter.from ? { from: filter.from } : {}), ...(filter.to ? { to: filter.to } : {}) }
  const { from: _from, to: _to, ...unranged } = filter
  return (
    <div className="rows events">
      <h1>Events</h1>
      <div className="chips">
        <form
          onSubmit={(event) => {
            event.preventDefault()
            input.current?.blur()
            show({ q: text.trim() || undefined })
          }}
        >
          <input
            ref={input}
            type="search"
            aria-label="Text in source, type or description"
            placeholder="Text in source, type or description  /"
            maxLength={200}
            value={text}
            onChange={(event) => {
              setText(event.target.value)
              if (event.target.value === '') show({ q: undefined })
            }}
            onKeyDown={(event) => {
              if (event.key === 'Escape') input.current?.blur()
            }}
          />
        </form>
        <button
          type="button"
          className="chip"
          aria-pressed={severity === undefined}
          onClick={() => show({ severity: undefined })}
        >
          All
        </button>
        {severities.toReversed().map((name) => (
          <button
            key={name}
            type="button"
            className="chip"
            aria-pressed={severity === name}
            onClick={() => show({ severity: severity === name ? undefined : name })}
          >
            {name} <b>{facets ? countOf(name).toLocaleString('en') : '…'}</b>
          </button>
        ))}
        {narrowed.flatMap((name) => {
          const value = search[name]
          return value === undefined
            ? []
            : [
                <button
                  key={name}
                  type="button"
                  className="chip"
                  aria-pressed="true"
                  onClick={() => show({ [name]: undefined })}
                >
                  {name} <HostileText text={value} line max={60} /> ×
                </button>,
              ]
        })}
        <span className="chips end">
          {search.last === undefined && (search.from !== undefined || search.to !== undefined) && (
            <button
              type="button"
              className="chip"
              aria-pressed="true"
              onClick={() => show({ from: undefined, to: undefined })}
            >
              <RangeText {...range} /> ×
            </button>
          )}
          <label>
            <span className="only-read">Time range</span>
            <select
              value={search.last ?? ''}
              onChange={(event) =>
                show({
                  last: lastRanges.find((name) => name === event.target.value),
                  from: undefined,
                  to: undefined,
                })
              }
            >
              <option value="">Any time</option>
              {lastRanges.map((name) => (
                <option key={name} value={name}>
                  {rangeNames[name]}
                </option>
              ))}
            </select>
          </label>
          <SavedViews screen="events" view={search.view} />
          <button type="button" onClick={() => setExporting(true)}>
            Export…
          </button>
        </span>
      </div>
      {(list.error || fault) && (
        <p role="alert" className="fault">
          {fault ?? sentenceOf(list.error)}
        </p>
      )}
      <SeverityChart
        filter={unranged}
        height={72}
        range={range}
        onZoom={(next) => show({ from: next.from, to: next.to, last: undefined })}
      />
      {session && (
        <section className="panel" aria-label="Session">
          <SessionLine session={session} isAlone />
          {list.hasNextPage && <p className="empty">Older events of this session are not loaded yet.</p>}
        </section>
      )}
      <div className="with-facets">
        <FacetPanel filter={filter} onChange={show} />
        <section className="panel" aria-label="Events, newest first">
          <header>
            <span role="status" className="quiet">
              {isOver
                ? 'This range is over'
                : frozen
                  ? `Paused · ${since.toLocaleString('en')} new`
                  : phase === 'live'
                    ? 'Live'
                    : 'Not live'}
            </span>
            {!isOver && <TailFacts tail={tail} skipped={shown.skipped} onShowAll={() => void showAll()} />}
            {isFull && (
              <span className="quiet">
                the newest {maxRows.toLocaleString('en')} are kept here, load older ones at the end
              </span>
            )}
            <span className="end">
              <CopyButton name="Copy as curl" text={asCurl(location.origin, filter)} />
              {!isOver && (
                <button type="button" onClick={() => (frozen ? follow() : setFrozen(live))}>
                  {frozen ? 'Follow' : 'Pause'} <kbd>p</kbd>
                </button>
              )}
            </span>
          </header>
          <div
            ref={scroller}
            className="tail"
            onScroll={holdWhileReading}
            tabIndex={0}
            role="group"
            aria-label="List of events"
          >
            <ul style={{ height: virtual.getTotalSize() }}>
              {virtual.getVirtualItems().map(({ index, key, start, size }) => {
                const line = lines[index]
                return (
                  line && (
                    <li key={key} style={{ transform: `translateY(${start}px)`, height: size }}>
                      {line.kind === 'row' ? (
                        <button
                          type="button"
                          className={`event-line ${index === at ? 'at' : ''}`}
                          disabled={line.row.seq === null}
                          onClick={() => {
                            setAt(index)
                            openEvent(line.row.seq ?? undefined)
                          }}
                        >
                          <EventLine row={line.row} />
                        </button>
                      ) : (
                        <p className={`gap ${index === at ? 'at' : ''}`}>
                          {counted(line.count, 'event')} not shown
                          <button type="button" className="plain" onClick={() => void showMissing(line)}>
                            Show them
                          </button>
                        </p>
                      )}
                    </li>
                  )
                )
              })}
            </ul>
            {list.data && shown.rows.length === 0 && (
              <p className="empty">
                {scannedTo === undefined ? 'No stored event matches. ' : 'Nothing found so far. '}
                <Link to="/connect" search={{ simulate: true }}>
                  Simulate an attack
                </Link>{' '}
                or <Link to="/connect">connect an agent</Link>.
              </p>
            )}
            {scannedTo !== undefined && (
              <p className="empty" role="status">
                Looked back to <Time at={scannedTo} />: older events were not searched yet.
              </p>
            )}
            {list.hasNextPage && (
              <p className="empty">
                <button
                  type="button"
                  disabled={list.isFetchingNextPage}
                  onClick={() =>
                    void list.fetchNextPage().then(({ data }) => {
                      if (frozen && data) setFrozen({ ...frozen, rows: data.pages.flatMap((page) => page.events) })
                    })
                  }
                >
                  {list.isFetchingNextPage ? 'Loading…' : scannedTo ? 'Search older events' : 'Load older events'}
                </button>
              </p>
            )}
          </div>
        </section>
      </div>
      {open !== undefined && (
        <EventDrawer seq={open} rows={shown.rows} onOpen={openEvent} onClose={() => openEvent(undefined)} />
      )}
      {isExporting && <ExportDialog filter={filter} onClose={() => setExporting(false)} />}
    </div>
  )
}

/** Key of the list. The open drawer and the view's name do not change it. */
const filterText = ({ open: _open, view: _view, ...search }: EventSearch) => JSON.stringify(search)

function withoutSeverity({ severity: _severity, ...filter }: ReturnType<typeof filterOf>) {
  return filter
}
