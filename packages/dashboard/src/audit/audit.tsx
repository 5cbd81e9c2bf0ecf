import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import type { AuditQuery } from '@wardline/contract'
import { type CSSProperties, useEffect, useRef, useState } from 'react'
import { useChange } from '../data/change.ts'
import { call } from '../data/client.ts'
import { queryKeys } from '../data/query-keys.ts'
import { useHasScope } from '../data/session.ts'
import { Button } from '../ui/button.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { lazyDialog } from '../ui/lazy-dialog.tsx'
import { EmptyState, Fault, Notice, Panel, Screen } from '../ui/panel.tsx'
import { useRows } from '../ui/rows.ts'
import { useKeys } from '../ui/shortcuts.ts'
import { Time } from '../ui/time.tsx'
import { VirtualRows } from '../ui/virtual-rows.tsx'
import css from './audit.module.css'
import { AuditFilter } from './audit-filter.tsx'
import { ChainPanel, chainQuery } from './chain-panel.tsx'
import { actorOf, type Entry, exportAudit } from './entries.ts'

const EntryDrawer = lazyDialog(async () => (await import('./entry-drawer.tsx')).EntryDrawer)
const route = getRouteApi('/inside/audit')
const pageRows = '200'

interface EntryLineProps {
  entry: Entry
  isAt: boolean
  style: CSSProperties
  onClick(): void
}

function EntryLine({ entry, isAt, style, onClick }: EntryLineProps) {
  return (
    <div role="listitem" style={style}>
      <Link
        from="/audit"
        to="/audit"
        search={(before) => ({ ...before, open: entry.seq })}
        replace
        resetScroll={false}
        activeProps={{}}
        className={`row ${css.line} ${isAt ? 'at' : ''}`}
        aria-current={isAt || undefined}
        onClick={onClick}
      >
        <Time at={entry.at} />
        <span className={`quiet ${css.seq} mono`}>{entry.seq.toLocaleString('en')}</span>
        <HostileText text={actorOf(entry)} line />
        <HostileText text={entry.action} line className="mono" />
        <HostileText text={entry.target ?? ''} line />
        <HostileText text={entry.reason ?? ''} line />
      </Link>
    </div>
  )
}

function ExportButton({ filter }: { filter: AuditQuery }) {
  const [count, setCount] = useState(0)
  const { isBusy, fault, run } = useChange({ changes: [] })
  return (
    <>
      <Fault of={fault} />
      {isBusy && <span className="quiet">{count.toLocaleString('en')} loaded…</span>}
      <Button disabled={isBusy} onClick={() => void run(() => exportAudit(filter, setCount))}>
        Export
      </Button>
    </>
  )
}

/** The entries that match, newest first, and how many are newer than the list. */
function useEntries(filter: AuditQuery) {
  const { data, error, hasNextPage, isFetchingNextPage, fetchNextPage, refetch } = useInfiniteQuery({
    queryKey: queryKeys.audit(filter),
    queryFn: ({ pageParam, signal }) =>
      call('listAudit', {
        query: { ...filter, order: 'newest', limit: pageRows, ...(pageParam ? { before: pageParam } : {}) },
        signal,
      }),
    initialPageParam: null as string | null,
    getNextPageParam: ({ next }) => next,
    staleTime: Number.POSITIVE_INFINITY,
  })
  const length = useQuery(chainQuery).data?.length
  /** End of the log when the list was read. Newer entries are behind a button, so that rows do not move by themselves. */
  const [readTo, setReadTo] = useState<number>()
  useEffect(() => {
    if (readTo === undefined && length !== undefined) setReadTo(length)
  }, [readTo, length])
  return {
    entries: data?.pages.flatMap((page) => page.entries) ?? [],
    isEmpty: data?.pages[0]?.entries.length === 0,
    error,
    newer: length === undefined || readTo === undefined ? 0 : Math.max(0, length - readTo),
    hasOlder: hasNextPage,
    isLoadingOlder: isFetchingNextPage,
    loadOlder: () => void fetchNextPage(),
    reload: () => {
      setReadTo(length)
      void refetch()
    },
  }
}

const rowHeight = () => (matchMedia('(max-width: 720px)').matches ? 62 : 30)

interface EntryListProps {
  list: ReturnType<typeof useEntries>
  filter: AuditQuery
  at: number
  onMove(at: number): void
}

function EntryList({ list, filter, at, onMove }: EntryListProps) {
  const { entries, newer, hasOlder, isLoadingOlder } = list
  const scroller = useRef<HTMLDivElement>(null)
  const showNewer = () => {
    onMove(0)
    list.reload()
  }
  return (
    <Panel
      label="Audit entries, newest first"
      header={
        <>
          <span role="status" className="quiet">
            {entries.length.toLocaleString('en')} shown{hasOlder ? ', older ones below' : ''}
          </span>
          {newer > 0 && <Button onClick={showNewer}>Show {newer.toLocaleString('en')} newer</Button>}
        </>
      }
      end={<ExportButton filter={filter} />}
    >
      <div ref={scroller} className={css.scroller} tabIndex={0} role="group" aria-label="List of audit entries">
        <VirtualRows
          role="list"
          scroller={scroller}
          count={entries.length}
          heightOf={rowHeight}
          keyOf={(index) => entries[index]?.seq ?? index}
          at={at}
          row={(index, style) => {
            const entry = entries[index]
            return (
              entry && (
                <EntryLine
                  key={entry.seq}
                  entry={entry}
                  isAt={index === at}
                  style={style}
                  onClick={() => onMove(index)}
                />
              )
            )
          }}
        />
        {list.isEmpty && <EmptyState>No matching entries.</EmptyState>}
        {hasOlder && (
          <EmptyState>
            <Button disabled={isLoadingOlder} onClick={list.loadOlder}>
              {isLoadingOlder ? 'Loading…' : 'Load older entries'}
            </Button>
          </EmptyState>
        )}
      </div>
    </Panel>
  )
}

function AuditLog() {
  const { open, ...filter } = route.useSearch()
  const navigate = route.useNavigate()
  const list = useEntries(filter)
  const { entries } = list
  const search = useRef<HTMLInputElement>(null)
  const openEntry = (seq: number | undefined) =>
    void navigate({ search: (before) => ({ ...before, open: seq }), replace: true, resetScroll: false })
  const { at, setAt } = useRows(entries, { Enter: ({ seq }) => openEntry(seq) })
  useKeys({ '/': () => search.current?.focus() })
  return (
    <Screen title="Audit">
      <ChainPanel
        onShow={(seq) => {
          // The list may contain the entry from before it was tampered with.
          list.reload()
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
      <Fault of={list.error} />
      <EntryList list={list} filter={filter} at={at} onMove={setAt} />
      {open !== undefined && (
        <EntryDrawer seq={open} entries={entries} onOpen={openEntry} onClose={() => openEntry(undefined)} />
      )}
    </Screen>
  )
}

/** Matching audit entries, newest first. */
export function Audit() {
  const isAdmin = useHasScope('admin')
  if (isAdmin) return <AuditLog />
  return (
    <Screen title="Audit">
      <Notice>The audit log requires a key with scope admin: it shows who acted and from which address.</Notice>
    </Screen>
  )
}
