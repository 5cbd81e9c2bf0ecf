import { type ComponentProps, type ReactNode, useState } from 'react'
import { Button } from '../ui/button.tsx'
import { Fault, Panel } from '../ui/panel.tsx'
import { bucketsIn, laneNames, sum } from './chart.tsx'
import { CountTable } from './count-table.tsx'
import { TimeChart } from './time-chart.tsx'
import type { TimeRange } from './time-range.tsx'

interface ChartPanelProps extends Pick<ComponentProps<typeof Panel>, 'title' | 'note'> {
  /** Shown beside the button. */
  actions?: ReactNode
  fault?: unknown
  /** The numbers of the chart; undefined until they are loaded. */
  table: ComponentProps<typeof CountTable> | undefined
  /** The chart. */
  children: ReactNode
}

/** Whether a chart is shown as a table, and the button that changes it. */
export function useTableSwitch(): [isTable: boolean, button: ReactNode] {
  const [isTable, setTable] = useState(false)
  const button = (
    <Button aria-pressed={isTable} onClick={() => setTable(!isTable)}>
      {isTable ? 'Chart' : 'Table'}
    </Button>
  )
  return [isTable, button]
}

/** A chart in a panel, or its numbers as a table. */
export function ChartPanel({ title, note, actions, fault, table, children }: ChartPanelProps) {
  const [isTable, button] = useTableSwitch()
  const end = (
    <>
      {actions}
      {button}
    </>
  )
  return (
    <Panel title={title} note={note} end={end}>
      <Fault of={fault} isInPanel />
      {isTable && table ? <CountTable {...table} /> : children}
    </Panel>
  )
}

interface SeriesPanelProps extends Omit<ChartPanelProps, 'table' | 'children'> {
  /** Name of the drawing. */
  label: string
  data: { from: string; bucket_seconds: number } | undefined
  /** Counts per bucket. The class colours them. */
  series: readonly { name: string; counts: readonly number[]; className?: string }[]
  /** Height of bars in which the series are stacked, the first one below. Otherwise each series has a lane. */
  stacked?: number
  /** Shown if there are no series. */
  empty?: ReactNode
  onZoom(range: TimeRange): void
}

const lane = 20

/** Counts of several kinds over time. All share a scale, so that their heights can be compared. */
export function SeriesPanel({ label, data, series, stacked, empty, onZoom, ...panel }: SeriesPanelProps) {
  if (!data || series.length === 0)
    return (
      <ChartPanel {...panel} table={undefined}>
        {data && empty}
      </ChartPanel>
    )
  const count = series[0]!.counts.length
  const buckets = Array.from({ length: count }, (_, index) => series.map(({ counts }) => counts[index]!))
  const highest = Math.max(1, ...(stacked ? buckets.map(sum) : buckets.flat()))
  // One breach among a million events shows.
  const sizeOf = (value: number) =>
    value === 0 ? 0 : Math.max(2, (value / highest) * (stacked ? stacked - 8 : lane - 4))
  const footOf = (row: number, index: number) =>
    stacked ? stacked - sum(buckets[index]!.slice(0, row).map(sizeOf)) : (row + 1) * lane
  const say = (value: number, row: number) => `${value.toLocaleString('en')} ${series[row]!.name}`
  return (
    <ChartPanel {...panel} table={{ label, columns: series, ...bucketsIn(data) }}>
      <TimeChart
        label={`${label}: ${series.map(({ counts }, row) => say(sum(counts), row)).join(', ')}`}
        {...bucketsIn(data)}
        count={count}
        height={stacked ?? series.length * lane}
        left={laneNames}
        describe={(index) =>
          buckets[index]!.flatMap((value, row) => (value > 0 ? say(value, row) : [])).join(', ') || 'none'
        }
        onZoom={onZoom}
      >
        {({ x, slot }) =>
          series.map(({ name, counts, className }, row) => (
            <g key={name} className={className} fill="currentColor">
              <text x="0" y={13 + row * (stacked ? 17 : lane)}>
                {name}
              </text>
              {counts.map((value, index) => {
                const size = sizeOf(value)
                const y = Math.max(0, footOf(row, index) - size)
                return size > 0 && <rect key={index} x={x(index)} y={y} width={Math.max(1, slot - 2)} height={size} />
              })}
            </g>
          ))
        }
      </TimeChart>
    </ChartPanel>
  )
}
