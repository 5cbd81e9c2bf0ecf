import { queryOptions, useQuery } from '@tanstack/react-query'
import type { ReplyOf } from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import { useState } from 'react'
import { useChange } from '../data/change.ts'
import { call } from '../data/client.ts'
import { queryKeys } from '../data/query-keys.ts'
import { useMayOperate } from '../data/session.ts'
import { SeverityMark } from '../parts/marks.tsx'
import { useWidth } from '../parts/width.ts'
import { Button } from '../ui/button.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { lazyDialog } from '../ui/lazy-dialog.tsx'
import { EmptyState, Fault, Panel } from '../ui/panel.tsx'
import { DataTable } from '../ui/table.tsx'
import { dayTimeText, Time, useZone } from '../ui/time.tsx'
import css from './agent.module.css'

const ResetDialog = lazyDialog(async () => (await import('./reset-dialog.tsx')).ResetDialog)

type Baseline = ReplyOf<'listBaselines'>['baselines'][number]
type Episode = ReplyOf<'listBaselines'>['episodes'][number]
type Detail = ReplyOf<'getBaseline'>

/** Metrics are compared when they are reported, every five minutes by the SDK. */
const refreshMs = 30_000

const listQuery = (id: string) =>
  queryOptions({
    queryKey: queryKeys.baselines(id),
    queryFn: ({ signal }) => call('listBaselines', { params: { instanceId: id }, signal }),
    refetchInterval: refreshMs,
  })
const detailQuery = (id: string, metric: string) =>
  queryOptions({
    queryKey: queryKeys.baseline(id, metric),
    queryFn: ({ signal }) => call('getBaseline', { params: { instanceId: id, metric }, signal }),
    refetchInterval: refreshMs,
  })

const bases: Record<Baseline['basis'], string> = {
  own: '',
  type: ', compared with agents of the same type',
  tag: ', compared with agents with a common tag',
  fleet: ', compared with all agents',
  none: ', only extreme values are reported',
}
const outcomes: Record<NonNullable<Episode['outcome']>, string> = {
  over: 'back to normal',
  accepted: 'new level accepted',
  reset: 'reset by an operator',
  silent: 'no more reports',
  level: 'level doubled within a day',
}

const rounded = (value: number) => value.toLocaleString('en', { maximumSignificantDigits: 3 })

