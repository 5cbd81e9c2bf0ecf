import { Link } from '@tanstack/react-router'
import { useVirtualizer } from '@tanstack/react-virtual'
import { useEffect, useRef } from 'react'
import { HostileText } from '../parts/hostile-text.tsx'
import { type ShownStatus, StatusMark } from '../parts/marks.tsx'
import { spanText } from '../parts/span.ts'
import { Time } from '../parts/time.tsx'
import type { Agent, SuspendedAgent } from '../service/fleet.ts'
import { confirmedAfter } from '../suspend/stages.ts'
import type { FleetSearch, SortKey } from './view.ts'

interface AgentTableProps {
  agents: readonly Agent[]
  statusOf(agent: Agent): ShownStatus
  details: ReadonlyMap<string, SuspendedAgent>
  search: FleetSearch
  selected: ReadonlySet<string>
  /** The row that the keys act on. */
  at: number
  isReady: boolean
  onAt(index: number): void
  onSort(key: SortKey): void
  onToggle(ids: readonly string[], isOn: boolean): void
}

const columns: [key: SortKey, name: string][] = [
  ['id', 'agent'],
  ['status', 'status'],
  ['heartbeat', 'last heartbeat'],
]

function noteOf(agent: Agent, detail: SuspendedAgent | undefined) {
  if (agent.status === 'suspended') {
    const after = detail && confirmedAfter(detail)
    return (
      <>
        {after !== undefined && <span className="violet">confirmed after {after.toLocaleString('en')} ms · </span>}
        <HostileText text={agent.suspension_reason ?? ''} line />
      </>
    )
  }
  return agent.status === 'offline' ? `silent for ${spanText(agent.secondsAgo * 1_000)}` : ''
}

/** Any number of agents: only the rows in view are there. */
export function AgentTable(props: AgentTableProps) {
  const { agents, statusOf, details, search, selected, at, isReady, onAt, onSort, onToggle } = props
  const scroller = useRef<HTMLDivElement>(null)
  const isNarrow = matchMedia('(max-width: 720px)').matches
  const rows = useVirtualizer({
    count: agents.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => (isNarrow ? 62 : 38),
    overscan: 12,
  })
  useEffect(() => {
    if (at > 0) rows.scrollToIndex(at)
  }, [at, rows])
  const isAll = agents.length > 0 && agents.every(({ id }) => selected.has(id))
  return (
    <div className="panel agents" role="table" aria-label="Agents" aria-rowcount={agents.length + 1}>
      <div className="agent-row head" role="row" aria-rowindex={1}>
        <span role="columnheader">
          <label className="tick">
            <input
              type="checkbox"
              aria-label={`Select all ${agents.length} agents shown`}
              checked={isAll}
              onChange={() =>
                onToggle(
                  agents.map(({ id }) => id),
                  !isAll,
                )
              }
            />
          </label>
        </span>
        {columns.map(([key, name]) => {
          const isSorted = (search.sort ?? 'id') === key
          return (
            <span
              key={key}
              role="columnheader"
              aria-sort={isSorted ? (search.down ? 'descending' : 'ascending') : 'none'}
            >
              <button type="button" className="plain" onClick={() => onSort(key)}>
                {name} {isSorted ? (search.down ? '↓' : '↑') : ''}
              </button>
            </span>
          )
        })}
        <span role="columnheader" className="note">
          note
        </span>
      </div>
      <div ref={scroller} className="scroller" role="rowgroup">
        <div style={{ height: rows.getTotalSize() }} className="sheet" role="presentation">
          {rows.getVirtualItems().map(({ index, start, size }) => {
            const agent = agents[index]
            if (!agent) return null
            const isSelected = selected.has(agent.id)
            return (
              <div
                key={agent.id}
                role="row"
                aria-rowindex={index + 2}
                aria-selected={isSelected}
                className={`agent-row ${isSelected ? 'picked' : ''} ${index === at ? 'at' : ''}`}
                style={{ transform: `translateY(${start}px)`, height: size }}
                onClick={() => onAt(index)}
              >
                <span role="cell">
                  <label className="tick">
                    <input
                      type="checkbox"
                      aria-label={`Select ${agent.id}`}
                      checked={isSelected}
                      onChange={() => onToggle([agent.id], !isSelected)}
                    />
                  </label>
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
                <span role="cell">
                  <StatusMark status={statusOf(agent)} />
                </span>
                <span role="cell" className="quiet">
                  <Time at={agent.last_heartbeat} />
                </span>
                <span role="cell" className="quiet cut note">
                  {noteOf(agent, details.get(agent.id))}
                </span>
              </div>
            )
          })}
        </div>
      </div>
      {agents.length === 0 && (
        <p className="empty">{isReady ? 'No agent matches the filter.' : 'Reading the fleet…'}</p>
      )}
    </div>
  )
}
