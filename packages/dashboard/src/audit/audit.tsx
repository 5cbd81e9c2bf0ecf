import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { getRouteApi } from '@tanstack/react-router'
import { useVirtualizer } from '@tanstack/react-virtual'
import type { AuditQuery } from '@wardline/contract'
import { useEffect, useRef, useState } from 'react'
import { HostileText } from '../parts/hostile-text.tsx'
import '../parts/rows-in-view.css'
import { Time } from '../parts/time.tsx'
import { call, sentenceOf } from '../service/client.ts'
import { useHasScope } from '../service/session.ts'
import { useKeys } from '../shell/keys.ts'
import { useTitle } from '../shell/title.ts'
import './audit.css'
import { AuditFilter } from './audit-filter.tsx'
import { ChainPanel, chainQuery } from './chain-panel.tsx'
import { actorOf, type Entry } from './entries.ts'
import { EntryDrawer } from './entry-drawer.tsx'
import { exportAudit, maxExported } from './export.ts'

const route = getRouteApi('/inside/audit')
const pageRows = '200'

function EntryLine({ entry }: { entry: Entry }) {
  return (
    <>
      <Time at={entry.at} />
      <span className="mono seq">{entry.seq.toLocaleString('en')}</span>
      <span className="cut">
        <HostileText text={actorOf(entry)} line />
      </span>
      <span className="mono cut">
        <HostileText text={entry.action} line />
      </span>
      <span className="cut">
        <HostileText text={entry.target ?? ''} line />
      </span>
      <span className="cut reason">
        <HostileText text={entry.reason ?? ''} line />
      </span>
    </>
  )
}

function ExportButton({ filter }: { filter: AuditQuery }) {
  const [word, setWord] = useState('')
  const [isBusy, setBusy] = useState(false)
  async function run() {
    setBusy(true)
    try {
      const count = await exportAudit(filter, (done) => setWord(`${done.toLocaleString('en')} read…`))
      setWord(
        count < maxExported
          ? `${count.toLocaleString('en')} exported`
          : `The first ${count.toLocaleString('en')} exported: narrow the time`,
      )
    } catch (fault) {
      setWord(sentenceOf(fault))
    }
    setBusy(false)
  }
  return (
    <>
      <span role="status" className="quiet">
        {word}
      </span>
      <button type="button" disabled={isBusy} onClick={() => void run()}>
        Export
      </button>
    </>
  )
}

/** Matching audit entries, newest first. */
export function Audit() {
  const isAdmin = useHasScope('admin')
  useTitle('Audit')
  return isAdmin ? (
    <AuditLog />
  ) : (
    <div className="rows">
      <h1>Audit</h1>
      <p className="notice">The audit log needs a key of scope admin: it shows who acted, from which address.</p>
    </div>
  )
}

function AuditLog() {
  const { open, ...filter } = route.useSearch()
  const navigate = route.useNavigate()
  const chain = useQuery(chainQuery)
  const list = useInfiniteQuery({
    queryKey: ['audit', filter],
    queryFn: ({ pageParam, signal }) =>
      call('listAudit', {
        query: { ...filter, order: 'newest', limit: pageRows, ...(pageParam ? { before: pageParam } : {}) },
        signal,
      }),
    initialPageParam: null as string | null,
    getNextPageParam: ({ next }) => next,
    staleTime: Number.POSITIVE_INFINITY,
  })
  const entries = list.data?.pages.flatMap((page) => page.entries) ?? []
  const [at, setAt] = useState(0)
  const scroller = useRef<HTMLDivElement>(null)
  const search = useRef<HTMLInputElement>(null)
  /**
   * End of the log when the list was read. Newer entries are behind a button, so that rows do not move by themselves.
   */
  const [readTo, setReadTo] = useState<number>()
  const length = chain.data?.length
  useEffect(() => {
    if (readTo === undefined && length !== undefined) setReadTo(length)
  }, [readTo, length])
  const since = length === undefined || readTo === undefined ? 0 : Math.max(0, length - readTo)

  const openEntry = (seq: number | undefined) =>
    void navigate({ search: (before) => ({ ...before, open: seq }), replace: true })
  const lines = useVirtualizer({
    count: entries.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => (matchMedia('(max-width: 720px)').matches ? 62 : 30),
    overscan: 20,
    getItemKey: (index) => entries[index]?.seq ?? index,
  })
  useEffect(() => {
    if (at > 0) lines.scrollToIndex(at)
  }, [at, lines])
  useKeys({
    '/': () => search.current?.focus(),
    j: () => setAt(Math.min(Math.max(0, entries.length - 1), at + 1)),
    k: () => setAt(Math.max(0, at - 1)),
    Enter: () => openEntry(entries[at]?.seq),
  })
  return (
    <div className="rows audit">
      <h1>Audit</h1>
      <ChainPanel
        onShow={(seq) => {
          // The list may contain the entry from before it was tampered with.
          void list.refetch()
          openEntry(seq)
        }}
      />
      <AuditFilter
        key={JSON.stringify(filter)}
        filter={filter}
        actions={[...new Set(entries.map(({ action }) => action))].sort()}
        search={search}
        onChange={(next) => {
          setAt(0)
          void navigate({ search: (before) => ({ ...next, open: before.open }), replace: true })
        }}
      />
      {list.error && (
        <p role="alert" className="fault">
          {sentenceOf(list.error)}
        </p>
      )}
      <section className="panel" aria-label="Audit entries, newest first">
        <header>
          <span role="status" className="quiet">
            {entries.length.toLocaleString('en')} shown{list.hasNextPage ? ', older ones at the end' : ''}
          </span>
          {since > 0 && (
            <button
              type="button"
              onClick={() => {
                setReadTo(length)
                setAt(0)
                void list.refetch()
              }}
            >
              {since.toLocaleString('en')} newer on record: read again
            </button>
          )}
          <span className="end">
            <ExportButton filter={filter} />
          </span>
        </header>
        <div ref={scroller} className="tail" tabIndex={0} role="group" aria-label="List of audit entries">
          <ul style={{ height: lines.getTotalSize() }}>
            {lines.getVirtualItems().map(({ index, key, start, size }) => {
              const entry = entries[index]
              return (
                entry && (
                  <li key={key} style={{ transform: `translateY(${start}px)`, height: size }}>
                    <button
                      type="button"
                      className={`audit-line ${index === at ? 'at' : ''}`}
                      onClick={() => {
                        setAt(index)
                        openEntry(entry.seq)
                      }}
                    >
                      <EntryLine entry={entry} />
                    </button>
                  </li>
                )
              )
            })}
          </ul>
          {list.data && entries.length === 0 && <p className="empty">No audit entry matches.</p>}
          {list.hasNextPage && (
            <p className="empty">
              <button type="button" disabled={list.isFetchingNextPage} onClick={() => void list.fetchNextPage()}>
                {list.isFetchingNextPage ? 'Loading…' : 'Load older entries'}
              </button>
            </p>
          )}
        </div>
      </section>
      {open !== undefined && (
        <EntryDrawer seq={open} entries={entries} onOpen={openEntry} onClose={() => openEntry(undefined)} />
      )}
    </div>
  )
}
