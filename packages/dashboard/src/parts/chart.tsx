import type { ComponentProps, ReactNode } from 'react'
import { dayMs } from '../ui/span.ts'
import { dayTimeText, timeText, useZone } from '../ui/time.tsx'
import css from './chart.module.css'
import { useWidth } from './width.ts'

/** Width of the lane names in pixels. Charts above each other share it, so that their axes align. */
export const laneNames = 96
/** Height of the labels below a drawing. */
const axis = 20

export const sum = (counts: readonly number[]): number => counts.reduce((total, count) => total + count, 0)

/** Returns the start of a reply's first bucket and the length of each, in milliseconds. */
export const bucketsIn = (reply: { from: string; bucket_seconds: number }) => ({
  from: Date.parse(reply.from),
  bucketMs: reply.bucket_seconds * 1_000,
})

/** Returns the position of a time. */
export type X = (time: number) => number

interface ChartProps extends Omit<ComponentProps<'svg'>, 'children' | 'height' | 'from' | 'to'> {
  /** What is drawn, for screen readers. */
  label: string
  /** Start and end of the axis, in epoch milliseconds. */
  from: number
  to: number
  height: number
  /** Width of the lane names in pixels. */
  left?: number
  /** Number of times below the axis. */
  ticks?: number
  children(size: { x: X; width: number }): ReactNode
}

/** A drawing above a time axis, as wide as its place. Times outside of the axis are drawn at its ends. */
export function Chart({ label, from, to, height, left = 0, ticks = 3, children, ...svg }: ChartProps) {
  const zone = useZone()
  const [box, width] = useWidth<HTMLDivElement>()
  const x = (time: number) => left + ((Math.max(from, Math.min(to, time)) - from) / (to - from)) * (width - left)
  const anchors: Record<number, 'start' | 'end'> = { 0: 'start', [ticks - 1]: 'end' }
  const text = to - from > dayMs ? dayTimeText : timeText
  return (
    <div ref={box} className={css.chart}>
      <svg {...svg} width={width} height={height + axis} role="img" aria-label={label}>
        {children({ x, width })}
        <line x1={left} x2={width} y1={height + 0.5} y2={height + 0.5} />
        {Array.from({ length: ticks }, (_, index) => {
          const time = from + ((to - from) * index) / (ticks - 1)
          return (
            <text key={index} x={x(time)} y={height + 15} textAnchor={anchors[index] ?? 'middle'}>
              {text(zone, time).slice(0, -3)}
            </text>
          )
        })}
      </svg>
    </div>
  )
}

interface LineProps {
  points: readonly (readonly [x: number, y: number])[]
  /** Class that colours it. */
  className?: string | undefined
}

export function Line({ points, className = '' }: LineProps) {
  const text = points.map((point) => point.map((at) => at.toFixed(1)).join()).join(' ')
  return <polyline className={`${css.line} ${className}`} points={text} />
}

interface BeatProps {
  x: number
  width: number
  height: number
  foot: number
  count: number
  expected: number
}

/** The heartbeats of a while: full, low if some are missing, hollow if all are. */
export function Beat({ x, width, height, foot, count, expected }: BeatProps) {
  const [some, none] = count < expected ? (['some', 'missing'] as const) : (['full', 'idle'] as const)
  const state = count > 0 ? some : none
  const size = state === 'some' ? height / 2 : height
  // The outline is drawn inside.
  const inset = state === 'missing' ? 0.75 : 0
  const place = { x: x + inset, y: foot - size + inset, width: width - 2 * inset, height: size - 2 * inset }
  return <rect className={css[state]} {...place} />
}
