import { counted } from '@wardline/text/counted'

const width = 96
const height = 20

/** Firings of the last 24 hours, one bar per hour. */
export function HourBars({ hours }: { hours: readonly number[] }) {
  const total = hours.reduce((sum, count) => sum + count, 0)
  const highest = Math.max(1, ...hours)
  const slot = width / hours.length
  const label = `${counted(total, 'firing')} in 24 hours`
  return (
    <svg className="hour-bars" width={width} height={height} role="img" aria-label={label}>
      <title>{label}</title>
      <line x1="0" x2={width} y1={height - 0.5} y2={height - 0.5} />
      {hours.map((count, index) => {
        if (count === 0) return null
        const size = Math.max(3, (count / highest) * (height - 2))
        return <rect key={index} x={index * slot} y={height - size} width={slot - 1} height={size} />
      })}
    </svg>
  )
}
