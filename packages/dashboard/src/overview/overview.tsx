import { keepPreviousData, queryOptions, useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { counted } from '@wardline/text/counted'
import { Waiting } from '../approvals/waiting.tsx'
import { call } from '../data/client.ts'
import { queryKeys } from '../data/query-keys.ts'
import { SeriesPanel } from '../parts/chart-panel.tsx'
import { SeverityChart } from '../parts/severity-chart.tsx'
import { RangeText, type TimeRange } from '../parts/time-range.tsx'
import { buttonClass } from '../ui/button.tsx'
import { EmptyState, Fault, Panel, Screen } from '../ui/panel.tsx'
import { AttentionQueue } from './attention-queue.tsx'
import { Figures } from './figures.tsx'
import { FleetStrip } from './fleet-strip.tsx'
import { LiveEvents } from './live-events.tsx'
import css from './overview.module.css'
import { useVerdict } from './use-verdict.ts'

const route = getRouteApi('/inside/')

/** Next steps while no agent is registered. */
function FirstAgent() {
  return (
    <Panel title="Connect the first agent" note="It appears here within five seconds.">
      <div className={`inner ${css.steps}`}>
        <p>
          Create a key and copy the lines for JavaScript, Python, Claude Code, Codex, Cursor, Gemini CLI, Copilot CLI,
          OpenCode, OpenClaw, MCP or curl:
        </p>
        <p className="chips">
          <Link to="/connect" className={buttonClass('go')}>
            Connect an agent <kbd>g c</kbd>
          </Link>
          <Link to="/connect" search={{ simulate: true }} className={buttonClass()}>
            Simulate an attack…
          </Link>
        </p>
        <p>
          To start a demo fleet in a separate data folder, run: <code>wardline serve --demo</code>
        </p>
      </div>
    </Panel>
  )
}

const toolsQuery = (range: TimeRange) =>
  queryOptions({
    queryKey: queryKeys.tools(range),
    queryFn: ({ signal }) => call('getToolHistogram', { query: { ...range, buckets: '48' }, signal }),
    refetchInterval: 60_000,
    placeholderData: keepPreviousData,
  })

/** Tool calls over time, on the same axis as the events above. */
function ToolChart({ range, onZoom }: { range: TimeRange; onZoom(range: TimeRange): void }) {
  const { data, error } = useQuery(toolsQuery(range))
  return (
    <SeriesPanel
      title="Tool calls"
      note={range.from === undefined ? '24 h' : <RangeText {...range} />}
      fault={error}
      label="Tool calls"
      data={data}
      series={data?.tools.map(({ tool, calls }) => ({ name: tool, counts: calls })) ?? []}
      empty={
        <EmptyState>
          No tool calls in this range. The SDK reports calls of guarded tools; other clients send events of type
          tool_call.
        </EmptyState>
      }
      onZoom={onZoom}
    />
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

export function Overview() {
  const { marks, agents, counts, stats, items, verdict, isComplete, isStale, fault, checkedAt, troubled, isCut, open } =
    useVerdict()
  const openText = `${open.isMore ? 'more than ' : ''}${open.count.toLocaleString('en')}`
  const need = open.count === 0 ? '' : `, ${openText} ${open.count === 1 ? 'item needs' : 'items need'} attention`
  return (
    <Screen
      title={verdict}
      heading={<span aria-live="polite">{verdict}</span>}
      lead={
        <>
          {isStale && 'Data may be outdated. '}
          {isComplete &&
            counts &&
            counts.all > 0 &&
            `${counts.active.toLocaleString('en')} of ${counted(counts.all, 'agent')} active${need}.`}
        </>
      }
    >
      <Fault of={fault} />
      {counts?.all === 0 ? (
        <FirstAgent />
      ) : (
        <div className={`stack ${isStale ? css.stale : ''}`}>
          <Waiting />
          <nav aria-label="Counts" className={css.figures}>
            <Figures counts={counts} stats={stats} isLinked />
          </nav>
          <Panel
            title="Fleet"
            note="one mark per agent, ordered by id"
            end={
              <Link to="/fleet" className="quiet">
                Open fleet <kbd>g f</kbd>
              </Link>
            }
          >
            <FleetStrip marks={marks} agents={agents} troubled={troubled} isCut={isCut} />
          </Panel>
          <div className="halves">
            <Panel title="Needs attention" note={open.count > 0 && `${openText} open`}>
              {isComplete && <AttentionQueue items={items} open={open} checkedAt={checkedAt} />}
            </Panel>
            <Charts />
          </div>
          <LiveEvents />
        </div>
      )}
    </Screen>
  )
}
