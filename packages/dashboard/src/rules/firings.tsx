import { useInfiniteQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { type RuleBacktest, ruleLimits } from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import { useEffect, useRef, useState } from 'react'
import { useChange } from '../data/change.ts'
import { call } from '../data/client.ts'
import { type Firing, type FiringDays, firingDays, firingsQuery } from '../data/rules.ts'
import { AgentLink } from '../parts/agent-link.tsx'
import { barsOf, CountBars } from '../parts/count-bars.tsx'
import { CountTable } from '../parts/count-table.tsx'
import { Button, ChipGroup } from '../ui/button.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { EmptyState, Fault, Panel } from '../ui/panel.tsx'
import { dayMs, hourMs, spanText } from '../ui/span.ts'
import { type Column, DataTable } from '../ui/table.tsx'
import { Time } from '../ui/time.tsx'
import css from './rules.module.css'

/** Firings by the hour as bars. */
const firingBars = (hours: readonly { hour: string; count: number }[], from: number, to: number) =>
  barsOf(
    hours.map(({ hour, count }) => ({ at: hour, count })),
    from,
    to,
  )

/** Chips for the range of a chart or backtest. */
function DayChips({ days, onDays }: { days: FiringDays; onDays(days: FiringDays): void }) {
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
const firedColumns = (rule?: string): Column<Fired>[] => [
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
              <Link key={id} to="/events" search={{ open: seq, rule }}>
                #{seq}
              </Link>
            ))}
          </div>
        </details>
      ),
  },
]

const columnsOf = (rule: string): Column<Firing>[] => [
  ...firedColumns(rule),
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
          columns={columnsOf(id)}
          rows={data.pages.flatMap((page) => page.firings)}
          rowKey={({ seq }) => seq}
          empty="No firings in this period. A rule only processes events received after it was saved."
          maxRows={Number.POSITIVE_INFINITY}
        />
      )}
      {hasNextPage && (
        <div>
          <Button disabled={isFetchingNextPage} onClick={() => void fetchNextPage()}>
            Load older firings
          </Button>
        </div>
      )}
    </>
  )
}

/** Timeout: enough to read a month of a busy fleet. A person can abort earlier. */
const patienceMs = 10 * 60_000
/** Samples shown at first. */
const firstSamples = 8

/** The agents of the samples, most frequent first. */
function Agents({ samples, instances }: Pick<RuleBacktest, 'samples' | 'instances'>) {
  const counts = new Map<string, number>()
  for (const { instance_id } of samples) {
    if (instance_id !== null) counts.set(instance_id, (counts.get(instance_id) ?? 0) + 1)
  }
  if (counts.size === 0) return null
  const sorted = [...counts].sort(([, one], [, other]) => other - one)
  return (
    <p className="chips">
      {sorted.map(([id, count]) => (
        <span key={id}>
          <AgentLink id={id} /> <span className="quiet">{count}</span>
        </span>
      ))}
      {instances > counts.size && (
        <span className="quiet">and {counted(instances - counts.size, 'agent')} in older firings</span>
      )}
    </p>
  )
}

/** Over how much data a backtest looked: a rule that is quiet for minutes may fire within a week. */
function dataText({ data_from, to }: RuleBacktest, days: number): string {
  const covered = Date.parse(to) - Date.parse(data_from ?? to)
  return covered < days * dayMs - hourMs
    ? `the ${spanText(covered)} of events that there are`
    : days === 1
      ? '24 hours'
      : `${days} days`
}

/** What the rule would have done, in a sentence. */
function resultText(result: RuleBacktest, days: number): string {
  const { data_from, firings, instances, suspensions } = result
  if (data_from === null) return 'There are no stored events to look at.'
  const data = dataText(result, days)
  if (firings === 0) return `Would not have fired in ${data}.`
  return `${counted(firings, 'firing')} on ${counted(instances, 'agent')} in ${data}, ${counted(suspensions, 'agent')} suspended in mode enforce.`
}

