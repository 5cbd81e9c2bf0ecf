import { getRouteApi, Link } from '@tanstack/react-router'
import { counted } from '@wardline/text/counted'
import { SeverityChart } from '../parts/severity-chart.tsx'
import type { TimeRange } from '../parts/time-range.tsx'
import { sentenceOf } from '../service/client.ts'
import { countsOf } from '../service/fleet-counts.ts'
import { useTitle } from '../shell/title.ts'
import { AttentionQueue } from './attention-queue.tsx'
import { FirstAgent } from './first-agent.tsx'
import { FleetStrip } from './fleet-strip.tsx'
import { LiveEvents } from './live-events.tsx'
import './overview.css'
import { Tiles } from './tiles.tsx'
import { ToolChart } from './tool-chart.tsx'
import { useVerdict } from './use-verdict.ts'

const route = getRouteApi('/inside/')

/** Both charts share a time range, which is in the address. */
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
  const { agents, stats, items, verdict, isComplete, isStale, fault, checkedAt, troubled } = useVerdict()
  useTitle(verdict)
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
          <Tiles fleet={isComplete ? agents : undefined} stats={stats} />
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
