import { useHour } from '../data/hours.ts'
import css from './fleet.module.css'

const cell = 7
const height = 16
const sum = (counts: readonly number[]) => counts.reduce((total, count) => total + count, 0)

/** Heartbeats of the last hour, one mark per five minutes: full, low if some are missing, hollow if all are. */
export function HeartbeatBar({ id }: { id: string }) {
  const hour = useHour(id)
  if (!hour) return null
  const { heartbeats, expected } = hour
  const label = `Heartbeats in the last hour: ${sum(heartbeats)}, expected: ${sum(expected)}`
  return (
    <svg className={css.beatsBar} width={heartbeats.length * cell} height={height} role="img" aria-label={label}>
      <title>{label}</title>
      {heartbeats.map((count, index) => {
        const due = expected[index] ?? 0
        const state = count >= due ? (count > 0 ? 'full' : 'none') : count > 0 ? 'some' : 'missing'
        const size = state === 'some' ? height / 2 : height
        const inset = state === 'missing' ? 0.75 : 0
        return (
          <rect
            key={index}
            className={css[state]}
            x={index * cell + inset}
            y={height - size + inset}
            width={cell - 2 - 2 * inset}
            height={size - 2 * inset}
          />
        )
      })}
    </svg>
  )
}

const width = 84

/** Tool calls of the last hour per five minutes, without the current, incomplete bucket. */
export function CallsLine({ id }: { id: string }) {
  const hour = useHour(id)
  if (!hour) return null
  const calls = hour.tool_calls.slice(0, -1)
  const total = sum(hour.tool_calls).toLocaleString('en')
  const highest = Math.max(...calls)
  const label = `Tool calls in the last hour: ${total}, maximum in 5 minutes: ${highest.toLocaleString('en')}`
  const points = calls.map((count, index) => {
    const x = (index / (calls.length - 1)) * (width - 2) + 1
    return `${x.toFixed(1)},${(height - 2 - (highest === 0 ? 0 : (count / highest) * (height - 4))).toFixed(1)}`
  })
  return (
    <span className={css.callsLine}>
      <svg width={width} height={height} role="img" aria-label={label}>
        <title>{label}</title>
        <polyline className={highest === 0 ? css.flat : undefined} points={points.join(' ')} />
      </svg>
      <span className="quiet" aria-hidden="true">
        {total}
      </span>
    </span>
  )
}
