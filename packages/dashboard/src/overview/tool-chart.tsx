import { keepPreviousData, queryOptions, useQuery } from '@tanstack/react-query'
import type { ReplyOf } from '@wardline/contract'
import { useState } from 'react'
import { call } from '../data/client.ts'
import { queryKeys } from '../data/query-keys.ts'
import { CountTable } from '../parts/count-table.tsx'
import { laneNames, TimeChart } from '../parts/time-chart.tsx'
import { RangeText, type TimeRange } from '../parts/time-range.tsx'
import { Button } from '../ui/button.tsx'
import { EmptyState, Fault, Panel } from '../ui/panel.tsx'
import css from './overview.module.css'

type Tools = ReplyOf<'getToolHistogram'>

const refreshMs = 60_000
const buckets = '48'
const lane = 20

const toolsQuery = (range: TimeRange) =>
  queryOptions({
    queryKey: queryKeys.tools(range),
    queryFn: ({ signal }) => call('getToolHistogram', { query: { ...range, buckets }, signal }),
    refetchInterval: refreshMs,
    placeholderData: keepPreviousData,
  })

const sum = (counts: readonly number[]) => counts.reduce((total, count) => total + count, 0)

/** One lane per tool. All lanes share a scale, so that their heights can be compared. */
function Lanes({ data, onZoom }: { data: Tools; onZoom(range: TimeRange): void }) {
  const highest = Math.max(1, ...data.tools.flatMap(({ calls }) => calls))
  const totals = data.tools.map(({ tool, calls }) => `${sum(calls).toLocaleString('en')} ${tool}`)
  return (
    <TimeChart
      label={`Tool calls: ${totals.join(', ')}`}
      from={Date.parse(data.from)}
      bucketMs={data.bucket_seconds * 1_000}
      count={data.tools[0]!.calls.length}
      height={data.tools.length * lane}
      left={laneNames}
      describe={(index) =>
        data.tools
          .filter(({ calls }) => calls[index]! > 0)
          .map(({ tool, calls }) => `${calls[index]!.toLocaleString('en')} ${tool}`)
          .join(', ') || 'no calls'
      }
      onZoom={onZoom}
    >
      {({ x, slot }) =>
        data.tools.map(({ tool, calls }, row) => (
          <g key={tool}>
            <text x="0" y={row * lane + lane - 6}>
              {tool}
            </text>
            {calls.map((count, index) => {
              if (count === 0) return null
              const size = Math.max(2, (count / highest) * (lane - 4))
              return (
                <rect
                  key={index}
                  className={css.call}
                  x={x(index)}
                  y={(row + 1) * lane - size}
                  width={Math.max(1, slot - 2)}
                  height={size}
                />
              )
            })}
          </g>
        ))
      }
    </TimeChart>
  )
}

/** Tool calls over time, on the same axis as the events above. */
export function ToolChart({ range, onZoom }: { range: TimeRange; onZoom(range: TimeRange): void }) {
  const { data, error } = useQuery(toolsQuery(range))
  const [isTable, setTable] = useState(false)
  return (
    <Panel
      title="Tool calls"
      note={range.from === undefined ? '24 h' : <RangeText {...range} />}
      end={
        <Button aria-pressed={isTable} onClick={() => setTable(!isTable)}>
          {isTable ? 'Chart' : 'Table'}
        </Button>
      }
    >
      <Fault of={error} isInPanel />
      {data?.tools.length === 0 && (
        <EmptyState>
          No tool calls in this range. The SDK reports calls of guarded tools; other clients send events of type
          tool_call.
        </EmptyState>
      )}
      {data && data.tools.length > 0 && !isTable && <Lanes data={data} onZoom={onZoom} />}
      {data && data.tools.length > 0 && isTable && (
        <CountTable
          label="Tool calls"
          columns={data.tools.map(({ tool, calls }) => ({ name: tool, counts: calls }))}
          from={Date.parse(data.from)}
          bucketMs={data.bucket_seconds * 1_000}
        />
      )}
    </Panel>
  )
}
