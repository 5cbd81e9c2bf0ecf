import { getRouteApi, Link } from '@tanstack/react-router'
import type { SeverityCounts } from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import type { Agent } from '../data/fleet.ts'
import { countsOf } from '../data/fleet-counts.ts'
import { SeverityChart } from '../parts/severity-chart.tsx'
import type { TimeRange } from '../parts/time-range.tsx'
import { buttonClass } from '../ui/button.tsx'
import { Fault, Panel, Screen } from '../ui/panel.tsx'
import { AttentionQueue } from './attention-queue.tsx'
import { FleetStrip } from './fleet-strip.tsx'
import { LiveEvents } from './live-events.tsx'
import css from './overview.module.css'
import { ToolChart } from './tool-chart.tsx'
import { useVerdict } from './use-verdict.ts'

const route = getRouteApi('/inside/')

/** Next steps while no agent is registered. */
function FirstAgent() {
  return (
    <Panel title="Connect the first agent" note="it appears here within five seconds">
      <div className={css.steps}>
        <p>Create a key and copy the lines for TypeScript, Python, Claude Code, Codex, Cursor, MCP or curl:</p>
        <p className="chips">
          <Link to="/connect" className={buttonClass('go')}>
            Connect an agent <kbd>g c</kbd>
          </Link>
          <Link to="/connect" search={{ simulate: true }} className={buttonClass()}>
            Simulate an attack…
          </Link>
        </p>
        <p>
          Demo fleet in a separate data folder: <code>wardline serve --demo</code>
        </p>
      </div>
    </Panel>
  )
}

const number = (value: number | undefined) => (value === undefined ? '…' : value.toLocaleString('en'))

interface TilesProps {
  counts: ReturnType<typeof countsOf> | undefined
  stats: SeverityCounts | undefined
}

/** Counts, each linked to the list that it counts. */
function Tiles({ counts, stats }: TilesProps) {
  return (
    <nav className={css.tiles} aria-label="Counts">
      {(['active', 'offline', 'suspended'] as const).map((status) => (
        <Link key={status} to="/fleet" search={{ status }}>
          <b className={counts?.[status] ? status : ''}>{number(counts?.[status])}</b>{' '}
          <span className="quiet">{status}</span>
          {status === 'suspended' && counts !== undefined && counts.unconfirmed > 0 && (
            <span className="critical">, {number(counts.unconfirmed)} not confirmed</span>
          )}
        </Link>
      ))}
      {(['breach', 'critical', 'warning'] as const).map((severity) => (
        <Link key={severity} to="/events" search={{ severity, last: '24h' }}>
          <b className={stats?.[severity] ? severity : ''}>{number(stats?.[severity])}</b>{' '}
          <span className="quiet">{severity}, 24 h</span>
        </Link>
      ))}
    </nav>
  )
}

/** Both charts share a time range, which is in the address. */
function Charts() {
  const { from, to } = route.useSearch()
  const navigate = route.useNavigate()
  const range = { ...(from ? { from } : {}), ...(to ? { to } : {}) }
  const zoom = (next: TimeRange) => void navigate({ search: { from: next.from, to: next.to }, resetScroll: false })
  return (
    <div className="stack">
      <SeverityChart
        range={range}
        onZoom={zoom}
        actions={
          from !== undefined && (
            <Link to="/events" search={range} className={buttonClass()}>
              Open these events
            </Link>
          )
        }
      />
      <ToolChart range={range} onZoom={zoom} />
    </div>
  )
}

interface FleetPanelProps {
  agents: readonly Agent[]
  troubled: ReadonlyMap<string, 'breach' | 'critical'>
}

function FleetPanel({ agents, troubled }: FleetPanelProps) {
  return (
    <Panel
      title="Fleet"
      note="one mark per agent, ordered by id"
      end={
        <Link to="/fleet" className="quiet">
          Open fleet <kbd>g f</kbd>
        </Link>
      }
    >
      <FleetStrip fleet={agents} troubled={troubled} />
    </Panel>
  )
}

export function Overview() {
  const { agents, stats, items, verdict, isComplete, isStale, fault, checkedAt, troubled } = useVerdict()
  const counts = isComplete ? countsOf(agents) : undefined
  const need =
    items.length === 0 ? '' : `, ${counted(items.length, 'item')} need${items.length === 1 ? 's' : ''} attention`
  return (
    <Screen
      title={verdict}
      heading={<span aria-live="polite">{verdict}</span>}
      lead={
        <>
          {isStale && 'Data may be outdated. '}
          {counts && counts.all > 0 && `${number(counts.active)} of ${counted(counts.all, 'agent')} active${need}.`}
        </>
      }
    >
      <Fault of={fault} />
      {counts?.all === 0 ? (
        <FirstAgent />
      ) : (
        <div className={`stack ${isStale ? css.stale : ''}`}>
          <Tiles counts={counts} stats={stats} />
          <FleetPanel agents={agents} troubled={troubled} />
          <div className={css.pair}>
            <Panel title="Needs attention" note={items.length > 0 && `${items.length} open`}>
              {isComplete && <AttentionQueue items={items} agents={agents} checkedAt={checkedAt} />}
            </Panel>
            <Charts />
          </div>
          <LiveEvents />
        </div>
      )}
    </Screen>
  )
}
