import { useQuery } from '@tanstack/react-query'
import { type InstanceHistory, type ReplyOf, type Suspension, severities } from '@wardline/contract'
import { type ReactNode, useMemo } from 'react'
import { call } from '../data/client.ts'
import { suspensionsQuery } from '../data/containments.ts'
import { useEvents } from '../data/event-tail.ts'
import { queryKeys } from '../data/query-keys.ts'
import { Beat, bucketsIn, Chart, Line, laneNames, sum, type X } from '../parts/chart.tsx'
import { ChartPanel } from '../parts/chart-panel.tsx'
import { ChipGroup } from '../ui/button.tsx'
import { Select } from '../ui/field.tsx'
import { hourMs } from '../ui/span.ts'
import { Time, useNow } from '../ui/time.tsx'
import { plainText } from '../ui/unseen-characters.ts'
import css from './agent.module.css'
import { baselineQuery } from './baselines.tsx'
import { eventCountsQuery } from './event-counts.ts'
import { anomalyMetric, type MetricPoint, metricsOf } from './reports.ts'
import { type TimelineHours, timelineHours } from './search.ts'

const historyQuery = (id: string) => ({
  queryKey: queryKeys.history(id),
  queryFn: () => call('getInstanceHistory', { params: { instanceId: id } }),
  // The service saves counts once a minute.
  refetchInterval: 60_000,
})

/** Height of a lane, and where its drawings stand. */
const lane = 24
const foot = lane - 3

interface Span {
  from: number
  to: number
}
interface Bar extends Span {
  value: number
}

/** Returns when the agent was suspended, within the range. */
const suspendedSpans = (suspensions: readonly Suspension[], { from, to }: Span): Span[] =>
  suspensions
    .map(({ requested_at, resumed_at }) => ({
      from: Date.parse(requested_at),
      to: resumed_at === null ? to : Date.parse(resumed_at),
    }))
    .filter((span) => span.to > from)

/** Returns the buckets of the history that are in the range. */
function bucketsOf(history: InstanceHistory | undefined, { from, to }: Span) {
  if (!history) return []
  const { from: first, bucketMs } = bucketsIn(history)
  return history.heartbeats
    .map((heartbeats, index) => ({
      from: first + index * bucketMs,
      to: first + (index + 1) * bucketMs,
      heartbeats,
      expected: history.expected[index] ?? 0,
      value: history.tool_calls[index] ?? 0,
    }))
    .filter((bucket) => bucket.to > from && bucket.from < to)
}

/** Returns the counted events of the range by severity, the worst first. */
function eventBars(counts: EventCounts | undefined, { from, to }: Span) {
  const { from: first, bucketMs } = counts ? bucketsIn(counts) : { from, bucketMs: 1 }
  return severities.toReversed().map((severity) => ({
    severity,
    bars: (counts?.buckets ?? [])
      .map((bucket, index): Bar => {
        const start = first + index * bucketMs
        return { from: Math.max(from, start), to: start + bucketMs, value: bucket[severity] }
      })
      .filter((bar) => bar.to > from && bar.from < to),
  }))
}

const valuesOf = (bars: readonly Bar[]) => bars.map(({ value }) => value)
const placeOf = (x: X, { from, to }: Span) => ({ x: x(from) + 0.5, width: Math.max(1, x(to) - x(from) - 1.5) })

function Bars({ x, bars, highest }: { x: X; bars: readonly Bar[]; highest: number }) {
  return bars.map((bar) => {
    const height = bar.value === 0 ? 0 : 4 + (bar.value / highest) * (lane - 8)
    return <rect key={bar.from} {...placeOf(x, bar)} y={foot - height} height={height} fill="currentColor" />
  })
}

type EventCounts = ReplyOf<'getEventHistogram'>

interface TimelineProps extends Span {
  counts: EventCounts | undefined
  history: InstanceHistory | undefined
  /** Values of one metric, oldest first. */
  metric: { name: string; points: readonly MetricPoint[] } | undefined
  suspensions: readonly Suspension[]
}

