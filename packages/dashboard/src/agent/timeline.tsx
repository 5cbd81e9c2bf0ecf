import type { ControlChange, InstanceHistory } from '@wardline/contract'
import { severities } from '@wardline/contract'
import { useState } from 'react'
import type { Row } from '../data/live-tail.ts'
import { CountTable } from '../parts/count-table.tsx'
import { useWidth } from '../parts/width.ts'
import { Button, ChipGroup } from '../ui/button.tsx'
import { Select } from '../ui/field.tsx'
import { Panel } from '../ui/panel.tsx'
import { hourMs } from '../ui/span.ts'
import { timeText, useZone } from '../ui/time.tsx'
import { plainText } from '../ui/unseen-characters.ts'
import css from './agent.module.css'

export interface MetricPoint {
  at: number
  value: number
}

interface TimelineProps {
  rows: readonly Row[]
  history: InstanceHistory | undefined
  /** Values of one metric, oldest first. */
  metric: { name: string; points: readonly MetricPoint[] } | undefined
  /** Kills and resumes, oldest first. */
  changes: readonly ControlChange[]
  isSuspended: boolean
  from: number
  to: number
}

const left = 84
const laneHeight = 24
const slots = 120

interface Span {
  from: number
  to: number
}

/** Returns the spans within the range in which the agent was suspended. */
function suspendedSpans(changes: readonly ControlChange[], isSuspended: boolean, { from, to }: Span): Span[] {
  const spans: Span[] = []
  let since: number | undefined
  for (const { action, at } of changes) {
    const time = Date.parse(at)
    if (action === 'suspend') since ??= time
    else {
      // The kill may precede the first change that was read.
      spans.push({ from: since ?? from, to: time })
      since = undefined
    }
  }
  if (since !== undefined || (isSuspended && changes.length === 0)) spans.push({ from: since ?? from, to })
  return spans
    .filter((span) => span.to > from)
    .map((span) => ({ from: Math.max(from, span.from), to: Math.min(to, span.to) }))
}

interface Bucket {
  from: number
  to: number
  heartbeats: number
  expected: number
  calls: number
}

function bucketsOf(history: InstanceHistory | undefined, { from, to }: Span): Bucket[] {
  if (!history) return []
  const width = history.bucket_seconds * 1_000
  return history.heartbeats
    .map((heartbeats, index) => {
      const start = Date.parse(history.from) + index * width
      const calls = history.tool_calls[index] ?? 0
      return { from: start, to: start + width, heartbeats, expected: history.expected[index] ?? 0, calls }
    })
    .filter((bucket) => bucket.to > from && bucket.from < to)
}

const sum = (counts: readonly number[]) => counts.reduce((total, count) => total + count, 0)

