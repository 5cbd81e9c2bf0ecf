import { keepPreviousData, queryOptions, useQuery } from '@tanstack/react-query'
import { call } from '../data/client.ts'
import { queryKeys } from '../data/query-keys.ts'
import { SeriesPanel } from '../parts/chart-panel.tsx'
import { RangeText, type TimeRange } from '../parts/time-range.tsx'
import { EmptyState } from '../ui/panel.tsx'

const refreshMs = 60_000

const toolsQuery = (range: TimeRange) =>
  queryOptions({
    queryKey: queryKeys.tools(range),
    queryFn: ({ signal }) => call('getToolHistogram', { query: { ...range, buckets: '48' }, signal }),
    refetchInterval: refreshMs,
    placeholderData: keepPreviousData,
  })

/** Tool calls over time, on the same axis as the events above. */
export function ToolChart({ range, onZoom }: { range: TimeRange; onZoom(range: TimeRange): void }) {
  const { data, error } = useQuery(toolsQuery(range))
  return (
    <SeriesPanel
      title="Tool calls"
      note={range.from === undefined ? '24 h' : <RangeText {...range} />}
      fault={error}
      label="Tool calls"
      data={data}
      series={data?.tools.map(({ tool, calls }) => ({ name: tool, counts: calls })) ?? []}
      empty={
        <EmptyState>
          No tool calls in this range. The SDK reports calls of guarded tools; other clients send events of type
          tool_call.
        </EmptyState>
      }
      onZoom={onZoom}
    />
  )
}
