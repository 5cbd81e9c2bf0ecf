import { counted } from '@wardline/text/counted'
import { dayMs, hourMs } from '../ui/span.ts'
import { TimeChart } from './time-chart.tsx'

const height = 96

interface Bars {
  from: number
  bucketMs: number
  counts: readonly number[]
}

/** Sums counts into bars: by default of an hour, or of a day in a long range, where hours would be one pixel wide. */
export function barsOf(
  points: readonly { at: string; count: number }[],
  from: number,
  to: number,
  bucketMs = to - from > 8 * dayMs ? dayMs : hourMs,
): Bars {
  const counts = Array.from({ length: Math.max(1, Math.ceil((to - from) / bucketMs)) }, () => 0)
  for (const { at, count } of points) {
    const index = Math.floor((Date.parse(at) - from) / bucketMs)
    counts[Math.min(counts.length - 1, Math.max(0, index))]! += count
  }
  return { from, bucketMs, counts }
}

interface CountBarsProps {
  label: string
  bars: Bars
  /** What is counted, such as `firing`. */
  unit: string
  colour: 'accent' | 'breach'
}

/** Counts over time. */
export function CountBars({ label, bars: { from, bucketMs, counts }, unit, colour }: CountBarsProps) {
  const highest = Math.max(1, ...counts)
  return (
    <TimeChart
      label={label}
      from={from}
      bucketMs={bucketMs}
      count={counts.length}
      height={height}
      describe={(index) => counted(counts[index]!, unit)}
    >
      {({ x, slot }) => (
        <g fill={`var(--${colour})`}>
          {counts.map((count, index) => {
            if (count === 0) return null
            const size = Math.max(3, (count / highest) * (height - 8))
            return <rect key={index} x={x(index)} y={height - size} width={Math.max(2, slot - 2)} height={size} />
          })}
        </g>
      )}
    </TimeChart>
  )
}