function Result({ result, days, isOutdated }: { result: RuleBacktest; days: number; isOutdated: boolean }) {
  const { firings, suppressed, instances, suspensions, evicted, samples, hours, events_read, duration_ms } = result
  const to = Date.parse(result.to)
  // The chart shows at least a day: a single hour would be one block.
  const start = Math.floor(Math.min(Date.parse(result.from), to - dayMs) / hourMs) * hourMs
  return (
    <>
      <div className="inner">
        <p className="quiet">
          <Time at={result.from} /> to <Time at={result.to} />, {counted(events_read, 'event')} in{' '}
          {(duration_ms / 1_000).toFixed(1)} s{isOutdated && <b className="warning"> · before your last changes</b>}
        </p>
        <p role="status">
          <b>{resultText(result, days)}</b>
          {suspensions > 0 && <span className="quiet"> The brake may block some of these suspensions.</span>}
        </p>
        {suppressed > 0 && (
          <p className="quiet">
            {counted(suppressed, 'more firing')} suppressed: a rule fires at most {ruleLimits.minuteFirings} times a
            minute per agent.
          </p>
        )}
        {evicted > 0 && (
          <p className="warning">
            {counted(evicted, 'group')} dropped because there were too many: firings may be missing.
          </p>
        )}
        <Agents samples={samples} instances={instances} />
      </div>
      {firings > 0 && (
        <CountBars
          label={`Backtest: ${counted(firings, 'firing')}`}
          bars={firingBars(hours, start, to)}
          unit="firing"
          colour="accent"
        />
      )}
    </>
  )
}

/** Runs stored events through the editor's text. Nothing is saved and no agent is suspended. */
export function Backtest({ text }: { text: string }) {
  const [days, setDays] = useState<FiringDays>(7)
  const [done, setDone] = useState<{ result: RuleBacktest; text: string; days: number }>()
  const stop = useRef<AbortController>(undefined)
  useEffect(() => () => stop.current?.abort(), [])
  const { isBusy, fault, run } = useChange({ changes: [] })
  const start = () =>
    run(async () => {
      setDone(undefined)
      stop.current = new AbortController()
      const signal = AbortSignal.any([stop.current.signal, AbortSignal.timeout(patienceMs)])
      // The service refuses a range that begins before the oldest stored event.
      const { storage } = await call('getSystem', { signal })
      const from = Math.max(Date.now() - days * dayMs, Date.parse(storage.oldest_event_at ?? '') || 0)
      const result = await call('backtestRule', { body: { rule: text, from: new Date(from).toISOString() }, signal })
      setDone({ result, text, days })
      return undefined
    })
  const range = days === 1 ? '24 hours' : `${days} days`
  return (
    <>
      <Panel
        title="Backtest"
        end={
          <>
            <DayChips days={days} onDays={setDays} />
            {isBusy ? (
              <Button onClick={() => stop.current?.abort()}>Stop</Button>
            ) : (
              <Button disabled={text.trim() === ''} onClick={() => void start()}>
                {done ? 'Run again' : 'Run'}
              </Button>
            )}
          </>
        }
      >
        {isBusy && <EmptyState>Running the rule on the events of the last {range}…</EmptyState>}
        <Fault of={fault && stop.current?.signal.aborted ? 'Backtest stopped.' : fault} isInPanel />
        {!isBusy && !fault && !done && (
          <EmptyState>
            Runs this text on the stored events of the last {range}. Nothing is saved and no agent is suspended.
          </EmptyState>
        )}
        {done && <Result result={done.result} days={done.days} isOutdated={done.text !== text} />}
      </Panel>
      {done && done.result.firings > 0 && (
        <DataTable
          columns={firedColumns()}
          rows={done.result.samples}
          rowKey={({ seq }) => seq}
          maxRows={firstSamples}
          title="Firings in the backtest"
          note={done.result.samples.length < done.result.firings && `newest ${done.result.samples.length}`}
        />
      )}
    </>
  )
}
