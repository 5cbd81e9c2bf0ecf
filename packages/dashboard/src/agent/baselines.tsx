import { queryOptions, useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import type { ReplyOf } from '@wardline/contract'
import { type ReactNode, useState } from 'react'
import { Dialog } from '../parts/dialog.tsx'
import { HostileText } from '../parts/hostile-text.tsx'
import { SeverityMark } from '../parts/marks.tsx'
import { dayTimeText, Time, useZone } from '../parts/time.tsx'
import { useWidth } from '../parts/width.ts'
import { call, sentenceOf } from '../service/client.ts'
import { useMayOperate } from '../service/session.ts'
import './baselines.css'

type Baseline = ReplyOf<'listBaselines'>['baselines'][number]
type Episode = ReplyOf<'listBaselines'>['episodes'][number]
type Detail = ReplyOf<'getBaseline'>

/** Metrics are compared when they are reported, every five minutes by the SDK. */
const refreshMs = 30_000

const listQuery = (id: string) =>
  queryOptions({
    queryKey: ['agent', id, 'baselines'],
    queryFn: ({ signal }) => call('listBaselines', { params: { instanceId: id }, signal }),
    refetchInterval: refreshMs,
  })
const detailQuery = (id: string, metric: string) =>
  queryOptions({
    queryKey: ['agent', id, 'baselines', metric],
    queryFn: ({ signal }) => call('getBaseline', { params: { instanceId: id, metric }, signal }),
    refetchInterval: refreshMs,
  })

const bases: Record<Baseline['basis'], string> = {
  own: 'its own samples',
  type: 'agents of the same type, until it has enough samples itself',
  tag: 'agents with a tag in common, until it has enough samples itself',
  fleet: 'all agents, until it has enough samples itself',
  none: 'nothing yet: only a gross runaway is reported',
}
const outcomes: Record<NonNullable<Episode['outcome']>, string> = {
  over: 'as usual again',
  accepted: 'new level accepted',
  reset: 'forgotten by an operator',
  silent: 'no more reports',
  level: 'the level has doubled in a day',
}

const rounded = (value: number) => value.toLocaleString('en', { maximumSignificantDigits: 3 })

/** Describes the usual range in one sentence. */
function usualText({ usual, samples, basis }: Baseline): string {
  const range = usual ? `usually ${rounded(usual.low)} to ${rounded(usual.high)}` : 'nothing is known as usual'
  return `${range} · judged by ${bases[basis]} · ${samples.toLocaleString('en')} ${samples === 1 ? 'sample' : 'samples'}`
}

const height = 120

/** The newest samples, with the usual range as a band and the anomalies marked behind them. */
function Chart({ detail: { baseline, samples, episodes } }: { detail: Detail }) {
  const [box, width] = useWidth<HTMLDivElement>()
  const zone = useZone()
  const from = Date.parse(samples[0]!.at)
  const to = Math.max(Date.parse(samples.at(-1)!.at), from + 1)
  const highest = Math.max(1e-9, baseline.usual?.high ?? 0, ...samples.map(({ value }) => value))
  const x = (at: string) => ((Math.max(from, Date.parse(at)) - from) / (to - from)) * width
  const y = (value: number) => height - (Math.max(0, value) / highest) * (height - 4)
  const { usual, alarm_above: alarm } = baseline
  return (
    <div ref={box} className="usual-chart">
      <svg width={width} height={height + 20} role="img" aria-label={`Samples; ${usualText(baseline)}`}>
        {episodes
          .filter(({ ended_at }) => ended_at === null || Date.parse(ended_at) >= from)
          .map(({ id, began_at, ended_at, severity }) => (
            <rect
              key={id}
              className={`episode ${severity}`}
              x={x(began_at)}
              y="0"
              width={Math.max(3, (ended_at === null ? width : x(ended_at)) - x(began_at))}
              height={height}
            />
          ))}
        {usual && (
          <rect
            className="usual"
            x="0"
            y={y(usual.high)}
            width={width}
            height={Math.max(2, y(usual.low) - y(usual.high))}
          />
        )}
        {alarm !== null && alarm <= highest && <line className="alarm" x1="0" x2={width} y1={y(alarm)} y2={y(alarm)} />}
        <polyline points={samples.map(({ at, value }) => `${x(at)},${y(value)}`).join(' ')} />
        <line x1="0" x2={width} y1={height + 0.5} y2={height + 0.5} />
        <text x="0" y={height + 15}>
          {dayTimeText(zone, from).slice(0, -3)}
        </text>
        <text x={width} y={height + 15} textAnchor="end">
          {dayTimeText(zone, to).slice(0, -3)}
        </text>
        <text x="0" y="11">
          {rounded(highest)}
        </text>
      </svg>
    </div>
  )
}

function SampleTable({ samples }: Pick<Detail, 'samples'>) {
  return (
    <div className="count-table" role="group" tabIndex={0} aria-label="Samples">
      <table>
        <thead>
          <tr>
            <th>at</th>
            <th>value</th>
          </tr>
        </thead>
        <tbody>
          {samples.toReversed().map(({ at, value }) => (
            <tr key={at}>
              <td>
                <Time at={at} />
              </td>
              <td>{value.toLocaleString('en')}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

function EpisodeLine({ episode }: { episode: Episode }) {
  const { severity, began_at, ended_at, peak, outcome } = episode
  return (
    <li>
      <SeverityMark severity={severity} />
      <span>
        {ended_at === null ? 'Since ' : ''}
        <Time at={began_at} />
        {ended_at !== null && (
          <>
            {' to '}
            <Time at={ended_at} />
          </>
        )}
        {`, at most ${rounded(peak)}${outcome === null ? '' : `: ${outcomes[outcome]}`}`}
      </span>
    </li>
  )
}

function Opened({ id, metric }: { id: string; metric: string }) {
  const { data, error } = useQuery(detailQuery(id, metric))
  const [isTable, setTable] = useState(false)
  if (error) return <p className="empty fault">{sentenceOf(error)}</p>
  if (!data) return <p className="empty">Reading the samples.</p>
  return (
    <>
      {data.samples.length < 2 ? (
        <p className="empty">Its samples are no longer stored as events, or there are too few to draw.</p>
      ) : (
        <>
          {isTable ? <SampleTable samples={data.samples} /> : <Chart detail={data} />}
          <p className="usual-actions">
            <button type="button" aria-pressed={isTable} onClick={() => setTable(!isTable)}>
              {isTable ? 'Chart' : 'Table'}
            </button>
          </p>
        </>
      )}
      <ul className="episodes">
        {data.episodes.map((episode) => (
          <EpisodeLine key={episode.id} episode={episode} />
        ))}
      </ul>
      {data.episodes.length === 0 && <p className="empty">It was never unusual.</p>}
    </>
  )
}

/** Accepting and forgetting change future alerts, so only operators may do it, and forgetting asks for confirmation. */
function Actions({ id, baseline }: { id: string; baseline: Baseline }) {
  const client = useQueryClient()
  const mayOperate = useMayOperate()
  const [isAsking, setAsking] = useState(false)
  const { metric } = baseline
  const change = useMutation({
    mutationFn: (name: 'acceptBaseline' | 'resetBaseline') => call(name, { params: { instanceId: id, metric } }),
    onSettled: () => {
      setAsking(false)
      return client.invalidateQueries({ queryKey: ['agent', id] })
    },
  })
  if (!mayOperate) return null
  return (
    <span className="end">
      {change.error && <span className="fault">{sentenceOf(change.error)}</span>}
      {baseline.episode !== null && (
        <button type="button" disabled={change.isPending} onClick={() => change.mutate('acceptBaseline')}>
          Accept as normal
        </button>
      )}
      <button type="button" disabled={change.isPending} onClick={() => setAsking(true)}>
        Reset…
      </button>
      {isAsking && (
        <Dialog label="Reset what is usual" onClose={() => setAsking(false)}>
          <h2>Forget what is usual</h2>
          <p>
            <HostileText text={metric} max={100} /> of {id} is learnt again from its next samples. Until there are
            enough of them, it is judged by other agents, and an unusual level may be learnt as usual.
          </p>
          <p className="buttons">
            <button type="button" onClick={() => setAsking(false)} data-first>
              Cancel
            </button>
            <button type="button" disabled={change.isPending} onClick={() => change.mutate('resetBaseline')}>
              Forget and learn again
            </button>
          </p>
        </Dialog>
      )}
    </span>
  )
}

function Line({ id, baseline, open }: { id: string; baseline: Baseline; open: Episode | undefined }) {
  const [isOpen, setOpen] = useState(open !== undefined)
  const state: ReactNode = open ? <SeverityMark severity={open.severity} /> : <span className="quiet">as usual</span>
  return (
    <li className="usual-line">
      <div>
        <button type="button" className="plain" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          <HostileText text={baseline.metric} max={100} line />
        </button>
        {state}
        <span className="quiet">
          {open ? `at most ${rounded(open.peak)}, ` : ''}
          {usualText(baseline)}
          {baseline.quiet_time ? ' · at this time of the week it is usually lower' : ''}
        </span>
        <Actions id={id} baseline={baseline} />
      </div>
      {isOpen && <Opened id={id} metric={baseline.metric} />}
    </li>
  )
}

/** The agent's usual range per metric, its anomalies, and the actions for operators. */
export function Baselines({ id }: { id: string }) {
  const { data, error } = useQuery(listQuery(id))
  const openOf = ({ episode }: Baseline) => data?.episodes.find((one) => one.id === episode)
  return (
    <section className="panel" aria-labelledby="usual">
      <header>
        <h2 id="usual">What is usual</h2>
        <span className="quiet">of each metric that the agent reports of its sessions</span>
      </header>
      {error && <p className="empty fault">{sentenceOf(error)}</p>}
      {data?.baselines.length === 0 && (
        <p className="empty">
          It reported no metric yet. The SDK sums calls, errors and what you add with <code>metrics.add</code>, and
          reports them every five minutes.
        </p>
      )}
      <ul>
        {data?.baselines.map((baseline) => (
          <Line key={baseline.metric} id={id} baseline={baseline} open={openOf(baseline)} />
        ))}
      </ul>
    </section>
  )
}