/** Heartbeats, calls, events of each severity, a metric and the control state on one axis. */
function Timeline({ rows, history, metric, changes, isSuspended, from, to }: TimelineProps) {
  const zone = useZone()
  const [box, width] = useWidth<HTMLDivElement>()
  const x = (time: number) => left + ((Math.max(from, Math.min(to, time)) - from) / (to - from)) * (width - left)
  const buckets = bucketsOf(history, { from, to })
  const spans = suspendedSpans(changes, isSuspended, { from, to })
  const counts = severities.map((severity) => {
    const bySlot = new Map<number, number>()
    for (const row of rows) {
      const time = Date.parse(row.created_at)
      if (row.severity !== severity || time < from || time > to) continue
      const slot = Math.floor(((time - from) / (to - from)) * slots)
      bySlot.set(slot, (bySlot.get(slot) ?? 0) + 1)
    }
    return { severity, bySlot }
  })
  const highest = Math.max(1, ...counts.flatMap(({ bySlot }) => [...bySlot.values()]))
  const maxCalls = Math.max(1, ...buckets.map(({ calls }) => calls))
  const points = metric?.points.filter(({ at }) => at >= from && at <= to) ?? []
  const values = points.map(({ value }) => value)
  const [lowest, top] = [Math.min(0, ...values), Math.max(...values, 1)]
  const lanes = ['heartbeats', 'calls', ...severities.toReversed(), 'metric', 'control']
  const y = (lane: string) => 6 + lanes.indexOf(lane) * laneHeight
  const foot = (lane: string) => y(lane) + laneHeight - 3
  const bottom = 6 + lanes.length * laneHeight
  const ticks = Array.from({ length: 5 }, (_, index) => from + ((to - from) * index) / 4)
  const said = [
    `${sum(buckets.map(({ heartbeats }) => heartbeats))} of ${sum(buckets.map(({ expected }) => expected))} heartbeats`,
    `${sum(buckets.map(({ calls }) => calls))} tool calls`,
    ...counts.map(({ severity, bySlot }) => `${sum([...bySlot.values()])} ${severity}`),
    ...(metric ? [`${points.length} values of ${metric.name}`] : []),
    spans.length === 0 ? 'not suspended' : 'suspended at times',
  ]
  return (
    <div ref={box} className={css.chart}>
      <svg width={width} height={bottom + 22} role="img" aria-label={`Timeline: ${said.join(', ')}`}>
        {lanes.map((lane) => (
          <text key={lane} x="0" y={y(lane) + 16}>
            {lane === 'calls' ? 'tool calls' : lane}
          </text>
        ))}
        {buckets.map((bucket) => {
          const { heartbeats, expected, calls } = bucket
          const span = { x: x(bucket.from) + 0.5, width: Math.max(1, x(bucket.to) - x(bucket.from) - 1.5) }
          const state = heartbeats === 0 ? (expected > 0 ? 'missing' : 'none') : heartbeats < expected ? 'some' : 'full'
          const size = state === 'some' ? 8 : 14
          const height = calls === 0 ? 0 : 3 + (calls / maxCalls) * (laneHeight - 8)
          return (
            <g key={bucket.from}>
              <rect {...span} className={css[state]} y={foot('heartbeats') - size} height={size} />
              <rect {...span} className={css.call} y={foot('calls') - height} height={height} />
            </g>
          )
        })}
        {counts.map(({ severity, bySlot }) => (
          <g key={severity} className={severity}>
            {[...bySlot].map(([slot, count]) => {
              const height = 5 + (count / highest) * (laneHeight - 8)
              return (
                <rect
                  key={slot}
                  x={left + (slot / slots) * (width - left)}
                  y={foot(severity) - height}
                  width={(width - left) / slots - 1.5}
                  height={height}
                  fill="currentColor"
                />
              )
            })}
          </g>
        ))}
        <polyline
          className={css.metric}
          points={points
            .map(
              ({ at, value }) =>
                `${x(at).toFixed(1)},${(foot('metric') - ((value - lowest) / (top - lowest)) * (laneHeight - 8)).toFixed(1)}`,
            )
            .join(' ')}
        />
        {spans.map((span) => (
          <rect
            key={span.from}
            className={css.suspended}
            x={x(span.from)}
            y={y('control') + 4}
            width={Math.max(2, x(span.to) - x(span.from))}
            height={laneHeight - 8}
          />
        ))}
        {changes
          .filter(({ at }) => Date.parse(at) >= from)
          .map(({ seq, at, action }) => (
            <line key={seq} className={css[action]} x1={x(Date.parse(at))} x2={x(Date.parse(at))} y1="6" y2={bottom} />
          ))}
        <line x1={left} x2={width} y1={bottom} y2={bottom} />
        {ticks.map((time, index) => (
          <text
            key={index}
            x={x(time)}
            y={bottom + 16}
            textAnchor={index === 0 ? 'start' : index === 4 ? 'end' : 'middle'}
          >
            {timeText(zone, time).slice(0, 5)}
          </text>
        ))}
      </svg>
    </div>
  )
}

const ranges = ['1', '6', '24'] as const

interface TimelinePanelProps extends Omit<TimelineProps, 'metric' | 'from'> {
  metrics: ReadonlyMap<string, readonly MetricPoint[]>
  metric: string | undefined
  /** Whether all events of the range are loaded. */
  isCovered: boolean
  hours: number
  onChange(search: { hours?: number; metric?: string }): void
}

/** The timeline, its range and metric, and its numbers as a table. */
export function TimelinePanel({ metrics, metric, isCovered, hours, onChange, ...timeline }: TimelinePanelProps) {
  const [isTable, setTable] = useState(false)
  const { history, to } = timeline
  const points = metric === undefined ? undefined : metrics.get(metric)
  return (
    <Panel
      title="Timeline"
      note={isCovered ? '' : 'Some events of this range are not loaded. Load older events below.'}
      end={
        <>
          {metrics.size > 0 && (
            <Select
              label="Metric"
              value={metric}
              options={[...metrics.keys()].map((name) => [name, plainText(name)] as const)}
              onChange={({ target }) => onChange({ metric: target.value })}
            />
          )}
          <ChipGroup
            label="Range"
            value={ranges.find((range) => Number(range) === hours)}
            options={ranges.map((value) => ({ value, name: `${value} h` }))}
            onChange={(value) => onChange({ hours: Number(value) })}
          />
          <Button aria-pressed={isTable} onClick={() => setTable(!isTable)}>
            {isTable ? 'Hide table' : 'Table'}
          </Button>
        </>
      }
    >
      {isTable && history && (
        <CountTable
          label="Heartbeats, events and tool calls"
          columns={[
            { name: 'heartbeats', counts: history.heartbeats },
            { name: 'expected', counts: history.expected },
            { name: 'events', counts: history.events },
            { name: 'tool calls', counts: history.tool_calls },
          ]}
          from={Date.parse(history.from)}
          bucketMs={history.bucket_seconds * 1_000}
        />
      )}
      <Timeline
        {...timeline}
        metric={metric !== undefined && points ? { name: metric, points } : undefined}
        from={to - hours * hourMs}
      />
    </Panel>
  )
}