/** Heartbeats, calls, events of each severity, a metric and the control state on one axis. */
function Timeline({ counts, history, metric, suspensions, ...range }: TimelineProps) {
  const isShown = (time: number) => time >= range.from && time <= range.to
  const buckets = bucketsOf(history, range)
  const spans = suspendedSpans(suspensions, range)
  const events = eventBars(counts, range)
  const highest = Math.max(1, ...events.flatMap(({ bars }) => valuesOf(bars)))
  const points = metric?.points.filter(({ at }) => isShown(at)) ?? []
  const lowest = Math.min(0, ...points.map(({ value }) => value))
  const top = Math.max(1, ...points.map(({ value }) => value))
  const y = (value: number) => foot - ((value - lowest) / (top - lowest)) * (lane - 8)
  const lanes = (x: X): [name: string, drawing: ReactNode][] => [
    [
      'heartbeats',
      buckets.map(({ heartbeats, expected, ...span }) => (
        <Beat key={span.from} {...placeOf(x, span)} foot={foot} height={14} count={heartbeats} expected={expected} />
      )),
    ],
    ['tool calls', <Bars key="calls" x={x} bars={buckets} highest={Math.max(1, ...valuesOf(buckets))} />],
    ...events.map(({ severity, bars }): [string, ReactNode] => [
      severity,
      <g key={severity} className={severity}>
        <Bars x={x} bars={bars} highest={highest} />
      </g>,
    ]),
    ['metric', <Line key="metric" className={css.metric} points={points.map(({ at, value }) => [x(at), y(value)])} />],
    [
      'control',
      spans.map((span) => (
        <rect key={span.from} className={css.suspended} {...placeOf(x, span)} y="4" height={lane - 8} />
      )),
    ],
  ]
  const height = 6 + (severities.length + 4) * lane
  const said = [
    `${sum(buckets.map(({ heartbeats }) => heartbeats))} of ${sum(buckets.map(({ expected }) => expected))} heartbeats`,
    `${sum(valuesOf(buckets))} tool calls`,
    ...events.map(({ severity, bars }) => `${sum(valuesOf(bars))} ${severity}`),
    ...(metric ? [`${points.length} values of ${metric.name}`] : []),
    spans.length === 0 ? 'not suspended' : 'suspended at times',
  ]
  return (
    <Chart label={`Timeline: ${said.join(', ')}`} {...range} height={height} left={laneNames} ticks={5}>
      {({ x }) => (
        <>
          {lanes(x).map(([name, drawing], row) => (
            <g key={name} transform={`translate(0 ${6 + row * lane})`}>
              <text y="16">{name}</text>
              {drawing}
            </g>
          ))}
          {spans.map(({ from, to }) => (
            <g key={from}>
              {to < range.to && <line className={css.resume} x1={x(to)} x2={x(to)} y1="6" y2={height} />}
              {from >= range.from && <line className={css.suspend} x1={x(from)} x2={x(from)} y1="6" y2={height} />}
            </g>
          ))}
        </>
      )}
    </Chart>
  )
}

interface TimelinePanelProps {
  id: string
  hours: TimelineHours
  metric: string | undefined
  onChange(search: { hours?: TimelineHours | undefined; metric?: string }): void
}

/** The timeline, its range and metric, or its numbers as a table. */
export function TimelinePanel({ id, hours, metric, onChange }: TimelinePanelProps) {
  const to = useNow()
  const { data: counts, error } = useQuery(eventCountsQuery(id, hours))
  const { data: suspensions = [] } = useQuery(suspensionsQuery(id))
  const { data: history } = useQuery(historyQuery(id))
  const reports = useEvents({ instance_id: id, event_type: 'session_metrics' }).rows
  const metrics = useMemo(() => metricsOf(reports), [reports])
  const anomalies = useEvents({ instance_id: id, event_type: 'anomaly_detected' }).rows
  // Shows the metric with the latest anomaly by default.
  const latest = anomalies.map(anomalyMetric).find((one) => one !== undefined && metrics.has(one))
  const name = metric ?? latest ?? [...metrics.keys()][0]
  // The service reads many more samples than the reports that are loaded. It has none of a metric without a baseline.
  const { data: stored } = useQuery({ ...baselineQuery(id, name ?? ''), enabled: name !== undefined, retry: false })
  const samples = stored?.samples.map(({ at, value }) => ({ at: Date.parse(at), value }))
  const points = samples && samples.length > 0 ? samples : metrics.get(name ?? '')
  return (
    <ChartPanel
      title="Timeline"
      note={
        counts?.scanned_to && (
          <span className="warning">
            incomplete before <Time at={counts.scanned_to} />
          </span>
        )
      }
      fault={error}
      actions={
        <>
          {metrics.size > 0 && (
            <Select
              label="Metric"
              value={name}
              options={[...metrics.keys()].map((one) => [one, plainText(one)] as const)}
              onChange={({ target }) => onChange({ metric: target.value })}
            />
          )}
          <ChipGroup
            label="Range"
            value={String(hours)}
            options={timelineHours.map((value) => ({ value: String(value), name: `${value} h` }))}
            onChange={(value) => onChange({ hours: timelineHours.find((one) => String(one) === value) })}
          />
        </>
      }
      table={
        history && {
          label: 'Heartbeats, events and tool calls',
          columns: [
            { name: 'Heartbeats', counts: history.heartbeats },
            { name: 'Expected', counts: history.expected },
            { name: 'Events', counts: history.events },
            { name: 'Tool calls', counts: history.tool_calls },
          ],
          ...bucketsIn(history),
        }
      }
    >
      <div className="inner">
        <Timeline
          counts={counts}
          history={history}
          metric={name !== undefined && points ? { name, points } : undefined}
          suspensions={suspensions}
          from={to - hours * hourMs}
          to={to}
        />
      </div>
    </ChartPanel>
  )
}
