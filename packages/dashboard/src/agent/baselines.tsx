import { queryOptions, useQuery } from '@tanstack/react-query'
import { baselineLearning, baselineText, type ReplyOf, type Zone } from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import { useState } from 'react'
import { useChange } from '../data/change.ts'
import { call } from '../data/client.ts'
import { queryKeys } from '../data/query-keys.ts'
import { useMayOperate } from '../data/session.ts'
import { Chart, Line } from '../parts/chart.tsx'
import { useTableSwitch } from '../parts/chart-panel.tsx'
import { SeverityMark } from '../parts/marks.tsx'
import { Button } from '../ui/button.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { lazyDialog } from '../ui/lazy-dialog.tsx'
import { EmptyState, Fault, Panel } from '../ui/panel.tsx'
import { DataTable } from '../ui/table.tsx'
import { Time, useZone } from '../ui/time.tsx'
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
export const baselineQuery = (id: string, metric: string) =>
  queryOptions({
    queryKey: queryKeys.baseline(id, metric),
    queryFn: ({ signal }) => call('getBaseline', { params: { instanceId: id, metric }, signal }),
    refetchInterval: refreshMs,
  })

const outcomes: Record<NonNullable<Episode['outcome']>, string> = {
  over: 'back to normal',
  accepted: 'new level accepted',
  reset: 'reset by an operator',
  silent: 'no more reports',
  level: 'level doubled within a day',
}

const rounded = (value: number) => value.toLocaleString('en', { maximumSignificantDigits: 3 })

/** What it is judged by, the usual range of that, and how much is learnt. */
function usualText(baseline: Baseline, zone: Zone): string {
  const { basis, usual, samples } = baseline
  const range = usual && `usually ${rounded(usual.low)} to ${rounded(usual.high)}`
  // While samples are missing, the text counts them.
  const count = (basis === 'own' || samples >= baselineLearning.samples) && counted(samples, 'sample')
  return [baselineText(baseline, Date.now(), zone), range, count].filter(Boolean).join(' · ')
}

const height = 120

/** The newest samples, with the usual range as a band and the anomalies marked behind them. */
function SampleChart({ detail: { baseline, samples, episodes } }: { detail: Detail }) {
  const { usual, alarm_above: alarm } = baseline
  const zone = useZone()
  const from = Date.parse(samples[0]!.at)
  const to = Math.max(Date.parse(samples.at(-1)!.at), from + 1)
  const highest = Math.max(1e-9, usual?.high ?? 0, ...samples.map(({ value }) => value))
  const y = (value: number) => height - (Math.max(0, value) / highest) * (height - 4)
  const shown = episodes.map(({ id, severity, began_at, ended_at }) => ({
    id,
    severity,
    began: Date.parse(began_at),
    ended: ended_at === null ? to : Date.parse(ended_at),
  }))
  return (
    <Chart label={`Samples; ${usualText(baseline, zone)}`} from={from} to={to} height={height}>
      {({ x, width }) => (
        <>
          {shown
            .filter(({ ended }) => ended >= from)
            .map(({ id, severity, began, ended }) => (
              <g key={id} className={severity} opacity="0.22">
                <rect x={x(began)} width={Math.max(3, x(ended) - x(began))} height={height} fill="currentColor" />
              </g>
            ))}
          {usual && (
            <rect
              className={css.usual}
              y={y(usual.high)}
              width={width}
              height={Math.max(2, y(usual.low) - y(usual.high))}
            />
          )}
          {alarm !== null && alarm <= highest && <line className={css.alarm} x2={width} y1={y(alarm)} y2={y(alarm)} />}
          <Line points={samples.map(({ at, value }) => [x(Date.parse(at)), y(value)])} />
          <text y="11">{rounded(highest)}</text>
        </>
      )}
    </Chart>
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

function Samples({ detail }: { detail: Detail }) {
  const [isTable, button] = useTableSwitch()
  return (
    <div className="inner">
      {isTable ? (
        <DataTable
          label="Samples"
          columns={[
            { name: 'Time', cell: ({ at }) => <Time at={at} /> },
            { name: 'Value', cell: ({ value }) => value.toLocaleString('en'), kind: 'number' },
          ]}
          rows={detail.samples.toReversed()}
          rowKey={({ at }) => at}
          empty=""
          maxRows={20}
          isStacked={false}
        />
      ) : (
        <SampleChart detail={detail} />
      )}
      <p>{button}</p>
    </div>
  )
}

function Opened({ id, metric }: { id: string; metric: string }) {
  const { data, error } = useQuery(baselineQuery(id, metric))
  if (!data) return error ? <Fault of={error} isInPanel /> : <EmptyState>Loading samples…</EmptyState>
  return (
    <>
      {data.samples.length < 2 ? (
        <EmptyState>Not enough saved samples for a chart.</EmptyState>
      ) : (
        <Samples detail={data} />
      )}
      <ul className="lines">
        {data.episodes.map((episode) => (
          <EpisodeLine key={episode.id} episode={episode} />
        ))}
      </ul>
      {data.episodes.length === 0 && <EmptyState>No anomalies of this metric.</EmptyState>}
    </>
  )
}

/** Accepting and resetting change future alerts, so only operators may do it, and a reset asks for confirmation. */
function Actions({ id, baseline: { metric, episode } }: { id: string; baseline: Baseline }) {
  const mayOperate = useMayOperate()
  const [isAsking, setAsking] = useState(false)
  const { isBusy, fault, run } = useChange({ changes: [queryKeys.agent(id)] })
  const accept = async () => {
    await call('acceptBaseline', { params: { instanceId: id, metric } })
    return 'New level accepted.'
  }
  if (!mayOperate) return null
  return (
    <span className="chips end">
      <Fault of={fault} />
      {episode !== null && (
        <Button disabled={isBusy} onClick={() => void run(accept)}>
          Accept as normal
        </Button>
      )}
      <Button disabled={isBusy} onClick={() => setAsking(true)}>
        Reset…
      </Button>
      {isAsking && <ResetDialog id={id} metric={metric} onClose={() => setAsking(false)} />}
    </span>
  )
}

function BaselineLine({ id, baseline, open }: { id: string; baseline: Baseline; open: Episode | undefined }) {
  const [isOpen, setOpen] = useState(open !== undefined)
  const zone = useZone()
  return (
    <li>
      <div className={`chips ${css.baselineHead}`}>
        <Button kind="plain" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          <HostileText text={baseline.metric} max={100} line />
        </Button>
        {open ? (
          <SeverityMark severity={open.severity} />
        ) : (
          baseline.basis === 'own' && <span className="quiet">normal</span>
        )}
        <span className="quiet">
          {open && `peak ${rounded(open.peak)}, `}
          {usualText(baseline, zone)}
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
      <ul className={css.baselines}>
        {data?.baselines.map((baseline) => (
          <BaselineLine
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
