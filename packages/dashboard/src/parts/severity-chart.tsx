import { keepPreviousData, queryOptions, useQuery } from '@tanstack/react-query'
import { type QueryOf, severities } from '@wardline/contract'
import type { ReactNode } from 'react'
import { call } from '../data/client.ts'
import { queryKeys } from '../data/query-keys.ts'
import { Button } from '../ui/button.tsx'
import { Time } from '../ui/time.tsx'
import { SeriesPanel } from './chart-panel.tsx'
import { RangeText, type TimeRange } from './time-range.tsx'

type Filter = Omit<NonNullable<QueryOf<'getEventHistogram'>>, 'buckets'>

/** Counts of a day change slowly, and each read scans many rows. */
const refreshMs = 60_000

const histogramQuery = (filter: Filter) =>
  queryOptions({
    queryKey: queryKeys.histogram(filter),
    queryFn: ({ signal }) => call('getEventHistogram', { query: { ...filter, buckets: '48' }, signal }),
    refetchInterval: refreshMs,
    // Keeps the layout while another range loads.
    placeholderData: keepPreviousData,
  })

interface SeverityChartProps {
  filter?: Filter
  range: TimeRange
  onZoom(range: TimeRange): void
  /** Height of the bars in pixels. */
  height?: number
  /** Shown beside the buttons. */
  actions?: ReactNode
}

/** Events by severity of the last day or of a range, the worst below. */
export function SeverityChart({ filter, range, height = 112, onZoom, actions }: SeverityChartProps) {
  const { data, error } = useQuery(histogramQuery({ ...filter, ...range }))
  const isZoomed = range.from !== undefined || range.to !== undefined
  return (
    <SeriesPanel
      title="Events by severity"
      note={
        <>
          {isZoomed ? <RangeText {...range} /> : '24 h'}
          <span className="fine-pointer">, drag to zoom</span>
          {data?.scanned_to && (
            <span className="warning">
              {' · incomplete before '}
              <Time at={data.scanned_to} />
            </span>
          )}
        </>
      }
      actions={
        <>
          {actions}
          {isZoomed && <Button onClick={() => onZoom({})}>Reset zoom</Button>}
        </>
      }
      fault={error}
      label={isZoomed ? 'Events in this range' : 'Events of the last 24 hours'}
      data={data}
      series={severities
        .toReversed()
        .map((name) => ({ name, className: name, counts: data?.buckets.map((counts) => counts[name]) ?? [] }))}
      stacked={height}
      onZoom={onZoom}
    />
  )
}
