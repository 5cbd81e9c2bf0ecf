import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { useMemo, useState } from 'react'
import { TagDialog } from '../fleet/tag-dialog.tsx'
import { CountTable } from '../parts/count-table.tsx'
import { EventLine } from '../parts/event-rows.tsx'
import { HostileText } from '../parts/hostile-text.tsx'
import '../parts/list.css'
import { StatusMark } from '../parts/marks.tsx'
import { hourMs, spanText } from '../parts/span.ts'
import { Tags } from '../parts/tags.tsx'
import { Time, useNow } from '../parts/time.tsx'
import { plainText } from '../parts/unseen-characters.ts'
import { call, sentenceOf } from '../service/client.ts'
import { eventsQuery } from '../service/event-tail.ts'
import { type Agent, type AgentDetail, agentQuery, refreshMs } from '../service/fleet.ts'
import { shownStatus } from '../service/fleet-counts.ts'
import type { EventPages, Row } from '../service/live-tail.ts'
import { useMayOperate } from '../service/session.ts'
import { useTitle } from '../shell/title.ts'
import { ControlButton } from '../suspend/control-button.tsx'
import './agent.css'
import { Baselines } from './baselines.tsx'
import { Anomalies, Sessions } from './behaviour.tsx'
import { DrillRow } from './drill.tsx'
import { anomalyMetric, metricsOf } from './reports.ts'
import { Suspensions } from './suspensions.tsx'
import { Timeline } from './timeline.tsx'

const route = getRouteApi('/inside/fleet/$id')
const ranges = [1, 6, 24] as const

const changesQuery = (id: string) => ({
  queryKey: ['agent', id, 'changes'],
  queryFn: async () => (await call('listControlChanges', { query: { instance_id: id, limit: '100' } })).changes,
})
const decoysQuery = (id: string) => ({
  queryKey: ['agent', id, 'decoys'],
  queryFn: async () => (await call('listHoneypots', { query: { instance_id: id, include: 'details' } })).honeypots,
  refetchInterval: 6 * refreshMs,
})

function Said({ detail, now }: { detail: AgentDetail; now: number }) {
  const { name, version, agent_type, fail_mode, last_heartbeat, control } = detail
  return (
    <p className="quiet lead">
      <HostileText text={name} max={80} />
      {version !== null && (
        <>
          {' · version '}
          <HostileText text={version} max={60} />
        </>
      )}
      {agent_type !== null && (
        <>
          {' · '}
          <HostileText text={agent_type} max={60} />
        </>
      )}
      {' · '}
      {fail_mode === null ? 'did not say whether it fails open or closed' : `fails ${fail_mode}`}
      {` · last heartbeat ${spanText(now - Date.parse(last_heartbeat))} ago`}
      {control.applied_version === null ? ' · never confirmed a control message' : ' · listens to control messages'}
      {control.mismatch && (
        <span className="critical"> · claims control version {control.claimed_version}, which was never issued</span>
      )}
    </p>
  )
}

