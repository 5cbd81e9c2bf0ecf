import { type KeyboardEvent, type PointerEvent, type ReactNode, useRef, useState } from 'react'
import { dayMs } from '../ui/span.ts'
import { dayTimeText, timeText, useZone } from '../ui/time.tsx'
import css from './time-chart.module.css'
import type { TimeRange } from './time-range.tsx'
import { useWidth } from './width.ts'

interface TimeChartProps {
  label: string
  /** Start of the first bucket, in epoch milliseconds. */
  from: number
  bucketMs: number
  count: number
  height: number
  /** Width of the lane names in pixels. */
  left?: number
  /** Describes one bucket in words. */
  describe(index: number): string
  onZoom?(range: Required<TimeRange>): void
  children(size: { x(index: number): number; slot: number; width: number }): ReactNode
}

/** Width of the lane names in pixels. Charts above each other share it, so that their axes align. */
export const laneNames = 96
const axis = 20

/** Buckets on a time axis. Dragging selects a range and zooms into it, as do Shift with arrow keys, then Enter. */
export function TimeChart(props: TimeChartProps) {
  const { label, from, bucketMs, count, height, left = 0, describe, onZoom, children } = props
  const zone = useZone()
  const [box, width] = useWidth<HTMLDivElement>()
  /** Selected buckets, from `anchor` to `at`, both included. */
  const [pick, setPick] = useState<{ anchor: number; at: number }>()
  const isDragging = useRef(false)
  const slot = (width - left) / Math.max(1, count)
  const x = (index: number) => left + index * slot
  const within = (index: number) => Math.min(count - 1, Math.max(0, index))
  const timeOf = (index: number) => from + index * bucketMs
  const first = pick && Math.min(pick.anchor, pick.at)
  const last = pick && Math.max(pick.anchor, pick.at)

  function zoom() {
    if (first === undefined || last === undefined || !onZoom) return
    setPick(undefined)
    onZoom({ from: new Date(timeOf(first)).toISOString(), to: new Date(timeOf(last + 1)).toISOString() })
  }
  function bucketUnder(event: PointerEvent<SVGSVGElement>): number {
    const { left: edge } = event.currentTarget.getBoundingClientRect()
    return within(Math.floor((event.clientX - edge - left) / slot))
  }
  function press(event: KeyboardEvent) {
    const step = { ArrowRight: 1, ArrowLeft: -1, Home: -count, End: count }[event.key]
    if (step !== undefined) {
      const at = within((pick?.at ?? count) + step)
      setPick({ at, anchor: event.shiftKey && pick ? pick.anchor : at })
    } else if (event.key === 'Enter') zoom()
    else if (event.key === 'Escape' && pick) setPick(undefined)
    else return
    event.preventDefault()
    event.stopPropagation()
  }
  const isLong = count * bucketMs > dayMs
  const clock = (time: number) => (isLong ? dayTimeText : timeText)(zone, time).slice(0, -3)
  return (
    <div
      ref={box}
      className={css.chart}
      role="group"
      tabIndex={0}
      aria-label={`${label}. Arrow keys move, with Shift they select${onZoom ? ', Enter zooms' : ''}.`}
      onKeyDown={press}
    >
      <svg
        width={width}
        height={height + axis}
        role="img"
        aria-label={label}
        onPointerDown={(event) => {
          if (!onZoom || event.button !== 0) return
          isDragging.current = true
          event.currentTarget.setPointerCapture(event.pointerId)
          const at = bucketUnder(event)
          setPick({ anchor: at, at })
        }}
        onPointerMove={(event) => {
          const at = bucketUnder(event)
          if (isDragging.current && pick) setPick({ anchor: pick.anchor, at })
          else if (event.pointerType === 'mouse') setPick({ anchor: at, at })
        }}
        onPointerUp={() => {
          if (isDragging.current && first !== last) zoom()
          isDragging.current = false
        }}
        onPointerCancel={() => {
          isDragging.current = false
        }}
        onPointerLeave={() => {
          if (!isDragging.current) setPick(undefined)
        }}
      >
        {first !== undefined && last !== undefined && (
          <rect className={css.brush} x={x(first)} y="0" width={(last - first + 1) * slot} height={height} />
        )}
        {children({ x, slot, width })}
        <line x1={left} x2={width} y1={height + 0.5} y2={height + 0.5} />
        {[0, 0.5, 1].map((part) => (
          <text
            key={part}
            x={left + part * (width - left)}
            y={height + 15}
            textAnchor={part === 0 ? 'start' : part === 1 ? 'end' : 'middle'}
          >
            {clock(timeOf(part * count))}
          </text>
        ))}
      </svg>
      <p role="status" className="quiet">
        {first !== undefined && last !== undefined
          ? `${dayTimeText(zone, timeOf(first)).slice(0, -3)} to ${timeText(zone, timeOf(last + 1)).slice(0, -3)}: ${
              first === last ? describe(first) : `${last - first + 1} bars selected`
            }`
          : ''}
      </p>
    </div>
  )
}
