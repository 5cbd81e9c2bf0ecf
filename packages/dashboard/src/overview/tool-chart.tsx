import { keepPreviousData, queryOptions, useQuery } from '@tanstack/react-query'
import type { ReplyOf } from '@wardline/contract'
import { useState } from 'react'
import { CountTable } from '../parts/count-table.tsx'
import { laneNames, TimeChart } from '../parts/time-chart.tsx'
import { RangeText, type TimeRange } from '../parts/time-range.tsx'
import { call, sentenceOf } from '../service/client.ts'

type Tools = ReplyOf<'getToolHistogram'>

const refreshMs = 60_000
const buckets = '48'
const lane = 20

const toolsQuery = (range: TimeRange) =>
  queryOptions({
    queryKey: ['tools', range],
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
                  className="call"
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
  const isZoomed = range.from !== undefined
  return (
    <section className="panel" aria-labelledby="tools">
      <header>
        <h2 id="tools">Tool calls</h2>
        <span className="quiet">{isZoomed ? <RangeText {...range} /> : '24 h'}</span>
        <span className="end">
          <button type="button" aria-pressed={isTable} onClick={() => setTable(!isTable)}>
            {isTable ? 'Chart' : 'Table'}
          </button>
        </span>
      </header>
      {error && <p className="empty fault">{sentenceOf(error)}</p>}
      {data?.tools.length === 0 && (
        <p className="empty">
          No tool call in this range. The SDK reports calls of guarded tools; others report events of type tool_call.
        </p>
      )}
      {data &&
        data.tools.length > 0 &&
        (isTable ? (
          <CountTable
            label="Tool calls"
            columns={data.tools.map(({ tool, calls }) => ({ name: tool, counts: calls }))}
            from={Date.parse(data.from)}
            bucketMs={data.bucket_seconds * 1_000}
          />
        ) : (
          <Lanes data={data} onZoom={onZoom} />
        ))}
    </section>
  )
}
