import { keepPreviousData, queryOptions, useQuery } from '@tanstack/react-query'
import { type QueryOf, type ReplyOf, severities } from '@wardline/contract'
import { type ReactNode, useState } from 'react'
import { call } from '../data/client.ts'
import { queryKeys } from '../data/query-keys.ts'
import { Button } from '../ui/button.tsx'
import { Fault, Panel } from '../ui/panel.tsx'
import { Time } from '../ui/time.tsx'
import { CountTable } from './count-table.tsx'
import { laneNames, TimeChart } from './time-chart.tsx'
import { RangeText, type TimeRange } from './time-range.tsx'

type Histogram = ReplyOf<'getEventHistogram'>
type Filter = Omit<NonNullable<QueryOf<'getEventHistogram'>>, 'buckets'>

/** Counts of a day change slowly, and each read scans many rows. */
const refreshMs = 60_000
const buckets = '48'

const histogramQuery = (filter: Filter) =>
  queryOptions({
    queryKey: queryKeys.histogram(filter),
    queryFn: ({ signal }) => call('getEventHistogram', { query: { ...filter, buckets }, signal }),
    refetchInterval: refreshMs,
    // Keeps the layout while another range loads.
    placeholderData: keepPreviousData,
  })

const worstFirst = severities.toReversed()
const sum = (counts: readonly number[]) => counts.reduce((total, count) => total + count, 0)

interface BarsProps {
  data: Histogram
  label: string
  height: number
  onZoom(range: Required<TimeRange>): void
}

/**
 * Draws the worst severity first, at the bottom of a bar and at least two pixels high, so that one breach among a
 * million events shows.
 */
function Bars({ data, label, height, onZoom }: BarsProps) {
  const highest = Math.max(1, ...data.buckets.map((counts) => sum(worstFirst.map((severity) => counts[severity]))))
  const totals = worstFirst.map(
    (severity) => `${sum(data.buckets.map((counts) => counts[severity])).toLocaleString('en')} ${severity}`,
  )
  return (
    <TimeChart
      label={`${label}: ${totals.join(', ')}`}
      from={Date.parse(data.from)}
      bucketMs={data.bucket_seconds * 1_000}
      count={data.buckets.length}
      height={height}
      left={laneNames}
      describe={(index) =>
        worstFirst.map((severity) => `${data.buckets[index]![severity].toLocaleString('en')} ${severity}`).join(', ')
      }
      onZoom={onZoom}
    >
      {({ x, slot }) => (
        <>
          {worstFirst.map((severity, index) => (
            <text key={severity} className={severity} x="0" y={12 + index * 17}>
              {severity}
            </text>
          ))}
          {data.buckets.map((counts, index) => {
            let y = height
            return worstFirst.map((severity) => {
              if (counts[severity] === 0) return null
              const size = Math.max(2, (counts[severity] / highest) * (height - 8))
              y -= size
              return (
                <rect
                  key={`${index} ${severity}`}
                  className={severity}
                  x={x(index)}
                  y={Math.max(0, y)}
                  width={Math.max(1, slot - 2)}
                  height={size}
                  fill="currentColor"
                />
              )
            })
          })}
        </>
      )}
    </TimeChart>
  )
}

interface SeverityChartProps {
  filter?: Filter
  range: TimeRange
  onZoom(range: TimeRange): void
  /** Height of the bars in pixels. */
  height?: number
  /** Shown beside the buttons. */
  actions?: ReactNode
}

/** Events by severity of the last day or of a range, as bars or as a table. */
export function SeverityChart({ filter, range, height = 112, onZoom, actions }: SeverityChartProps) {
  const { data, error } = useQuery(histogramQuery({ ...filter, ...range }))
  const [isTable, setTable] = useState(false)
  const isZoomed = range.from !== undefined || range.to !== undefined
  return (
    <Panel
      title="Events by severity"
      note={
        <>
          {isZoomed ? <RangeText {...range} /> : '24 h'}, drag to zoom
          {data?.scanned_to && (
            <span className="warning">
              {' · incomplete before '}
              <Time at={data.scanned_to} />
            </span>
          )}
        </>
      }
      end={
        <>
          {actions}
          {isZoomed && <Button onClick={() => onZoom({})}>Reset zoom</Button>}
          <Button aria-pressed={isTable} onClick={() => setTable(!isTable)}>
            {isTable ? 'Chart' : 'Table'}
          </Button>
        </>
      }
    >
      <Fault of={error} isInPanel />
      {data &&
        (isTable ? (
          <CountTable
            label="Counts"
            columns={worstFirst.map((name) => ({ name, counts: data.buckets.map((counts) => counts[name]) }))}
            from={Date.parse(data.from)}
            bucketMs={data.bucket_seconds * 1_000}
          />
        ) : (
          <Bars
            data={data}
            label={isZoomed ? 'Events in this range' : 'Events of the last 24 hours'}
            height={height}
            onZoom={onZoom}
          />
        ))}
    </Panel>
  )
}
