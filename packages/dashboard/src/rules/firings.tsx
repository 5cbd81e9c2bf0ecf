import { useInfiniteQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { counted } from '@wardline/text/counted'
import { useState } from 'react'
import { CountTable } from '../parts/count-table.tsx'
import { HostileText } from '../parts/hostile-text.tsx'
import { dayMs, hourMs } from '../parts/span.ts'
import { Time } from '../parts/time.tsx'
import { TimeChart } from '../parts/time-chart.tsx'
import { sentenceOf } from '../service/client.ts'
import { type Firing, type FiringDays, firingDays, firingsQuery } from '../service/rules.ts'

const height = 96
/** Hourly bars of a month would be one pixel wide. */
const bucketOf = (days: number): number => (days > 7 ? dayMs : hourMs)

/** Sums hourly counts into `bars` bars of `bucketMs` each, starting at `from`. */
export function barsOf(
  hours: readonly { hour: string; count: number }[],
  from: number,
  bucketMs: number,
  bars: number,
) {
  const counts = Array.from({ length: bars }, () => 0)
  for (const { hour, count } of hours) {
    const index = Math.floor((Date.parse(hour) - from) / bucketMs)
    counts[Math.min(bars - 1, Math.max(0, index))]! += count
  }
  return counts
}

export function FiringBars({
  label,
  counts,
  from,
  bucketMs,
}: {
  label: string
  counts: readonly number[]
  from: number
  bucketMs: number
}) {
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
          return (
            <rect
              key={index}
              className="firing-bar"
              x={x(index)}
              y={height - size}
              width={Math.max(2, slot - 2)}
              height={size}
            />
          )
        })
      }
    </TimeChart>
  )
}

/** Links to the events that caused a firing. */
export function EventLinks({ events }: { events: readonly { seq: number; id: string }[] }) {
  if (events.length === 0) return <span className="quiet">events removed</span>
  return (
    <details className="firing-events">
      <summary>{counted(events.length, 'event')}</summary>
      <ul>
        {events.map(({ seq, id }) => (
          <li key={id}>
            <Link to="/events" search={{ open: seq }}>
              #{seq}
            </Link>
          </li>
        ))}
      </ul>
    </details>
  )
}

export function GroupText({ group, instance }: { group: readonly string[]; instance: string | null }) {
  const others = group.filter((value) => value !== instance)
  return (
    <>
      {instance === null ? (
        others.length === 0 && <span className="quiet">all events together</span>
      ) : (
        <Link to="/fleet/$id" params={{ id: instance }}>
          {instance}
        </Link>
      )}
      {others.length > 0 && (
        <span className="under">
          {others.map((value, index) => (
            <span key={index}>
              {index > 0 && ', '}
              <HostileText text={value} max={100} />
            </span>
          ))}
        </span>
      )}
    </>
  )
}

function Done({ firing: { mode, responses } }: { firing: Firing }) {
  if (responses.length === 0)
    return <span className="quiet">{mode === 'observe' ? 'nothing: observed' : 'nothing'}</span>
  return (
    <ul>
      {responses.map(({ action, target, result, detail }, index) => (
        <li key={index}>
          {action.replace('_', ' ')}
          {target !== null && (
            <>
              {' '}
              <HostileText text={target} max={100} />
            </>
          )}
          : <span className={result === 'failed' || result === 'refused' ? 'critical' : ''}>{result}</span>
          {detail !== null && (
            <span className="under">
              <HostileText text={detail} max={200} />
            </span>
          )}
        </li>
      ))}
    </ul>
  )
}

function FiringRows({ firings }: { firings: readonly Firing[] }) {
  return (
    <div className="list-panel">
      <table className="list">
        <thead>
          <tr>
            <th>fired</th>
            <th>for</th>
            <th className="only-wide">counted</th>
            <th>by</th>
            <th>done</th>
            <th className="only-wide">as</th>
          </tr>
        </thead>
        <tbody>
          {firings.map((firing) => (
            <tr key={firing.seq}>
              <td className="number">
                <Time at={firing.at} />
              </td>
              <td>
                <GroupText group={firing.group} instance={firing.instance_id} />
              </td>
              <td className="only-wide">{firing.count.toLocaleString('en')}</td>
              <td>
                <EventLinks events={firing.events} />
              </td>
              <td>
                <Done firing={firing} />
              </td>
              <td className="only-wide number quiet">
                {firing.mode}, v{firing.version}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

/** The rule's firings: time, agent, events and actions. */
export function Firings({ id, days, onDays }: { id: string; days: FiringDays; onDays(days: FiringDays): void }) {
  const { data, error, hasNextPage, fetchNextPage, isFetchingNextPage } = useInfiniteQuery(firingsQuery(id, days))
  const [isTable, setTable] = useState(false)
  const first = data?.pages[0]
  const bucketMs = bucketOf(days)
  const counts = first ? barsOf(first.hours, first.from, bucketMs, (days * dayMs) / bucketMs) : []
  const total = counts.reduce((sum, count) => sum + count, 0)
  const suppressed = first?.hours.reduce((sum, hour) => sum + hour.suppressed, 0) ?? 0
  const firings = data?.pages.flatMap((page) => page.firings) ?? []
  const span = days === 1 ? '24 hours' : `${days} days`
  const beyond = suppressed === 0 ? '' : `, ${suppressed.toLocaleString('en')} more suppressed`
  const heading = `${counted(total, 'firing')} in ${span}${beyond}`
  return (
    <section className="panel" aria-labelledby="firings">
      <header>
        <h2 id="firings">{first ? heading : 'Firings'}</h2>
        <span className="end">
          {firingDays.map((each) => (
            <button key={each} type="button" className="chip" aria-pressed={each === days} onClick={() => onDays(each)}>
              {each === 1 ? '24 h' : `${each} days`}
            </button>
          ))}
          <button type="button" aria-pressed={isTable} onClick={() => setTable(!isTable)}>
            {isTable ? 'Chart' : 'Table'}
          </button>
        </span>
      </header>
      {error && (
        <p role="alert" className="empty fault">
          {sentenceOf(error)}
        </p>
      )}
      {first &&
        (isTable ? (
          <CountTable
            label="Firings over time"
            columns={[{ name: 'firings', counts }]}
            from={first.from}
            bucketMs={bucketMs}
          />
        ) : (
          <FiringBars label={heading} counts={counts} from={first.from} bucketMs={bucketMs} />
        ))}
      {first && firings.length === 0 && (
        <p className="empty">It did not fire in this time. A rule sees the events from when it was stored.</p>
      )}
      {firings.length > 0 && <FiringRows firings={firings} />}
      {hasNextPage && (
        <p className="rule-inner">
          <button type="button" disabled={isFetchingNextPage} onClick={() => void fetchNextPage()}>
            Older firings
          </button>
        </p>
      )}
    </section>
  )
}
