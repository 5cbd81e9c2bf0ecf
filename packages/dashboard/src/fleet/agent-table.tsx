import { Link } from '@tanstack/react-router'
import { useVirtualizer } from '@tanstack/react-virtual'
import { counted } from '@wardline/text/counted'
import { useEffect, useRef } from 'react'
import { HostileText } from '../parts/hostile-text.tsx'
import { StatusMark } from '../parts/marks.tsx'
import { spanText } from '../parts/span.ts'
import { Tags } from '../parts/tags.tsx'
import { Time } from '../parts/time.tsx'
import type { Agent } from '../service/fleet.ts'
import { isUnconfirmed, shownStatus } from '../service/fleet-counts.ts'
import { useHours } from '../service/hours.ts'
import { confirmedAfter } from '../suspend/stages.ts'
import { CallsLine, HeartbeatBar } from './hour-marks.tsx'
import type { FleetItem, FleetSearch, SortKey } from './view.ts'

interface AgentTableProps {
  /** Lines of the table: agents, with the header of each group if the list is grouped. */
  items: readonly FleetItem[]
  /** All agents of the list, including those of collapsed groups. */
  agents: readonly Agent[]
  search: FleetSearch
  selected: ReadonlySet<string>
  /** Index of the line that the keys act on. */
  at: number
  isReady: boolean
  onAt(index: number): void
  onSort(key: SortKey): void
  onToggle(ids: readonly string[], isOn: boolean): void
  onCollapse(name: string, isClosed: boolean): void
}

const columns: [key: SortKey | undefined, name: string, className: string][] = [
  ['id', 'agent', ''],
  ['status', 'status', ''],
  [undefined, 'heartbeats, 1 h', 'beats-cell'],
  [undefined, 'calls, 1 h', 'calls-cell'],
  ['version', 'version', 'version-cell'],
  ['fails', 'fails', 'fails-cell'],
  ['control', 'control', 'control-cell'],
  ['heartbeat', 'last heartbeat', 'last-cell'],
]

function Note({ agent }: { agent: Agent }) {
  const status = shownStatus(agent)
  if (isUnconfirmed(status)) {
    const isViolated = status === 'violated'
    const since = isViolated ? agent.containment?.since : agent.control.changed_at
    return (
      <span className={isViolated ? 'breach' : 'critical'}>for {spanText(Date.now() - Date.parse(since ?? ''))}</span>
    )
  }
  if (agent.status === 'suspended') {
    const after = confirmedAfter(agent)
    return (
      <>
        {after !== undefined && <span className="violet">confirmed after {after.toLocaleString('en')} ms · </span>}
        <HostileText text={agent.suspension_reason ?? ''} line />
      </>
    )
  }
  return status === 'offline' ? `silent for ${spanText(agent.secondsAgo * 1_000)}` : ''
}

/** The control version that the agent reports as applied, beside the expected one. */
function Applied({ control }: Pick<Agent, 'control'>) {
  const { version, applied_version } = control
  if (applied_version === null) return version === 0 ? 'none yet' : `none of ${version}`
  return applied_version === version ? `v${version}` : `v${applied_version} of ${version}`
}

function Tick({ label, isOn, onChange }: { label: string; isOn: boolean; onChange(): void }) {
  return (
    <label className="tick">
      <input type="checkbox" aria-label={label} checked={isOn} onChange={onChange} />
    </label>
  )
}

function AgentCells({ agent, isSelected, onToggle }: { agent: Agent; isSelected: boolean; onToggle(): void }) {
  return (
    <>
      <span role="cell">
        <Tick label={`Select ${agent.id}`} isOn={isSelected} onChange={onToggle} />
      </span>
      <span role="cell" className="cut">
        <Link to="/fleet/$id" params={{ id: agent.id }}>
          <b>{agent.id}</b>
        </Link>{' '}
        {agent.name !== agent.id && (
          <span className="quiet">
            <HostileText text={agent.name} line />
          </span>
        )}
      </span>
      <span role="cell" className="cut status-cell">
        <StatusMark status={shownStatus(agent)} />
        <span className="quiet cut">
          <Note agent={agent} />
        </span>
        <Tags tags={agent.tags} max={3} />
      </span>
      <span role="cell" className="beats-cell">
        <HeartbeatBar id={agent.id} />
      </span>
      <span role="cell" className="calls-cell">
        <CallsLine id={agent.id} />
      </span>
      <span role="cell" className="cut version-cell mono">
        {agent.version === null ? <span className="quiet">unknown</span> : <HostileText text={agent.version} line />}
      </span>
      <span role="cell" className="quiet fails-cell">
        {agent.fail_mode ?? 'unknown'}
      </span>
      <span role="cell" className="quiet control-cell">
        <Applied control={agent.control} />
      </span>
      <span role="cell" className="quiet last-cell">
        <Time at={agent.last_heartbeat} />
      </span>
    </>
  )
}

type GroupItem = Extract<FleetItem, { kind: 'group' }>

