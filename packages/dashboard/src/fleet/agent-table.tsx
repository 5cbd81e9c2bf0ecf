import { Link } from '@tanstack/react-router'
import { type ReactNode, useEffect, useRef, useState } from 'react'
import type { Agent } from '../data/fleet.ts'
import { isUnconfirmed, shownStatus } from '../data/fleet-counts.ts'
import { useHours } from '../data/hours.ts'
import { AgentId } from '../parts/agent-id.tsx'
import { StatusMark } from '../parts/marks.tsx'
import { Tags } from '../parts/tags.tsx'
import { confirmedAfter } from '../suspend/stages.ts'
import { Button } from '../ui/button.tsx'
import { Tick } from '../ui/field.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { EmptyState, Panel } from '../ui/panel.tsx'
import { spanText } from '../ui/span.ts'
import { Time } from '../ui/time.tsx'
import { VirtualRows } from '../ui/virtual-rows.tsx'
import css from './fleet.module.css'
import { CallsLine, HeartbeatBar } from './hour-marks.tsx'
import type { SortKey } from './search.ts'
import type { FleetState } from './use-fleet.ts'
import { countsText, type FleetItem } from './view.ts'

interface AgentColumn {
  name: string
  sort?: SortKey
  /** Class of the heading and the cells; the layout depends on it. */
  className?: string | undefined
  cell(agent: Agent): ReactNode
}

const columns: AgentColumn[] = [
  {
    name: 'Agent',
    sort: 'id',
    className: 'cut',
    cell: ({ id, name }) => (
      <>
        <Link to="/fleet/$id" params={{ id }}>
          <b>
            <AgentId id={id} />
          </b>
        </Link>{' '}
        {name !== id && (
          <span className="quiet">
            <HostileText text={name} line />
          </span>
        )}
      </>
    ),
  },
  {
    name: 'Status',
    sort: 'status',
    className: `cut ${css.status}`,
    cell: (agent) => (
      <>
        <StatusMark status={shownStatus(agent)} />
        <span className="quiet cut">
          <Note agent={agent} />
        </span>
        <Tags tags={agent.tags} max={3} />
      </>
    ),
  },
  { name: 'Heartbeats, 1 h', className: css.beats, cell: ({ id }) => <HeartbeatBar id={id} /> },
  { name: 'Calls, 1 h', className: css.calls, cell: ({ id }) => <CallsLine id={id} /> },
  {
    name: 'Version',
    sort: 'version',
    className: `cut ${css.detail}`,
    cell: ({ version }) =>
      version === null ? (
        <span className="quiet">unknown</span>
      ) : (
        <span className="mono">
          <HostileText text={version} line />
        </span>
      ),
  },
  {
    name: 'Fail mode',
    sort: 'fails',
    className: `quiet ${css.detail}`,
    cell: ({ fail_mode }) => fail_mode ?? 'unknown',
  },
  { name: 'Control', sort: 'control', className: `quiet ${css.detail}`, cell: ({ control }) => appliedText(control) },
  {
    name: 'Last heartbeat',
    sort: 'heartbeat',
    className: `quiet ${css.last}`,
    cell: ({ last_heartbeat }) => <Time at={last_heartbeat} />,
  },
]

/** The control version that the agent acknowledged, beside the expected one. */
function appliedText({ version, applied_version }: Agent['control']): string {
  if (applied_version === null) return version === 0 ? 'none' : `none of ${version}`
  return applied_version === version ? `v${version}` : `v${applied_version} of ${version}`
}

function Note({ agent }: { agent: Agent }) {
  const { control, suspension, secondsAgo, suspension_reason } = agent
  const status = shownStatus(agent)
  if (status === 'active') return null
  if (status === 'offline') return `for ${spanText(secondsAgo * 1_000)}`
  if (isUnconfirmed(status)) {
    const isViolated = status === 'violated'
    const since = Date.parse((isViolated ? suspension?.since : control.changed_at) ?? '')
    return <span className={isViolated ? 'breach' : 'critical'}>for {spanText(Date.now() - since)}</span>
  }
  const after = confirmedAfter(agent)
  return (
    <>
      {after !== undefined && <span className="suspended">confirmed after {after.toLocaleString('en')} ms · </span>}
      <HostileText text={suspension_reason ?? ''} line />
    </>
  )
}

const groupName = (name: string) => (name === '' ? 'no tag' : name)

type GroupItem = Extract<FleetItem, { kind: 'group' }>