function Decoys({ id }: { id: string }) {
  const { data, error } = useQuery(decoysQuery(id))
  return (
    <section className="panel list-panel" aria-labelledby="decoys">
      <header>
        <h2 id="decoys">Decoys here</h2>
        <span className="end">
          <Link to="/events" search={{ instance_id: id, event_type: 'honeypot_triggered' }} className="quiet">
            Open hits in events
          </Link>
        </span>
      </header>
      {error && <p className="empty fault">{sentenceOf(error)}</p>}
      {data?.length === 0 && (
        <p className="empty">
          None.{' '}
          <Link to="/decoys" search={{ plant: 'new', agent: id }}>
            Plant one
          </Link>
        </p>
      )}
      {data && data.length > 0 && (
        <table className="list">
          <thead>
            <tr>
              <th>label</th>
              <th>kind</th>
              <th>hits</th>
              <th className="only-wide">last hit</th>
              <th className="only-wide">planted</th>
            </tr>
          </thead>
          <tbody>
            {data.map((decoy) => (
              <tr key={decoy.id}>
                <td>
                  <Link to="/decoys" search={{ open: decoy.id }}>
                    <HostileText text={decoy.details?.label || (decoy.details?.path ?? 'no label')} max={80} />
                  </Link>
                </td>
                <td>{decoy.keyType ?? 'path'}</td>
                <td className={decoy.details?.hitCount ? 'breach' : ''}>{decoy.details?.hitCount ?? 0}</td>
                <td className="only-wide">
                  {decoy.details?.lastHitAt ? <Time at={decoy.details.lastHitAt} /> : 'never'}
                </td>
                <td className="only-wide">
                  <Time at={decoy.createdAt} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  )
}

const historyQuery = (id: string) => ({
  queryKey: ['agent', id, 'history'],
  queryFn: () => call('getInstanceHistory', { params: { instanceId: id } }),
  // The service stores counts once a minute.
  refetchInterval: 60_000,
})

/** An agent's tags, with a button to change those set by operators. */
function TagRow({ agent }: { agent: Agent }) {
  const mayOperate = useMayOperate()
  const [isOpen, setOpen] = useState(false)
  return (
    <p className="tag-row">
      <Tags tags={agent.tags} />
      {mayOperate && (
        <button type="button" className="plain" onClick={() => setOpen(true)}>
          {agent.tags.length === 0 ? 'Add tags…' : 'Edit tags…'}
        </button>
      )}
      {isOpen && <TagDialog agents={[agent]} onClose={() => setOpen(false)} />}
    </p>
  )
}

const rowsOf = (pages: { pages: EventPages['pages'] } | undefined): Row[] =>
  pages?.pages.flatMap((page) => page.events) ?? []
const anomalyNames = (rows: readonly Row[]) => rows.flatMap((row) => anomalyMetric(row) ?? [])

export function AgentPage() {
  const { id } = route.useParams()
  const { hours = 1, metric } = route.useSearch()
  const navigate = route.useNavigate()
  const [isTable, setTable] = useState(false)
  const now = useNow()
  const { data: detail, error } = useQuery(agentQuery(id))
  const { data: changes = [] } = useQuery(changesQuery(id))
  const events = useInfiniteQuery(eventsQuery({ instance_id: id }))
  const { data: history } = useQuery(historyQuery(id))
  const reports = useInfiniteQuery(eventsQuery({ instance_id: id, event_type: 'session_metrics' }))
  const anomalies = useInfiniteQuery(eventsQuery({ instance_id: id, event_type: 'anomaly_detected' }))
  const rows = useMemo(() => rowsOf(events.data), [events.data])
  const unusual = useMemo(() => rowsOf(anomalies.data), [anomalies.data])
  const metrics = useMemo(() => metricsOf(rowsOf(reports.data)), [reports.data])
  useTitle(detail ? `${id} ${detail.status}` : id)
  if (error && !detail) {
    return (
      <div className="rows">
        <h1>{id}</h1>
        <p role="alert">{sentenceOf(error)}</p>
        <p>
          <Link to="/fleet">Open the fleet</Link>
        </p>
      </div>
    )
  }
  if (!detail) return <h1>{id}</h1>
  const agent: Agent = { ...detail, secondsAgo: Math.floor((now - Date.parse(detail.last_heartbeat)) / 1_000) }
  const from = now - hours * hourMs
  const oldest = rows.at(-1)
  const isCovered = !events.hasNextPage || (oldest !== undefined && Date.parse(oldest.created_at) <= from)
  // Shows the metric with the latest anomaly by default.
  const metricName = metric ?? anomalyNames(unusual).find((name) => metrics.has(name)) ?? [...metrics.keys()][0]
  const points = metricName === undefined ? undefined : metrics.get(metricName)
  return (
    <div className="rows">
      <div>
        <div className="agent-head">
          <h1>{id}</h1>
          <StatusMark status={shownStatus(detail)} />
          <span className="end">
            <ControlButton agent={agent} isKeyed />
          </span>
        </div>
        <Said detail={detail} now={now} />
        <TagRow agent={agent} />
        <DrillRow detail={detail} />
      </div>
      <Suspensions detail={detail} />
      <section className="panel" aria-labelledby="timeline">
        <header>
          <h2 id="timeline">Timeline</h2>
          <span className="quiet">
            {isCovered ? '' : 'The loaded events do not reach back so far: load older ones below.'}
          </span>
          <span className="end chips">
            {metrics.size > 0 && (
              <label>
                <span className="only-read">Metric</span>
                <select
                  value={metricName}
                  onChange={({ target }) =>
                    void navigate({ search: (before) => ({ ...before, metric: target.value }), replace: true })
                  }
                >
                  {[...metrics.keys()].map((name) => (
                    <option key={name} value={name}>
                      {plainText(name)}
                    </option>
                  ))}
                </select>
              </label>
            )}
            {ranges.map((range) => (
              <button
                key={range}
                type="button"
                className="chip"
                aria-pressed={range === hours}
                onClick={() => void navigate({ search: (before) => ({ ...before, hours: range }), replace: true })}
              >
                {range} h
              </button>
            ))}
            <button type="button" aria-pressed={isTable} onClick={() => setTable(!isTable)}>
              {isTable ? 'Hide table' : 'Table'}
            </button>
          </span>
        </header>
        {isTable && history && (
          <CountTable
            label="Heartbeats, events and tool calls"
            columns={[
              { name: 'heartbeats', counts: history.heartbeats },
              { name: 'due', counts: history.expected },
              { name: 'events', counts: history.events },
              { name: 'tool calls', counts: history.tool_calls },
            ]}
            from={Date.parse(history.from)}
            bucketMs={history.bucket_seconds * 1_000}
          />
        )}
        <Timeline
          rows={rows}
          history={history}
          metric={metricName !== undefined && points ? { name: metricName, points } : undefined}
          changes={changes.toReversed()}
          isSuspended={detail.status === 'suspended'}
          from={from}
          to={now}
        />
      </section>
      <Baselines id={id} />
      <div className="halves">
        <Anomalies rows={unusual} id={id} />
        <Decoys id={id} />
      </div>
      <Sessions rows={rows} />
      <section className="panel" aria-labelledby="happened">
        <header>
          <h2 id="happened">What happened</h2>
          <span className="quiet">newest first</span>
          <span className="end">
            <Link to="/incidents" search={{ agent: id }} className="quiet">
              Export as a bundle
            </Link>{' '}
            <Link to="/events" search={{ instance_id: id }} className="quiet">
              Open in events
            </Link>
          </span>
        </header>
        {events.data && rows.length === 0 && <p className="empty">No event of this agent is stored.</p>}
        <ul>
          {rows.slice(0, 100).map((row) => (
            <li key={row.id}>
              <Link
                to="/events"
                search={{ instance_id: id, open: row.seq ?? undefined }}
                className="event-line no-agent"
              >
                <EventLine row={row} hasAgent={false} />
              </Link>
            </li>
          ))}
        </ul>
        {rows.length > 100 && (
          <p className="empty">
            The newest 100 of {rows.length.toLocaleString('en')} loaded events; the others are in events.
          </p>
        )}
        {events.hasNextPage && !isCovered && (
          <p className="empty">
            <button type="button" disabled={events.isFetchingNextPage} onClick={() => void events.fetchNextPage()}>
              Load older events
            </button>
          </p>
        )}
      </section>
    </div>
  )
}