function GroupCells({
  item,
  isSelected,
  onToggle,
  onCollapse,
}: {
  item: GroupItem
  isSelected: boolean
  onToggle(): void
  onCollapse(): void
}) {
  const { group, isClosed, counts } = item
  const name = group.name === '' ? 'no such tag' : group.name
  const facts = [
    counted(group.agents.length, 'agent'),
    ...(counts.suspended > 0 ? [`${counts.suspended} suspended`] : []),
    ...(counts.unconfirmed > 0 ? [`${counts.unconfirmed} not confirmed`] : []),
    ...(counts.offline > 0 ? [`${counts.offline} offline`] : []),
  ]
  return (
    <>
      <span role="cell">
        <Tick label={`Select all of ${name}`} isOn={isSelected} onChange={onToggle} />
      </span>
      <span role="cell" className="cut group-cell">
        <button type="button" className="plain" aria-expanded={!isClosed} onClick={onCollapse}>
          <span aria-hidden="true">{isClosed ? '▸' : '▾'}</span> <HostileText text={name} line max={120} />
        </button>
        <span className={counts.unconfirmed > 0 ? 'critical' : 'quiet'}>{facts.join(', ')}</span>
      </span>
    </>
  )
}

/** Table for any number of agents: renders only the rows in view. */
export function AgentTable(props: AgentTableProps) {
  const { items, agents, search, selected, at, isReady, onAt, onSort, onToggle, onCollapse } = props
  const scroller = useRef<HTMLDivElement>(null)
  const isNarrow = matchMedia('(max-width: 720px)').matches
  const rows = useVirtualizer({
    count: items.length,
    getScrollElement: () => scroller.current,
    estimateSize: (index) => (items[index]?.kind === 'group' ? 34 : isNarrow ? 84 : 38),
    overscan: 8,
  })
  useEffect(() => {
    rows.scrollToIndex(at)
  }, [at, rows])
  // Group headers and agents have different row heights, and a filter changes their positions.
  useEffect(() => rows.measure(), [items, rows])
  const inView = rows.getVirtualItems()
  useHours(
    inView.flatMap(({ index }) => {
      const item = items[index]
      return item?.kind === 'agent' ? [item.agent.id] : []
    }),
  )
  const isAll = agents.length > 0 && agents.every(({ id }) => selected.has(id))
  const idsOf = (members: readonly Agent[]) => members.map(({ id }) => id)
  return (
    <div className="panel agents" role="table" aria-label="Agents" aria-rowcount={items.length + 1}>
      <div className="agent-row head" role="row" aria-rowindex={1}>
        <span role="columnheader">
          <Tick
            label={`Select all ${agents.length} agents shown`}
            isOn={isAll}
            onChange={() => onToggle(idsOf(agents), !isAll)}
          />
        </span>
        {columns.map(([key, name, className]) => {
          const isSorted = (search.sort ?? 'id') === key
          return key === undefined ? (
            <span key={name} role="columnheader" className={className}>
              {name}
            </span>
          ) : (
            <span
              key={name}
              role="columnheader"
              className={className}
              aria-sort={isSorted ? (search.down ? 'descending' : 'ascending') : 'none'}
            >
              <button type="button" className="plain" onClick={() => onSort(key)}>
                {name} {isSorted ? (search.down ? '↓' : '↑') : ''}
              </button>
            </span>
          )
        })}
      </div>
      <div ref={scroller} className="scroller" role="rowgroup">
        <div style={{ height: rows.getTotalSize() }} className="sheet" role="presentation">
          {inView.map(({ index, start, size }) => {
            const item = items[index]
            if (!item) return null
            const members = item.kind === 'agent' ? [item.agent] : item.group.agents
            const isSelected = members.every(({ id }) => selected.has(id))
            const toggle = () => onToggle(idsOf(members), !isSelected)
            return (
              <div
                key={item.kind === 'agent' ? item.agent.id : `group ${item.group.name}`}
                role="row"
                aria-rowindex={index + 2}
                aria-selected={isSelected}
                className={`agent-row ${item.kind} ${isSelected ? 'picked' : ''} ${index === at ? 'at' : ''}`}
                style={{ transform: `translateY(${start}px)`, height: size }}
                onClick={() => onAt(index)}
              >
                {item.kind === 'agent' ? (
                  <AgentCells agent={item.agent} isSelected={isSelected} onToggle={toggle} />
                ) : (
                  <GroupCells
                    item={item}
                    isSelected={isSelected}
                    onToggle={toggle}
                    onCollapse={() => onCollapse(item.group.name, !item.isClosed)}
                  />
                )}
              </div>
            )
          })}
        </div>
      </div>
      {agents.length === 0 && (
        <p className="empty">
          {isReady ? 'No agent matches the filter. ' : 'Reading the fleet…'}
          {isReady && <Link to="/connect">Connect an agent</Link>}
        </p>
      )}
    </div>
  )
}
