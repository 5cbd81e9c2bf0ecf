import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { getRouteApi } from '@tanstack/react-router'
import { useVirtualizer } from '@tanstack/react-virtual'
import { severities } from '@wardline/contract'
import { useEffect, useRef, useState } from 'react'
import { EventLine } from '../parts/event-rows.tsx'
import { HostileText } from '../parts/hostile-text.tsx'
import '../parts/rows-in-view.css'
import { TailFacts } from '../parts/tail-facts.tsx'
import { sentenceOf } from '../service/client.ts'
import { type EventFilter, eventsQuery, type Row } from '../service/event-tail.ts'
import { statusQuery } from '../service/fleet.ts'
import { useLiveState } from '../service/live.ts'
import { maxRows, newSince } from '../service/live-rows.ts'
import { useKeys } from '../shell/keys.ts'
import { useTitle } from '../shell/title.ts'
import { asCurl } from './copy.ts'
import { EventDrawer } from './event-drawer.tsx'
import './events.css'

const route = getRouteApi('/inside/events')

export type EventSearch = Pick<EventFilter, 'severity' | 'instance_id' | 'event_type' | 'session_id' | 'q'> & {
  open?: number
}

/** What narrows the list besides severity and text, each with a way out. */
const narrowed = ['instance_id', 'event_type', 'session_id'] as const

export function Events() {
  const { open, ...filter } = route.useSearch()
  const navigate = route.useNavigate()
  const list = useInfiniteQuery(eventsQuery(filter))
  const { data: status } = useQuery(statusQuery)
  const { phase } = useLiveState()
  const rows = list.data?.pages.flatMap((page) => page.events) ?? []
  const [frozen, setFrozen] = useState<readonly Row[]>()
  const [at, setAt] = useState(0)
  const [text, setText] = useState(filter.q ?? '')
  const search = useRef<HTMLInputElement>(null)
  const scroller = useRef<HTMLDivElement>(null)
  const shown = frozen ?? rows
  useTitle('Events')

  const show = (change: EventSearch) => {
    setFrozen(undefined)
    setAt(0)
    void navigate({ search: (before) => ({ ...before, ...change }), replace: true })
  }
  const openEvent = (seq: number | undefined) =>
    void navigate({ search: (before) => ({ ...before, open: seq }), replace: true })
  const lines = useVirtualizer({
    count: shown.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => (matchMedia('(max-width: 720px)').matches ? 62 : 30),
    overscan: 20,
    getItemKey: (index) => shown[index]?.id ?? index,
  })
  useEffect(() => {
    if (at > 0) lines.scrollToIndex(at)
  }, [at, lines])
  /** Below the top, new rows would push away what is being read. */
  function holdWhileReading() {
    const top = scroller.current?.scrollTop ?? 0
    if (top > 60 && !frozen) setFrozen(rows)
  }
  function follow() {
    setFrozen(undefined)
    setAt(0)
    scroller.current?.scrollTo({ top: 0 })
  }
  /** The list is read again and stands still, so that nothing is passed over while it is read. */
  const showAll = () =>
    void list.refetch().then(({ data }) => data && setFrozen(data.pages.flatMap((page) => page.events)))
  useKeys({
    '/': () => search.current?.focus(),
    p: () => (frozen ? follow() : setFrozen(rows)),
    j: () => setAt(Math.min(shown.length - 1, at + 1)),
    k: () => setAt(Math.max(0, at - 1)),
    Enter: () => openEvent(shown[at]?.seq ?? undefined),
  })
  const isFull = (list.data?.pages[0]?.events.length ?? 0) >= maxRows
  return (
    <div className="rows events">
      <h1>Events</h1>
      <div className="chips">
        <form
          onSubmit={(event) => {
            event.preventDefault()
            search.current?.blur()
            show({ q: text.trim() || undefined })
          }}
        >
          <input
            ref={search}
            type="search"
            aria-label="Text in source, type or description"
            placeholder="Text in source, type or description  /"
            maxLength={200}
            value={text}
            onChange={(event) => {
              setText(event.target.value)
              if (event.target.value === '') show({ q: undefined })
            }}
          />
        </form>
        <button
          type="button"
          className="chip"
          aria-pressed={filter.severity === undefined}
          onClick={() => show({ severity: undefined })}
        >
          All
        </button>
        {severities.toReversed().map((severity) => (
          <button
            key={severity}
            type="button"
            className="chip"
            aria-pressed={filter.severity === severity}
            onClick={() => show({ severity: filter.severity === severity ? undefined : severity })}
          >
            {severity} <b>{status?.stats[severity].toLocaleString('en') ?? '…'}</b>
          </button>
        ))}
        <span className="quiet">counts of 24 h</span>
        {narrowed.flatMap((name) => {
          const value = filter[name]
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
      </div>
      {list.error && (
        <p role="alert" className="fault">
          {sentenceOf(list.error)}
        </p>
      )}
      <section className="panel" aria-label="Events, newest first">
        <header>
          <span role="status" className="quiet">
            {frozen ? `Paused · ${newSince(rows, frozen)} new` : phase === 'live' ? 'Live' : 'Not live'}
            {isFull ? ` · the newest ${maxRows.toLocaleString('en')} are kept here, load older ones at the end` : ''}
          </span>
          <TailFacts streamed={list.data?.pages[0]?.streamed} onShowAll={showAll} />
          <span className="end">
            <code className="curl only-wide">{asCurl(location.origin, filter)}</code>
            <button type="button" onClick={() => (frozen ? follow() : setFrozen(rows))}>
              {frozen ? 'Follow' : 'Pause'} <kbd>p</kbd>
            </button>
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
          <ul style={{ height: lines.getTotalSize() }}>
            {lines.getVirtualItems().map(({ index, key, start, size }) => {
              const row = shown[index]
              return (
                row && (
                  <li key={key} style={{ transform: `translateY(${start}px)`, height: size }}>
                    <button
                      type="button"
                      className={`event-line ${index === at ? 'at' : ''}`}
                      disabled={row.seq === null}
                      onClick={() => {
                        setAt(index)
                        openEvent(row.seq ?? undefined)
                      }}
                    >
                      <EventLine row={row} />
                    </button>
                  </li>
                )
              )
            })}
          </ul>
          {list.data && shown.length === 0 && <p className="empty">No stored event matches.</p>}
          {list.hasNextPage && (
            <p className="empty">
              <button
                type="button"
                disabled={list.isFetchingNextPage}
                onClick={() =>
                  void list.fetchNextPage().then(({ data }) => {
                    if (frozen && data) setFrozen(data.pages.flatMap((page) => page.events))
                  })
                }
              >
                {list.isFetchingNextPage ? 'Loading…' : 'Load older events'}
              </button>
            </p>
          )}
        </div>
      </section>
      {open !== undefined && (
        <EventDrawer seq={open} rows={shown} onOpen={openEvent} onClose={() => openEvent(undefined)} />
      )}
    </div>
  )
}
