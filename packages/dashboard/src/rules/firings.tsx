import { useInfiniteQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { counted } from '@wardline/text/counted'
import { useState } from 'react'
import { type Firing, type FiringDays, firingDays, firingsQuery } from '../data/rules.ts'
import { AgentLink } from '../parts/agent-link.tsx'
import { barsOf, CountBars } from '../parts/count-bars.tsx'
import { CountTable } from '../parts/count-table.tsx'
import { Button, ChipGroup } from '../ui/button.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { Fault, Panel } from '../ui/panel.tsx'
import { dayMs } from '../ui/span.ts'
import { type Column, DataTable } from '../ui/table.tsx'
import { Time } from '../ui/time.tsx'
import css from './rules.module.css'

/** Firings by the hour as bars. */
export const firingBars = (hours: readonly { hour: string; count: number }[], from: number, to: number) =>
  barsOf(
    hours.map(({ hour, count }) => ({ at: hour, count })),
    from,
    to,
  )

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
  { name: 'Time', kind: 'number', cell: ({ at }) => <Time at={at} /> },
  {
    name: 'Agent',
    cell: ({ group, instance_id }) => {
      const others = group.filter((value) => value !== instance_id)
      if (instance_id === null && others.length === 0) return <span className="quiet">all events together</span>
      return (
        <>
          {instance_id !== null && <AgentLink id={instance_id} />}
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
    name: 'Events',
    cell: ({ events }) =>
      events.length === 0 ? (
        <span className="quiet">events deleted</span>
      ) : (
        <details className={css.events}>
          <summary>{counted(events.length, 'event')}</summary>
          <div className="chips">
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
  { name: 'Count', kind: 'number', isWide: true, cell: ({ count }) => count.toLocaleString('en') },
  {
    name: 'Responses',
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
  { name: 'Mode', kind: 'word', isWide: true, cell: ({ mode, version }) => `${mode}, v${version}` },
]

/** The rule's firings: time, agent, events and responses. */
export function Firings({ id, days, onDays }: { id: string; days: FiringDays; onDays(days: FiringDays): void }) {
  const { data, error, hasNextPage, fetchNextPage, isFetchingNextPage } = useInfiniteQuery(firingsQuery(id, days))
  const [isTable, setTable] = useState(false)
  const first = data?.pages[0]
  const bars = first && firingBars(first.hours, first.from, first.from + days * dayMs)
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
              columns={[{ name: 'Firings', counts: bars.counts }]}
              from={bars.from}
              bucketMs={bars.bucketMs}
            />
          ) : (
            <CountBars label={heading} bars={bars} unit="firing" colour="accent" />
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
