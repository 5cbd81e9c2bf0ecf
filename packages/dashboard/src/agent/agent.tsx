import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { type ReactNode, useMemo, useState } from 'react'
import { call } from '../data/client.ts'
import { eventsQuery } from '../data/event-tail.ts'
import { type Agent, type AgentDetail, agentQuery, refreshMs } from '../data/fleet.ts'
import { shownStatus } from '../data/fleet-counts.ts'
import type { EventPages, Row } from '../data/live-tail.ts'
import { queryKeys } from '../data/query-keys.ts'
import { useMayOperate } from '../data/session.ts'
import { EventLine } from '../parts/event-rows.tsx'
import { StatusMark } from '../parts/marks.tsx'
import { Tags } from '../parts/tags.tsx'
import { ControlButton } from '../suspend/control-button.tsx'
import { Button } from '../ui/button.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { lazyDialog } from '../ui/lazy-dialog.tsx'
import { EmptyState, Fault, Panel, Screen } from '../ui/panel.tsx'
import { hourMs, spanText } from '../ui/span.ts'
import { type Column, DataTable } from '../ui/table.tsx'
import { Time, useNow } from '../ui/time.tsx'
import css from './agent.module.css'
import { Baselines } from './baselines.tsx'
import { Anomalies, Sessions } from './behaviour.tsx'
import { DrillRow } from './drill.tsx'
import { anomalyMetric, metricsOf } from './reports.ts'
import { Suspensions } from './suspensions.tsx'
import { TimelinePanel } from './timeline.tsx'

const TagDialog = lazyDialog(async () => (await import('../fleet/tag-dialog.tsx')).TagDialog)

const route = getRouteApi('/inside/fleet/$id')

const changesQuery = (id: string) => ({
  queryKey: queryKeys.changes(id),
  queryFn: async () => (await call('listControlChanges', { query: { instance_id: id, limit: '100' } })).changes,
})
const decoysQuery = (id: string) => ({
  queryKey: queryKeys.agentDecoys(id),
  queryFn: async () => (await call('listHoneypots', { query: { instance_id: id, include: 'details' } })).honeypots,
  refetchInterval: 6 * refreshMs,
})
const historyQuery = (id: string) => ({
  queryKey: queryKeys.history(id),
  queryFn: () => call('getInstanceHistory', { params: { instanceId: id } }),
  // The service stores counts once a minute.
  refetchInterval: 60_000,
})

const rowsOf = (pages: { pages: EventPages['pages'] } | undefined): Row[] =>
  pages?.pages.flatMap((page) => page.events) ?? []

/** What the page of an agent shows. */
function useAgentPage(id: string) {
  const { data: detail, error } = useQuery(agentQuery(id))
  const { data: changes = [] } = useQuery(changesQuery(id))
  const { data: history } = useQuery(historyQuery(id))
  const events = useInfiniteQuery(eventsQuery({ instance_id: id }))
  const reports = useInfiniteQuery(eventsQuery({ instance_id: id, event_type: 'session_metrics' }))
  const anomalies = useInfiniteQuery(eventsQuery({ instance_id: id, event_type: 'anomaly_detected' }))
  return {
    detail,
    error,
    changes,
    history,
    events,
    rows: useMemo(() => rowsOf(events.data), [events.data]),
    unusual: useMemo(() => rowsOf(anomalies.data), [anomalies.data]),
    metrics: useMemo(() => metricsOf(rowsOf(reports.data)), [reports.data]),
  }
}

/** What the agent reports about itself. */
function Reported({ detail, now }: { detail: AgentDetail; now: number }) {
  const { name, version, agent_type, fail_mode, last_heartbeat, control } = detail
  const facts: ReactNode[] = [
    <HostileText key="name" text={name} max={80} />,
    version !== null && (
      <>
        version <HostileText text={version} max={60} />
      </>
    ),
    agent_type !== null && <HostileText text={agent_type} max={60} />,
    fail_mode === null ? 'fail mode unknown' : `fails ${fail_mode}`,
    `last heartbeat ${spanText(now - Date.parse(last_heartbeat))} ago`,
    control.applied_version === null ? 'never confirmed a control message' : 'confirms control messages',
    control.mismatch && (
      <span className="critical">reports control version {control.claimed_version}, which was never issued</span>
    ),
  ]
  return facts.filter(Boolean).map((fact, index) => (
    <span key={index}>
      {index > 0 && ' · '}
      {fact}
    </span>
  ))
}

/** An agent's tags, with a button to change those set by operators. */
function TagRow({ agent }: { agent: Agent }) {
  const mayOperate = useMayOperate()
  const [isOpen, setOpen] = useState(false)
  return (
    <div className={css.row}>
      <Tags tags={agent.tags} />
      {mayOperate && (
        <Button kind="plain" onClick={() => setOpen(true)}>
          {agent.tags.length === 0 ? 'Add tags…' : 'Edit tags…'}
        </Button>
      )}
      {isOpen && <TagDialog agents={[agent]} onClose={() => setOpen(false)} />}
    </div>
  )
}

