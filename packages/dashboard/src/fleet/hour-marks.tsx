import { useHour } from '../data/hours.ts'
import { Beat, Line, sum } from '../parts/chart.tsx'
import css from './fleet.module.css'

const cell = 7
const height = 16
const width = 84

/** Heartbeats of the last hour, one mark per five minutes. */
export function HeartbeatBar({ id }: { id: string }) {
  const hour = useHour(id)
  if (!hour) return null
  const { heartbeats, expected } = hour
  const label = `Heartbeats in the last hour: ${sum(heartbeats)}, expected: ${sum(expected)}`
  return (
    <svg className={css.hour} width={heartbeats.length * cell} height={height} role="img" aria-label={label}>
      <title>{label}</title>
      {heartbeats.map((count, index) => {
        const place = { x: index * cell, width: cell - 2, height, foot: height }
        return <Beat key={index} {...place} count={count} expected={expected[index] ?? 0} />
      })}
    </svg>
  )
}

/** Tool calls of the last hour per five minutes, without the current, incomplete bucket. */
export function CallsLine({ id }: { id: string }) {
  const hour = useHour(id)
  if (!hour) return null
  const calls = hour.tool_calls.slice(0, -1)
  const total = sum(hour.tool_calls).toLocaleString('en')
  const highest = Math.max(...calls)
  const label = `Tool calls in the last hour: ${total}, maximum in 5 minutes: ${highest.toLocaleString('en')}`
  const x = (index: number) => (index / (calls.length - 1)) * (width - 2) + 1
  const y = (count: number) => height - 2 - (count / Math.max(1, highest)) * (height - 4)
  return (
    <span className={css.callsLine}>
      <svg className={css.hour} width={width} height={height} role="img" aria-label={label}>
        <title>{label}</title>
        <Line className={highest === 0 ? css.flat : ''} points={calls.map((count, index) => [x(index), y(count)])} />
      </svg>
      <span className="quiet" aria-hidden="true">
        {total}
      </span>
    </span>
  )
}
