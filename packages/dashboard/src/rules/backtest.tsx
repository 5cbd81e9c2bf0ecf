import { useMutation } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { type RuleBacktest, ruleLimits } from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import { useEffect, useRef, useState } from 'react'
import { HostileText } from '../parts/hostile-text.tsx'
import { dayMs, hourMs } from '../parts/span.ts'
import { Time } from '../parts/time.tsx'
import { call, sentenceOf } from '../service/client.ts'
import { type FiringDays, firingDays } from '../service/rules.ts'
import { barsOf, EventLinks, FiringBars, GroupText } from './firings.tsx'

/** Timeout: enough to read a month of a busy fleet. A person can abort earlier. */
const patienceMs = 10 * 60_000
/** Samples shown at first. */
const firstSamples = 8

const daysText = (days: number) => (days === 1 ? '24 hours' : `${days} days`)

function Bars({ result: { from, to, hours, firings } }: { result: RuleBacktest }) {
  const isLong = Date.parse(to) - Date.parse(from) > 8 * dayMs
  const bucketMs = isLong ? dayMs : hourMs
  // The chart shows at least a day: a single hour would be one block.
  const start = Math.floor(Math.min(Date.parse(from), Date.parse(to) - dayMs) / hourMs) * hourMs
  const bars = Math.max(1, Math.ceil((Date.parse(to) - start) / bucketMs))
  return (
    <FiringBars
      label={`${counted(firings, 'firing')} that would have been`}
      counts={barsOf(hours, start, bucketMs, bars)}
      from={start}
      bucketMs={bucketMs}
    />
  )
}

/** The agents of the samples, most frequent first. */
function Agents({ samples, instances }: Pick<RuleBacktest, 'samples' | 'instances'>) {
  const counts = new Map<string, number>()
  for (const { instance_id } of samples) {
    if (instance_id !== null) counts.set(instance_id, (counts.get(instance_id) ?? 0) + 1)
  }
  if (counts.size === 0) return null
  const sorted = [...counts].sort(([, one], [, other]) => other - one)
  return (
    <p className="rule-inner backtest-agents">
      {sorted.map(([id, count]) => (
        <span key={id}>
          <Link to="/fleet/$id" params={{ id }}>
            {id}
          </Link>{' '}
          <span className="quiet">{count}</span>
        </span>
      ))}
      {instances > counts.size && <span className="quiet">and {counted(instances - counts.size, 'agent')} before</span>}
    </p>
  )
}

function Samples({ samples, firings }: Pick<RuleBacktest, 'samples' | 'firings'>) {
  const [isWhole, setWhole] = useState(false)
  const shown = isWhole ? samples : samples.slice(0, firstSamples)
  return (
    <>
      <table className="list">
        <thead>
          <tr>
            <th>would have fired</th>
            <th>for</th>
            <th>by</th>
          </tr>
        </thead>
        <tbody>
          {shown.map(({ seq, at, group, instance_id, events }) => (
            <tr key={seq}>
              <td className="number">
                <Time at={at} />
              </td>
              <td>
                <GroupText group={group} instance={instance_id} />
              </td>
              <td>
                <EventLinks events={events} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {shown.length < samples.length && (
        <p className="rule-inner">
          <button type="button" onClick={() => setWhole(true)}>
            Show {samples.length} firings
          </button>
        </p>
      )}
      {samples.length < firings && (
        <p className="rule-inner quiet">
          The newest {samples.length} of {firings.toLocaleString('en')}.
        </p>
      )}
    </>
  )
}

function Result({ result }: { result: RuleBacktest }) {
  const { firings, suppressed, instances, suspensions, evicted, samples } = result
  return (
    <>
      <p className="rule-inner backtest-said" role="status">
        <b>
          {firings === 0
            ? 'It would not have fired.'
            : `${counted(firings, 'firing')} on ${counted(instances, 'agent')}, ${suspensions.toLocaleString('en')} would have been suspended.`}
        </b>
        {suspensions > 0 && (
          <span className="under quiet"> In mode enforce. The brake may have stopped some of these suspensions.</span>
        )}
      </p>
      {suppressed > 0 && (
        <p className="rule-inner quiet">
          {counted(suppressed, 'more firing')} would have been counted, not stored: a rule fires at most{' '}
          {ruleLimits.minuteFirings} times a minute about one agent.
        </p>
      )}
      {evicted > 0 && (
        <p className="rule-inner warning">
          {counted(evicted, 'group')} had to be forgotten because there were too many: firings may be missing.
        </p>
      )}
      {firings > 0 && (
        <>
          <Bars result={result} />
          <Agents samples={samples} instances={instances} />
          <Samples samples={samples} firings={firings} />
        </>
      )}
    </>
  )
}

/** Runs stored events through the editor's text. Nothing is stored and no agent is suspended. */
export function Backtest({ text }: { text: string }) {
  const [days, setDays] = useState<FiringDays>(7)
  const stop = useRef<AbortController>(undefined)
  useEffect(() => () => stop.current?.abort(), [])
  const run = useMutation({
    mutationFn: async (rule: string) => {
      stop.current = new AbortController()
      const signal = AbortSignal.any([stop.current.signal, AbortSignal.timeout(patienceMs)])
      // The service refuses a range that begins before the oldest stored event.
      const { storage } = await call('getSystem', { signal })
      const from = Math.max(Date.now() - days * dayMs, Date.parse(storage.oldest_event_at ?? '') || 0)
      return call('backtestRule', { body: { rule, from: new Date(from).toISOString() }, signal })
    },
  })
  const { data, error, isPending, variables } = run
  const wasStopped = stop.current?.signal.aborted === true
  return (
    <section className="panel list-panel" aria-labelledby="backtest">
      <header>
        <h2 id="backtest">What it would have done</h2>
        <span className="end">
          {firingDays.map((each) => (
            <button
              key={each}
              type="button"
              className="chip"
              aria-pressed={each === days}
              onClick={() => setDays(each)}
            >
              {each === 1 ? '24 h' : `${each} days`}
            </button>
          ))}
          {isPending ? (
            <button type="button" onClick={() => stop.current?.abort()}>
              Stop
            </button>
          ) : (
            <button type="button" disabled={text.trim() === ''} onClick={() => run.mutate(text)}>
              {data ? 'Run again' : 'Run'}
            </button>
          )}
        </span>
      </header>
      {isPending && <p className="empty">Taking the events of {daysText(days)} through the rule…</p>}
      {!isPending && error && (
        <p role="alert" className="empty fault">
          {wasStopped ? 'Stopped.' : <HostileText text={sentenceOf(error)} max={600} />}
        </p>
      )}
      {!isPending && !error && !data && (
        <p className="empty">
          Takes the stored events of {daysText(days)} through the text as it stands here. Nothing is stored, and nobody
          is suspended.
        </p>
      )}
      {data && !isPending && (
        <>
          <p className="rule-inner quiet">
            <Time at={data.from} /> to <Time at={data.to} />, {counted(data.events_read, 'event')} read in{' '}
            {(data.duration_ms / 1_000).toFixed(1)} s
            {variables !== text && <b className="warning"> · of the text before the last changes</b>}
          </p>
          <Result result={data} />
        </>
      )}
    </section>
  )
}
