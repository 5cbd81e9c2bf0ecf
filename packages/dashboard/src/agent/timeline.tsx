import type { ControlChange, Severity } from '@wardline/contract'
import { severities } from '@wardline/contract'
import { timeText, useZone } from '../parts/time.tsx'
import { useWidth } from '../parts/width.ts'
import type { Row } from '../service/event-tail.ts'

interface TimelineProps {
  rows: readonly Row[]
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

/** When the agent was suspended within the range. */
function suspendedSpans(changes: readonly ControlChange[], isSuspended: boolean, { from, to }: Span): Span[] {
  const spans: Span[] = []
  let since: number | undefined
  for (const { action, at } of changes) {
    const time = Date.parse(at)
    if (action === 'suspend') since ??= time
    else {
      // The kill before the first change that was read.
      spans.push({ from: since ?? from, to: time })
      since = undefined
    }
  }
  if (since !== undefined || (isSuspended && changes.length === 0)) spans.push({ from: since ?? from, to })
  return spans
    .filter((span) => span.to > from)
    .map((span) => ({ from: Math.max(from, span.from), to: Math.min(to, span.to) }))
}

/** Events of each severity and the control state on one axis; the list below has the same events as rows. */
export function Timeline({ rows, changes, isSuspended, from, to }: TimelineProps) {
  const zone = useZone()
  const [box, width] = useWidth<HTMLDivElement>()
  const x = (time: number) => left + ((time - from) / (to - from)) * (width - left)
  const lanes = severities.map((severity) => {
    const counts = new Map<number, number>()
    for (const row of rows) {
      const time = Date.parse(row.created_at)
      if (row.severity !== severity || time < from || time > to) continue
      const slot = Math.floor(((time - from) / (to - from)) * slots)
      counts.set(slot, (counts.get(slot) ?? 0) + 1)
    }
    return { severity, counts }
  })
  const highest = Math.max(1, ...lanes.flatMap(({ counts }) => [...counts.values()]))
  const y = (index: number) => 6 + index * laneHeight
  const ticks = Array.from({ length: 5 }, (_, index) => from + ((to - from) * index) / 4)
  const total = (severity: Severity) =>
    [...lanes.find((lane) => lane.severity === severity)!.counts.values()].reduce((sum, count) => sum + count, 0)
  const said = severities.map((severity) => `${total(severity)} ${severity}`).join(', ')
  const bottom = y(severities.length + 1)
  return (
    <div ref={box} className="timeline">
      <svg width={width} height={bottom + 22} role="img" aria-label={`Events in the range: ${said}`}>
        {lanes.map(({ severity, counts }, index) => (
          <g key={severity} className={severity}>
            <text x="0" y={y(index) + 16}>
              {severity}
            </text>
            {[...counts].map(([slot, count]) => {
              const height = 5 + (count / highest) * (laneHeight - 8)
              return (
                <rect
                  key={slot}
                  x={left + (slot / slots) * (width - left)}
                  y={y(index) + laneHeight - 3 - height}
                  width={(width - left) / slots - 1.5}
                  height={height}
                  fill="currentColor"
                />
              )
            })}
          </g>
        ))}
        <text x="0" y={y(severities.length) + 16}>
          control
        </text>
        {suspendedSpans(changes, isSuspended, { from, to }).map((span) => (
          <rect
            key={span.from}
            className="span"
            x={x(span.from)}
            y={y(severities.length) + 4}
            width={Math.max(2, x(span.to) - x(span.from))}
            height={laneHeight - 8}
          />
        ))}
        <line x1={left} x2={width} y1={bottom} y2={bottom} />
        {ticks.map((time, index) => (
          <text
            key={time}
            x={x(time)}
            y={bottom + 16}
            textAnchor={index === 0 ? 'start' : index === 4 ? 'end' : 'middle'}
          >
            {timeText(zone, time)}
          </text>
        ))}
      </svg>
    </div>
  )
}
