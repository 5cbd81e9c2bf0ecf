import { useQuery } from '@tanstack/react-query'
import { type ReplyOf, severities } from '@wardline/contract'
import { useState } from 'react'
import { dayTimeText, timeText, useZone } from '../parts/time.tsx'
import { useWidth } from '../parts/width.ts'
import { call, sentenceOf } from '../service/client.ts'

type Histogram = ReplyOf<'getEventHistogram'>

/** Counts of a day change slowly, and each answer is a look at many rows. */
const refreshMs = 60_000
const buckets = '48'
const height = 132
const axis = 20

const histogramQuery = {
  queryKey: ['histogram'],
  queryFn: ({ signal }: { signal: AbortSignal }) => call('getEventHistogram', { query: { buckets }, signal }),
  refetchInterval: refreshMs,
}

const startOf = ({ from, bucket_seconds }: Histogram, index: number) =>
  Date.parse(from) + index * bucket_seconds * 1_000
const totalOf = (counts: Histogram['buckets'][number]) =>
  severities.reduce((sum, severity) => sum + counts[severity], 0)

/** The worst is drawn first, at the foot of a bar, and never thinner than two pixels: one breach among a million shows. */
function Bars({ data }: { data: Histogram }) {
  const zone = useZone()
  const [box, width] = useWidth<HTMLDivElement>()
  const highest = Math.max(1, ...data.buckets.map(totalOf))
  const slot = width / Math.max(1, data.buckets.length)
  const said = severities.map(
    (severity) => `${data.buckets.reduce((sum, counts) => sum + counts[severity], 0)} ${severity}`,
  )
  return (
    <div ref={box} className="chart">
      <svg width={width} height={height + axis} role="img" aria-label={`Events of 24 hours: ${said.join(', ')}`}>
        {data.buckets.map((counts, index) => {
          let y = height
          return severities.toReversed().map((severity) => {
            if (counts[severity] === 0) return null
            const size = Math.max(2, (counts[severity] / highest) * (height - 8))
            y -= size
            return (
              <rect
                key={`${startOf(data, index)} ${severity}`}
                className={severity}
                x={index * slot}
                y={Math.max(0, y)}
                width={Math.max(1, slot - 2)}
                height={size}
                fill="currentColor"
              />
            )
          })
        })}
        <line x1="0" x2={width} y1={height + 0.5} y2={height + 0.5} />
        {[0, 0.5, 1].map((part) => (
          <text
            key={part}
            x={part * width}
            y={height + 15}
            textAnchor={part === 0 ? 'start' : part === 1 ? 'end' : 'middle'}
          >
            {timeText(zone, startOf(data, part * data.buckets.length)).slice(0, 5)}
          </text>
        ))}
      </svg>
    </div>
  )
}

function CountTable({ data }: { data: Histogram }) {
  const zone = useZone()
  const rows = data.buckets.map((counts, index) => ({ counts, start: startOf(data, index) })).reverse()
  return (
    <div className="chart-table" tabIndex={0} role="group" aria-label="Counts">
      <table>
        <thead>
          <tr>
            <th>from</th>
            {severities.toReversed().map((severity) => (
              <th key={severity}>{severity}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map(({ counts, start }) => (
            <tr key={start}>
              <td>{dayTimeText(zone, start)}</td>
              {severities.toReversed().map((severity) => (
                <td key={severity}>{counts[severity].toLocaleString('en')}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

/** Events of a day by severity, as bars or as the table of the same numbers. */
export function SeverityChart() {
  const { data, error } = useQuery(histogramQuery)
  const [isTable, setTable] = useState(false)
  return (
    <section className="panel" aria-labelledby="severities">
      <header>
        <h2 id="severities">Events by severity</h2>
        <span className="quiet">{data && !data.complete ? '24 h, but not all events were looked at' : '24 h'}</span>
        <span className="end">
          <button type="button" aria-pressed={isTable} onClick={() => setTable(!isTable)}>
            {isTable ? 'Chart' : 'Table'}
          </button>
        </span>
      </header>
      {error && <p className="empty fault">{sentenceOf(error)}</p>}
      {data && (isTable ? <CountTable data={data} /> : <Bars data={data} />)}
    </section>
  )
}
