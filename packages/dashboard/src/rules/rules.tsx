import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { ruleModes } from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import { type ListedRule, rulesQuery } from '../data/rules.ts'
import { useMayOperate } from '../data/session.ts'
import { FileFaults } from '../parts/file-faults.tsx'
import { FilteredTable } from '../parts/filtered-table.tsx'
import { SeverityMark } from '../parts/marks.tsx'
import { OperatorButton } from '../parts/operator-button.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { EmptyState, Fault, Notice, Panel, Screen } from '../ui/panel.tsx'
import { useKeys } from '../ui/shortcuts.ts'
import type { Column } from '../ui/table.tsx'
import { Time } from '../ui/time.tsx'
import { Packs } from './packs.tsx'
import { modeColours, modeNames, modeSentences } from './rule-texts.ts'

const route = getRouteApi('/inside/rules')

/** Normal lag under load, in events. Above this, the rule runner is not keeping up. */
const usualLag = 1_000

function headingOf(rules: readonly ListedRule[]): string {
  if (rules.length === 0) return 'No rules'
  const firings = rules.reduce((sum, rule) => sum + rule.firings_24h, 0)
  return `${counted(rules.length, 'rule')}, ${firings === 0 ? 'no firings' : counted(firings, 'firing')} in 24 h`
}

const barsWidth = 96
const barsHeight = 20

/** Firings of the last 24 hours, one bar per hour. */
function HourBars({ hours }: { hours: readonly number[] }) {
  const total = hours.reduce((sum, count) => sum + count, 0)
  const highest = Math.max(1, ...hours)
  const slot = barsWidth / hours.length
  const label = `${counted(total, 'firing')} in 24 hours`
  return (
    <svg width={barsWidth} height={barsHeight} role="img" aria-label={label} fill="var(--accent)">
      <title>{label}</title>
      <line stroke="var(--line)" x1="0" x2={barsWidth} y1={barsHeight - 0.5} y2={barsHeight - 0.5} />
      {hours.map((count, index) => {
        if (count === 0) return null
        const size = Math.max(3, (count / highest) * (barsHeight - 2))
        return <rect key={index} x={index * slot} y={barsHeight - size} width={slot - 1} height={size} />
      })}
    </svg>
  )
}

const columns: readonly Column<ListedRule>[] = [
  {
    name: 'Rule',
    cell: ({ id, title, severity, version, file, responses }) => (
      <>
        <Link to="/rules/$id" params={{ id }}>
          <HostileText text={title} max={120} line />
        </Link>
        <div className="quiet">
          v{version} · {file === null ? 'API' : <HostileText text={`file ${file}`} max={100} />}
          {responses.length > 0 && ` · ${[...new Set(responses)].join(', ').replaceAll('_', ' ')}`}
          <span className="on-phone"> · {severity}</span>
        </div>
      </>
    ),
  },
  { name: 'Mode', kind: 'word', cell: ({ mode }) => <span className={modeColours[mode]}>{mode}</span> },
  { name: 'Severity', isWide: true, cell: ({ severity }) => <SeverityMark severity={severity} /> },
  { name: 'Firings per hour', isWide: true, cell: ({ recent_hours }) => <HourBars hours={recent_hours} /> },
  {
    name: 'Firings, 24 h',
    kind: 'number',
    cell: ({ firings_24h, suppressed_24h }) => (
      <>
        {firings_24h.toLocaleString('en')}
        {suppressed_24h > 0 && <div className="quiet">{suppressed_24h.toLocaleString('en')} suppressed</div>}
      </>
    ),
  },
  {
    name: 'Last firing',
    kind: 'number',
    cell: ({ last_fired_at }) => <Time at={last_fired_at} />,
  },
  { name: 'Changed', kind: 'number', isWide: true, cell: ({ changed_at }) => <Time at={changed_at} /> },
]

function Teaching() {
  return (
    <Panel label="How rules work">
      <EmptyState>A rule matches single events or correlates several, and responds to them.</EmptyState>
      <dl className="inner">
        {ruleModes.map((mode) => (
          <div key={mode}>
            <dt className={modeColours[mode]}>{modeNames[mode]}</dt>
            <dd>{modeSentences[mode]}</dd>
          </div>
        ))}
      </dl>
      <EmptyState>
        Start a new rule in mode observe, review its firings for a few days, then switch it to mode alert or enforce.
        Rules can also be loaded from a folder (<code>WARDLINE_RULES_DIR</code>) or added with{' '}
        <code>wardline rules add rule.yml</code>.
      </EmptyState>
    </Panel>
  )
}

export function Rules() {
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const { data, error } = useQuery(rulesQuery)
  const mayOperate = useMayOperate()
  const all = data?.rules ?? []
  const write = () => void navigate({ to: '/rules/new' })
  useKeys({ n: () => mayOperate && write() })
  const lag = data?.runner.lag_events ?? 0
  return (
    <Screen
      title={data ? headingOf(all) : 'Rules'}
      lead={
        <>
          {data &&
            lag <= usualLag &&
            (lag === 0 ? 'Rules are up to date.' : `Rules are ${counted(lag, 'event')} behind.`)}{' '}
          <Link to="/rules/lists">Lists</Link> <Link to="/rules/coverage">Coverage</Link>
        </>
      }
      actions={
        <OperatorButton kind="go" shortcut="n" onClick={write}>
          New rule
        </OperatorButton>
      }
    >
      {lag > usualLag && <Notice>Rules are {counted(lag, 'event')} behind and catching up. Firings are late.</Notice>}
      <Fault of={error} />
      <FileFaults faults={data?.file_faults ?? []} />
      <Packs rules={all} />
      {all.length > 0 && (
        <FilteredTable
          label="Rules by title"
          columns={columns}
          rows={all}
          rowKey={({ id }) => id}
          empty="No matching rules."
          filter={search}
          onFilter={(change) => void navigate({ search: (before) => ({ ...before, ...change }), replace: true })}
          textLabel="Filter by title, tag or file"
          textOf={({ title, tags, file }) => [title, ...tags, file ?? ''].join('\n')}
          kindLabel="Mode"
          kinds={modeNames}
          isOf={({ mode }, kind) => mode === kind}
          onOpen={({ id }) => void navigate({ to: '/rules/$id', params: { id } })}
        />
      )}
      {data && all.length === 0 && <Teaching />}
    </Screen>
  )
}