type Decoy = Awaited<ReturnType<ReturnType<typeof decoysQuery>['queryFn']>>[number]
const decoyColumns: Column<Decoy>[] = [
  {
    name: 'label',
    cell: ({ id, details }) => (
      <Link to="/decoys" search={{ open: id }}>
        <HostileText text={details?.label || (details?.path ?? 'no label')} max={80} />
      </Link>
    ),
  },
  { name: 'kind', cell: ({ keyType }) => keyType ?? 'path' },
  {
    name: 'hits',
    cell: ({ details }) => <span className={details?.hitCount ? 'breach' : ''}>{details?.hitCount ?? 0}</span>,
  },
  {
    name: 'last hit',
    cell: ({ details }) => (details?.lastHitAt ? <Time at={details.lastHitAt} /> : 'never'),
    isWide: true,
  },
  { name: 'planted', cell: ({ createdAt }) => <Time at={createdAt} />, isWide: true },
]

function Decoys({ id }: { id: string }) {
  const { data, error } = useQuery(decoysQuery(id))
  return (
    <div>
      <Fault of={error} />
      <DataTable
        title="Decoys"
        label="Decoys"
        end={
          <Link to="/events" search={{ instance_id: id, event_type: 'honeypot_triggered' }} className="quiet">
            Open hits in events
          </Link>
        }
        columns={decoyColumns}
        rows={data ?? []}
        rowKey={(decoy) => decoy.id}
        isStacked={false}
        empty={
          data ? (
            <>
              No decoys.{' '}
              <Link to="/decoys" search={{ plant: 'new', agent: id }}>
                Plant one
              </Link>
            </>
          ) : (
            'Loading…'
          )
        }
      />
    </div>
  )
}

const maxEvents = 100

interface EventsProps {
  id: string
  rows: readonly Row[]
  isLoaded: boolean
  /** Undefined if all events of the range are loaded. */
  onMore: (() => void) | undefined
  isLoadingMore: boolean
}

function Events({ id, rows, isLoaded, onMore, isLoadingMore }: EventsProps) {
  return (
    <Panel
      title="Events"
      note="newest first"
      end={
        <>
          <Link to="/incidents" search={{ agent: id }} className="quiet">
            Export evidence bundle
          </Link>
          <Link to="/events" search={{ instance_id: id }} className="quiet">
            Open in events
          </Link>
        </>
      }
    >
      {isLoaded && rows.length === 0 && <EmptyState>No events of this agent.</EmptyState>}
      <ul>
        {rows.slice(0, maxEvents).map((row) => (
          <li key={row.id}>
            <Link to="/events" search={{ instance_id: id, open: row.seq ?? undefined }} className="event-line no-agent">
              <EventLine row={row} hasAgent={false} />
            </Link>
          </li>
        ))}
      </ul>
      {rows.length > maxEvents && (
        <EmptyState>
          Newest {maxEvents} of {rows.length.toLocaleString('en')} loaded events. Open in events to see all.
        </EmptyState>
      )}
      {onMore && (
        <EmptyState
          action={
            <Button disabled={isLoadingMore} onClick={onMore}>
              Load older events
            </Button>
          }
        >
          Older events of this range are not loaded yet.
        </EmptyState>
      )}
    </Panel>
  )
}

export function AgentPage() {
  const { id } = route.useParams()
  const { hours = 1, metric } = route.useSearch()
  const navigate = route.useNavigate()
  const now = useNow()
  const { detail, error, changes, history, events, rows, unusual, metrics } = useAgentPage(id)
  if (!detail) {
    return (
      <Screen title={id}>
        {error && (
          <>
            <Fault of={error} />
            <p>
              <Link to="/fleet">Open the fleet</Link>
            </p>
          </>
        )}
      </Screen>
    )
  }
  const agent: Agent = { ...detail, secondsAgo: Math.floor((now - Date.parse(detail.last_heartbeat)) / 1_000) }
  const from = now - hours * hourMs
  const oldest = rows.at(-1)
  const isCovered = !events.hasNextPage || (oldest !== undefined && Date.parse(oldest.created_at) <= from)
  // Shows the metric with the latest anomaly by default.
  const latest = unusual.map(anomalyMetric).find((name) => name !== undefined && metrics.has(name))
  return (
    <Screen
      title={`${id} ${detail.status}`}
      heading={id}
      actions={
        <>
          <StatusMark status={shownStatus(detail)} />
          <ControlButton agent={agent} isKeyed />
        </>
      }
      lead={<Reported detail={detail} now={now} />}
    >
      <div>
        <TagRow agent={agent} />
        <DrillRow detail={detail} />
      </div>
      <Suspensions detail={detail} />
      <TimelinePanel
        rows={rows}
        history={history}
        metrics={metrics}
        metric={metric ?? latest ?? [...metrics.keys()][0]}
        changes={changes.toReversed()}
        isSuspended={detail.status === 'suspended'}
        isCovered={isCovered}
        hours={hours}
        to={now}
        onChange={(change) => void navigate({ search: (before) => ({ ...before, ...change }), replace: true })}
      />
      <Baselines id={id} />
      <div className={css.halves}>
        <Anomalies rows={unusual} id={id} />
        <Decoys id={id} />
      </div>
      <Sessions rows={rows} />
      <Events
        id={id}
        rows={rows}
        isLoaded={events.data !== undefined}
        isLoadingMore={events.isFetchingNextPage}
        onMore={isCovered ? undefined : () => void events.fetchNextPage()}
      />
    </Screen>
  )
}
