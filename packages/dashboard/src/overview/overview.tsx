import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { eventTypes } from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import { SeverityChart } from '../parts/severity-chart.tsx'
import { useNow } from '../parts/time.tsx'
import type { TimeRange } from '../parts/time-range.tsx'
import { call, sentenceOf } from '../service/client.ts'
import { eventsQuery } from '../service/event-tail.ts'
import { fleetQuery, statusQuery } from '../service/fleet.ts'
import { countsOf } from '../service/fleet-counts.ts'
import { useTitle } from '../shell/title.ts'
import { attentionOf } from './attention.ts'
import { AttentionQueue } from './attention-queue.tsx'
import { FirstAgent } from './first-agent.tsx'
import { FleetStrip } from './fleet-strip.tsx'
import { LiveEvents } from './live-events.tsx'
import './overview.css'
import { Tiles } from './tiles.tsx'
import { ToolChart } from './tool-chart.tsx'
import { staleAfterMs, verdictOf } from './verdict.ts'

/** The stream says when an alert may have been added; what colleagues did with one is seen so much later. */
const alertsRefreshMs = 15_000

/** Acknowledged and resolved alerts need no attention. Newest first, of the two severities of the queue. */
const alertsQuery = {
  queryKey: ['alerts', 'serious'],
  queryFn: async () =>
    (await call('listAlerts', { query: { min_severity: 'critical' as const, limit: '1000' } })).alerts,
  refetchInterval: alertsRefreshMs,
}

function useFacts() {
  const fleet = useQuery(fleetQuery)
  const status = useQuery(statusQuery)
  const breaches = useInfiniteQuery(eventsQuery({ severity: 'breach' }))
  const critical = useInfiniteQuery(eventsQuery({ severity: 'critical' }))
  const begun = useInfiniteQuery(eventsQuery({ event_type: eventTypes.anomalyDetected }))
  const ended = useInfiniteQuery(eventsQuery({ event_type: eventTypes.anomalyEnded }))
  const alerts = useQuery(alertsQuery)
  const rowsOf = (queries: (typeof breaches)[]) =>
    queries.flatMap(({ data }) => data?.pages.flatMap((page) => page.events) ?? [])
  const events = rowsOf([breaches, critical])
  const anomalies = rowsOf([begun, ended])
  const statuses = new Map(alerts.data?.map((alert) => [alert.id, alert.status] as const))
  const isComplete = [fleet, status, breaches, critical, begun, ended, alerts].every(({ data }) => data !== undefined)
  const fault = [fleet, status, breaches, critical, begun, ended, alerts].find(({ error }) => error)?.error
  return { fleet, status, events, anomalies, statuses, isComplete, fault }
}

const route = getRouteApi('/inside/')

/** Both by one axis, which stands in the address. */
function Charts() {
  const { from, to } = route.useSearch()
  const navigate = route.useNavigate()
  const range = { ...(from ? { from } : {}), ...(to ? { to } : {}) }
  const zoom = (next: TimeRange) => void navigate({ search: { from: next.from, to: next.to }, resetScroll: false })
  return (
    <div className="rows">
      <SeverityChart
        range={range}
        onZoom={zoom}
        actions={
          from !== undefined && (
            <Link to="/events" search={range} className="button">
              Open these events
            </Link>
          )
        }
      />
      <ToolChart range={range} onZoom={zoom} />
    </div>
  )
}

export function Overview() {
  const { fleet, status, events, anomalies, statuses, isComplete, fault } = useFacts()
  const now = useNow()
  const agents = fleet.data ?? []
  const checkedAt = fleet.dataUpdatedAt
  const ageMs = Math.max(0, now - checkedAt)
  const isStale = isComplete && ageMs > staleAfterMs
  const items = attentionOf({ fleet: agents, events, anomalies, alerts: statuses, now })
  const verdict = isComplete
    ? verdictOf({ fleet: agents, items, ageMs })
    : fault
      ? 'The service does not answer.'
      : 'Reading the fleet…'
  useTitle(verdict)

  const troubled = new Map(
    items
      .toReversed()
      .flatMap(({ kind, agentId }) =>
        agentId && (kind === 'breach' || kind === 'critical') ? [[agentId, kind] as const] : [],
      ),
  )
  const counts = countsOf(agents)
  return (
    <div className="rows">
      <div>
        <h1 aria-live="polite">{verdict}</h1>
        <p className="quiet lead">
          {isStale && 'What follows was true then. '}
          {fault && <span className="fault">{sentenceOf(fault)} </span>}
          {isComplete && agents.length > 0 && (
            <>
              {counts.active.toLocaleString('en')} of {counted(counts.all, 'agent')} active
              {items.length > 0 ? `; ${counted(items.length, 'thing')} need${items.length === 1 ? 's' : ''} you` : ''}.
            </>
          )}
        </p>
      </div>
      {isComplete && agents.length === 0 ? (
        <FirstAgent />
      ) : (
        <div className={`rows ${isStale ? 'stale' : ''}`}>
          <Tiles fleet={fleet.data} stats={status.data?.stats} />
          <section className="panel" aria-labelledby="strip">
            <header>
              <h2 id="strip">Fleet</h2>
              <span className="quiet">one mark per agent, in the order of ids</span>
              <span className="end">
                <Link to="/fleet" className="quiet">
                  Open fleet <kbd>g f</kbd>
                </Link>
              </span>
            </header>
            <FleetStrip fleet={agents} troubled={troubled} />
          </section>
          <div className="pair">
            <section className="panel" aria-labelledby="attention">
              <header>
                <h2 id="attention">Needs attention</h2>
                <span className="quiet">{items.length > 0 ? `${items.length} open` : ''}</span>
              </header>
              {isComplete && (
                <AttentionQueue
                  items={items}
                  agents={new Map(agents.map((agent) => [agent.id, agent]))}
                  checkedAt={checkedAt}
                />
              )}
            </section>
            <Charts />
          </div>
          <LiveEvents />
        </div>
      )}
    </div>
  )
}
