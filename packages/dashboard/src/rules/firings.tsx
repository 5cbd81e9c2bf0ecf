import { useInfiniteQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { counted } from '@wardline/text/counted'
import { useState } from 'react'
import { type Firing, type FiringDays, firingDays, firingsQuery } from '../data/rules.ts'
import { CountTable } from '../parts/count-table.tsx'
import { TimeChart } from '../parts/time-chart.tsx'
import { Button, ChipGroup } from '../ui/button.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { Fault, Panel } from '../ui/panel.tsx'
import { dayMs, hourMs } from '../ui/span.ts'
import { type Column, DataTable } from '../ui/table.tsx'
import { Time } from '../ui/time.tsx'
import css from './rules.module.css'

const height = 96

interface Bars {
  from: number
  bucketMs: number
  counts: readonly number[]
}

/** Sums hourly counts into bars of an hour each, or of a day in a long range: hours would be one pixel wide. */
export function barsOf(hours: readonly { hour: string; count: number }[], from: number, to: number): Bars {
  const bucketMs = to - from > 8 * dayMs ? dayMs : hourMs
  const counts = Array.from({ length: Math.max(1, Math.ceil((to - from) / bucketMs)) }, () => 0)
  for (const { hour, count } of hours) {
    const index = Math.floor((Date.parse(hour) - from) / bucketMs)
    counts[Math.min(counts.length - 1, Math.max(0, index))]! += count
  }
  return { from, bucketMs, counts }
}

export function FiringBars({ label, bars: { from, bucketMs, counts } }: { label: string; bars: Bars }) {
  const highest = Math.max(1, ...counts)
  return (
    <TimeChart
      label={label}
      from={from}
      bucketMs={bucketMs}
      count={counts.length}
      height={height}
      describe={(index) => counted(counts[index]!, 'firing')}
    >
      {({ x, slot }) =>
        counts.map((count, index) => {
          if (count === 0) return null
          const size = Math.max(3, (count / highest) * (height - 8))
          const width = Math.max(2, slot - 2)
          return <rect key={index} className={css.bar} x={x(index)} y={height - size} width={width} height={size} />
        })
      }
    </TimeChart>
  )
}

/** Chips for the range of a chart or backtest. */
export function DayChips({ days, onDays }: { days: FiringDays; onDays(days: FiringDays): void }) {
  return (
    <ChipGroup
      label="Range"
      value={String(days)}
      options={firingDays.map((each) => ({ value: String(each), name: each === 1 ? '24 h' : `${each} days` }))}
      onChange={(value) => onDays(Number(value) as FiringDays)}
    />
  )
}

type Fired = Pick<Firing, 'seq' | 'at' | 'group' | 'instance_id' | 'events'>

/** When a rule fired, for which agent or group, and links to the events that caused it. */
export const firedColumns: readonly Column<Fired>[] = [
  { name: 'time', kind: 'number', cell: ({ at }) => <Time at={at} /> },
  {
    name: 'agent',
    cell: ({ group, instance_id }) => {
      const others = group.filter((value) => value !== instance_id)
      if (instance_id === null && others.length === 0) return <span className="quiet">all events together</span>
      return (
        <>
          {instance_id !== null && (
            <Link to="/fleet/$id" params={{ id: instance_id }}>
              {instance_id}
            </Link>
          )}
          {others.map((value, index) => (
            <div key={index} className="quiet">
              <HostileText text={value} max={100} />
            </div>
          ))}
        </>
      )
    },
  },
  {
    name: 'events',
    cell: ({ events }) =>
      events.length === 0 ? (
        <span className="quiet">events deleted</span>
      ) : (
        <details className={css.events}>
          <summary>{counted(events.length, 'event')}</summary>
          <div className={css.links}>
            {events.map(({ seq, id }) => (
              <Link key={id} to="/events" search={{ open: seq }}>
                #{seq}
              </Link>
            ))}
          </div>
        </details>
      ),
  },
]

const columns: readonly Column<Firing>[] = [
  ...firedColumns,
  { name: 'count', kind: 'number', isWide: true, cell: ({ count }) => count.toLocaleString('en') },
  {
    name: 'responses',
    cell: ({ mode, responses }) =>
      responses.length === 0 ? (
        <span className="quiet">{mode === 'observe' ? 'none: mode observe' : 'none'}</span>
      ) : (
        responses.map(({ action, target, result, detail }, index) => (
          <div key={index}>
            {action.replace('_', ' ')} {target !== null && <HostileText text={target} max={100} />}
            {': '}
            <span className={result === 'failed' || result === 'refused' ? 'critical' : ''}>{result}</span>
            {detail !== null && (
              <div className="quiet">
                <HostileText text={detail} max={200} />
              </div>
            )}
          </div>
        ))
      ),
  },
  { name: 'mode', kind: 'word', isWide: true, cell: ({ mode, version }) => `${mode}, v${version}` },
]

/** The rule's firings: time, agent, events and responses. */
export function Firings({ id, days, onDays }: { id: string; days: FiringDays; onDays(days: FiringDays): void }) {
  const { data, error, hasNextPage, fetchNextPage, isFetchingNextPage } = useInfiniteQuery(firingsQuery(id, days))
  const [isTable, setTable] = useState(false)
  const first = data?.pages[0]
  const bars = first && barsOf(first.hours, first.from, first.from + days * dayMs)
  const total = bars?.counts.reduce((sum, count) => sum + count, 0) ?? 0
  const suppressed = first?.hours.reduce((sum, hour) => sum + hour.suppressed, 0) ?? 0
  const beyond = suppressed === 0 ? '' : `, ${suppressed.toLocaleString('en')} more suppressed`
  const heading = first
    ? `${counted(total, 'firing')} in ${days === 1 ? '24 hours' : `${days} days`}${beyond}`
    : 'Firings'
  return (
    <>
      <Panel
        title={heading}
        end={
          <>
            <DayChips days={days} onDays={onDays} />
            <Button aria-pressed={isTable} onClick={() => setTable(!isTable)}>
              {isTable ? 'Chart' : 'Table'}
            </Button>
          </>
        }
      >
        <Fault of={error} isInPanel />
        {bars &&
          (isTable ? (
            <CountTable
              label="Firings over time"
              columns={[{ name: 'firings', counts: bars.counts }]}
              from={bars.from}
              bucketMs={bars.bucketMs}
            />
          ) : (
            <FiringBars label={heading} bars={bars} />
          ))}
      </Panel>
      {data && (
        <DataTable
          label="Firings"
          columns={columns}
          rows={data.pages.flatMap((page) => page.firings)}
          rowKey={({ seq }) => seq}
          empty="No firings in this period. A rule only processes events received after it was saved."
          maxRows={Number.POSITIVE_INFINITY}
        />
      )}
      {hasNextPage && (
        <div>
          <Button disabled={isFetchingNextPage} onClick={() => void fetchNextPage()}>
            Older firings
          </Button>
        </div>
      )}
    </>
  )
}
