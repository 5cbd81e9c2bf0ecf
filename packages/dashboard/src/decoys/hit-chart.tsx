import { counted } from '@wardline/text/counted'
import { dayTimeText, useZone } from '../parts/time.tsx'
import { useWidth } from '../parts/width.ts'
import type { DecoyDetail } from '../service/decoys.ts'

const height = 56
const slots = 60

/** Hits of the decoy over time since it was planted. The table below lists the same hits. */
export function HitChart({ decoy, now }: { decoy: DecoyDetail; now: number }) {
  const zone = useZone()
  const [box, width] = useWidth<HTMLDivElement>()
  const times = decoy.hits.map(({ at }) => Date.parse(at))
  // If there are more hits than listed, only the latest are known, so the axis begins with the oldest of them.
  const isPart = decoy.hits.length < decoy.hitCount
  const from = isPart ? Math.min(...times) : Date.parse(decoy.createdAt)
  const to = Math.max(now, ...times, from + 60_000)
  const counts = Array.from({ length: slots }, () => 0)
  for (const time of times) {
    const slot = Math.floor(((time - from) / (to - from)) * slots)
    counts[Math.min(slots - 1, Math.max(0, slot))]! += 1
  }
  const highest = Math.max(...counts)
  return (
    <div ref={box} className="hit-chart">
      <svg
        width={width}
        height={height + 20}
        role="img"
        aria-label={`${counted(times.length, 'hit')} between ${dayTimeText(zone, from)} and ${dayTimeText(zone, to)}`}
      >
        {counts.map((count, slot) => {
          if (count === 0) return null
          const size = Math.max(4, (count / highest) * (height - 6))
          return (
            <rect
              key={slot}
              x={(slot / slots) * width}
              y={height - size}
              width={Math.max(2, width / slots - 2)}
              height={size}
              fill="currentColor"
            />
          )
        })}
        <line x1="0" x2={width} y1={height + 0.5} y2={height + 0.5} />
        <text x="0" y={height + 15}>
          {isPart ? '' : 'planted '}
          {dayTimeText(zone, from)}
        </text>
        <text x={width} y={height + 15} textAnchor="end">
          now
        </text>
      </svg>
    </div>
  )
}