function GroupCell({ item, onCollapse }: { item: GroupItem; onCollapse(): void }) {
  const { name, isClosed, counts } = item
  return (
    <span role="cell" className={`cut ${css.groupCell}`}>
      <Button kind="plain" aria-expanded={!isClosed} onClick={onCollapse}>
        <span aria-hidden="true">{isClosed ? '▸' : '▾'}</span> <HostileText text={groupName(name)} line max={120} />
      </Button>
      <span className={`cut ${counts.unconfirmed > 0 ? 'critical' : 'quiet'}`}>{countsText(counts)}</span>
    </span>
  )
}

const keyOf = (item: FleetItem | undefined) =>
  item?.kind === 'group' ? `group ${item.name}` : (item?.agents[0].id ?? '')

const rowsAhead = 40

/** Table for any number of agents: renders only the rows in view. */
export function AgentTable(state: FleetState) {
  const { items, agents, all, at, hasMore, readMore } = state
  const scroller = useRef<HTMLDivElement>(null)
  const isNarrow = matchMedia('(max-width: 720px)').matches
  const [inView, setInView] = useState<readonly number[]>([])
  const linesInView = inView.flatMap((index) => items[index] ?? [])
  useHours(linesInView.filter(({ kind }) => kind === 'agent').map(keyOf))
  // The next page is read before its rows come into view.
  const isNearEnd = hasMore && (inView.at(-1) ?? 0) >= items.length - rowsAhead
  useEffect(() => {
    if (isNearEnd) readMore()
  })
  useEffect(() => {
    if (at === 0) scroller.current?.scrollTo({ top: 0 })
  }, [at])
  return (
    <Panel>
      <div role="table" aria-label="Agents" aria-rowcount={hasMore ? -1 : items.length + 1}>
        <Head {...state} />
        <div ref={scroller} className={css.scroller} data-part="scroller">
          <VirtualRows
            scroller={scroller}
            count={items.length}
            heightOf={(index) => (items[index]?.kind === 'group' ? 34 : isNarrow ? 84 : 38)}
            keyOf={(index) => keyOf(items[index])}
            at={at}
            heights={items}
            role="rowgroup"
            onView={setInView}
            row={(index, style) => {
              const item = items[index]
              return item && <Row key={keyOf(item)} {...state} item={item} index={index} style={style} />
            }}
          />
        </div>
      </div>
      {agents.length === 0 && items.length === 0 && (
        <EmptyState action={state.isLoaded && <Link to="/connect">Connect an agent</Link>}>
          {!state.isLoaded || hasMore ? 'Loading agents…' : all.all === 0 ? 'No agents yet.' : 'No matching agents.'}
        </EmptyState>
      )}
    </Panel>
  )
}

function Head({ agents, hasMore, selected, search, toggle, sort }: FleetState) {
  const isAll = agents.length > 0 && agents.every(({ id }) => selected.has(id))
  return (
    <div className={`${css.row} ${css.head}`} role="row" aria-rowindex={1}>
      <span role="columnheader">
        <Tick
          label={`Select ${hasMore ? 'the' : 'all'} ${agents.length} agents ${hasMore ? 'loaded' : 'shown'}`}
          checked={isAll}
          onChange={() => toggle(agents)}
        />
      </span>
      {columns.map(({ name, sort: key, className }) => {
        const isSorted = key !== undefined && (search.sort ?? 'id') === key
        const order = isSorted ? (search.down ? 'descending' : 'ascending') : 'none'
        return (
          <span key={name} role="columnheader" className={className} aria-sort={key && order}>
            {key === undefined ? (
              name
            ) : (
              <Button kind="plain" onClick={() => sort(key)}>
                {name} {isSorted ? (search.down ? '↓' : '↑') : ''}
              </Button>
            )}
          </span>
        )
      })}
    </div>
  )
}

interface RowProps extends FleetState {
  item: FleetItem
  index: number
  style: { transform: string; height: number }
}

function Row({ item, index, style, at, selected, setAt, toggle, collapse }: RowProps) {
  const { kind, agents } = item
  const isSelected = agents.length > 0 && agents.every(({ id }) => selected.has(id))
  const name = kind === 'group' ? `all in ${groupName(item.name)}` : agents[0].id
  return (
    <div
      role="row"
      aria-rowindex={index + 2}
      aria-selected={isSelected}
      className={`${css.row} ${css[kind]} ${isSelected ? css.picked : ''} ${index === at ? css.at : ''}`}
      style={style}
      onClick={() => setAt(index)}
    >
      <span role="cell">
        <Tick label={`Select ${name}`} checked={isSelected} onChange={() => toggle(agents)} />
      </span>
      {kind === 'group' ? (
        <GroupCell item={item} onCollapse={() => collapse(item.name, !item.isClosed)} />
      ) : (
        columns.map((column) => (
          <span key={column.name} role="cell" className={column.className}>
            {column.cell(agents[0])}
          </span>
        ))
      )}
    </div>
  )
}