/** Describes the usual range in one sentence. */
function usualText({ usual, samples, basis }: Baseline): string {
  const range = usual ? `usually ${rounded(usual.low)} to ${rounded(usual.high)}` : 'usual range unknown'
  return `${basis === 'own' ? '' : 'learning: '}${range}${bases[basis]} · ${counted(samples, 'sample')}`
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
    <div ref={box} className={css.chart}>
      <svg width={width} height={height + 20} role="img" aria-label={`Samples; ${usualText(baseline)}`}>
        {episodes
          .filter(({ ended_at }) => ended_at === null || Date.parse(ended_at) >= from)
          .map(({ id, began_at, ended_at, severity }) => (
            <rect
              key={id}
              className={`${css.episode} ${severity}`}
              x={x(began_at)}
              y="0"
              width={Math.max(3, (ended_at === null ? width : x(ended_at)) - x(began_at))}
              height={height}
            />
          ))}
        {usual && (
          <rect
            className={css.usual}
            x="0"
            y={y(usual.high)}
            width={width}
            height={Math.max(2, y(usual.low) - y(usual.high))}
          />
        )}
        {alarm !== null && alarm <= highest && (
          <line className={css.alarm} x1="0" x2={width} y1={y(alarm)} y2={y(alarm)} />
        )}
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

function EpisodeLine({ episode }: { episode: Episode }) {
  const { severity, began_at, ended_at, peak, outcome } = episode
  return (
    <li>
      <SeverityMark severity={severity} />
      <span>
        {ended_at === null && 'Since '}
        <Time at={began_at} />
        {ended_at !== null && (
          <>
            {' to '}
            <Time at={ended_at} />
          </>
        )}
        {`, peak ${rounded(peak)}${outcome === null ? '' : `: ${outcomes[outcome]}`}`}
      </span>
    </li>
  )
}

function Opened({ id, metric }: { id: string; metric: string }) {
  const { data, error } = useQuery(detailQuery(id, metric))
  const [isTable, setTable] = useState(false)
  if (!data) return error ? <Fault of={error} isInPanel /> : <EmptyState>Loading samples…</EmptyState>
  const { samples, episodes } = data
  return (
    <>
      {samples.length < 2 ? (
        <EmptyState>Not enough stored samples for a chart.</EmptyState>
      ) : (
        <>
          {!isTable && <Chart detail={data} />}
          <div className={css.inner}>
            {isTable && (
              <DataTable
                label="Samples"
                columns={[
                  { name: 'at', cell: ({ at }) => <Time at={at} /> },
                  { name: 'value', cell: ({ value }) => value.toLocaleString('en'), kind: 'number' },
                ]}
                rows={samples.toReversed()}
                rowKey={({ at }) => at}
                empty=""
                maxRows={20}
                isStacked={false}
              />
            )}
            <p>
              <Button aria-pressed={isTable} onClick={() => setTable(!isTable)}>
                {isTable ? 'Chart' : 'Table'}
              </Button>
            </p>
          </div>
        </>
      )}
      <ul className={css.lines}>
        {episodes.map((episode) => (
          <EpisodeLine key={episode.id} episode={episode} />
        ))}
      </ul>
      {episodes.length === 0 && <EmptyState>No anomalies of this metric.</EmptyState>}
    </>
  )
}

/** Accepting and resetting change future alerts, so only operators may do it, and a reset asks for confirmation. */
function Actions({ id, baseline }: { id: string; baseline: Baseline }) {
  const mayOperate = useMayOperate()
  const [isAsking, setAsking] = useState(false)
  const { isBusy, fault, run } = useChange({ changes: [queryKeys.agent(id)] })
  const { metric, episode } = baseline
  const change = (name: 'acceptBaseline' | 'resetBaseline', sentence: string) =>
    run(async () => {
      await call(name, { params: { instanceId: id, metric } })
      return sentence
    })
  if (!mayOperate) return null
  return (
    <span className={`chips ${css.end}`}>
      {!isAsking && <Fault of={fault} />}
      {episode !== null && (
        <Button disabled={isBusy} onClick={() => void change('acceptBaseline', 'New level accepted.')}>
          Accept as normal
        </Button>
      )}
      <Button disabled={isBusy} onClick={() => setAsking(true)}>
        Reset…
      </Button>
      {isAsking && (
        <ResetDialog
          id={id}
          metric={metric}
          isBusy={isBusy}
          fault={fault}
          onReset={() => void change('resetBaseline', 'Baseline reset.').then((isDone) => isDone && setAsking(false))}
          onClose={() => setAsking(false)}
        />
      )}
    </span>
  )
}

function Line({ id, baseline, open }: { id: string; baseline: Baseline; open: Episode | undefined }) {
  const [isOpen, setOpen] = useState(open !== undefined)
  return (
    <li className={css.baseline}>
      <div className={css.baselineHead}>
        <Button kind="plain" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          <HostileText text={baseline.metric} max={100} line />
        </Button>
        {open ? <SeverityMark severity={open.severity} /> : <span className="quiet">normal</span>}
        <span className="quiet">
          {open && `peak ${rounded(open.peak)}, `}
          {usualText(baseline)}
          {baseline.quiet_time && ' · usually lower at this time of the week'}
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
  return (
    <Panel title="Baselines" note="usual range of each session metric">
      <Fault of={error} isInPanel />
      {data?.baselines.length === 0 && (
        <EmptyState>
          No metrics yet. Every five minutes the SDK reports calls, errors, and values added with{' '}
          <code>metrics.add</code>.
        </EmptyState>
      )}
      <ul>
        {data?.baselines.map((baseline) => (
          <Line
            key={baseline.metric}
            id={id}
            baseline={baseline}
            open={data.episodes.find((one) => one.id === baseline.episode)}
          />
        ))}
      </ul>
    </Panel>
  )
}
