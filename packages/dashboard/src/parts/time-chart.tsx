import { type KeyboardEvent, type PointerEvent, type ReactNode, useState } from 'react'
import { dayTimeText, timeText, useZone } from '../ui/time.tsx'
import css from './chart.module.css'
import { Chart } from './chart.tsx'
import type { TimeRange } from './time-range.tsx'

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
  children(size: { x(index: number): number; slot: number }): ReactNode
}

const isDragged = ({ currentTarget, pointerId }: PointerEvent) => currentTarget.hasPointerCapture(pointerId)

/** Buckets on a time axis. Dragging selects a range and zooms into it, as do Shift with arrow keys, then Enter. */
export function TimeChart(props: TimeChartProps) {
  const { label, from, bucketMs, count, height, left = 0, describe, onZoom, children } = props
  const zone = useZone()
  /** Selected buckets, from `anchor` to `at`, both included. */
  const [pick, setPick] = useState<{ anchor: number; at: number }>()
  const timeOf = (index: number) => from + index * bucketMs
  const within = (index: number) => Math.min(count - 1, Math.max(0, index))
  const first = pick && Math.min(pick.anchor, pick.at)
  const last = pick && Math.max(pick.anchor, pick.at)

  function zoom() {
    if (first === undefined || last === undefined || !onZoom) return
    setPick(undefined)
    onZoom({ from: new Date(timeOf(first)).toISOString(), to: new Date(timeOf(last + 1)).toISOString() })
  }
  function bucketUnder(event: PointerEvent<SVGSVGElement>): number {
    const box = event.currentTarget.getBoundingClientRect()
    return within(Math.floor(((event.clientX - box.left - left) / (box.width - left)) * count))
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
  return (
    <div
      className={css.picker}
      role="group"
      tabIndex={0}
      aria-label={`${label}. Arrow keys move, with Shift they select${onZoom ? ', Enter zooms' : ''}.`}
      onKeyDown={press}
    >
      <Chart
        label={label}
        from={from}
        to={timeOf(Math.max(1, count))}
        height={height}
        left={left}
        onPointerDown={(event) => {
          if (!onZoom || event.button !== 0) return
          event.currentTarget.setPointerCapture(event.pointerId)
          const at = bucketUnder(event)
          setPick({ anchor: at, at })
        }}
        onPointerMove={(event) => {
          const at = bucketUnder(event)
          if (isDragged(event) && pick) setPick({ anchor: pick.anchor, at })
          else if (event.pointerType === 'mouse') setPick({ anchor: at, at })
        }}
        onPointerUp={(event) => {
          if (isDragged(event) && first !== last) zoom()
        }}
        onPointerLeave={() => setPick(undefined)}
      >
        {({ x: xOf }) => {
          const x = (index: number) => xOf(timeOf(index))
          const slot = x(1) - x(0)
          return (
            <>
              {first !== undefined && last !== undefined && (
                <rect className={css.brush} x={x(first)} width={(last - first + 1) * slot} height={height} />
              )}
              {children({ x, slot })}
            </>
          )
        }}
      </Chart>
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
