import { useQuery } from '@tanstack/react-query'
import { getRouteApi } from '@tanstack/react-router'
import { useRef, useState } from 'react'
import { counted } from '../parts/counted.ts'
import type { ShownStatus } from '../parts/marks.tsx'
import { sentenceOf } from '../service/client.ts'
import { type Agent, fleetQuery, useSuspendedAgents } from '../service/fleet.ts'
import { countsOf } from '../service/fleet-counts.ts'
import { useMayOperate } from '../service/session.ts'
import { useKeys } from '../shell/keys.ts'
import { useTitle } from '../shell/title.ts'
import { ResumeDialog, SuspendDialog } from '../suspend/suspend-dialog.tsx'
import { AgentTable } from './agent-table.tsx'
import './fleet.css'
import { type FleetSearch, filterCounts, shownAgents, statusFilters, withText } from './view.ts'

const route = getRouteApi('/inside/fleet')
const filterNames = { active: 'Active', suspended: 'Suspended', unconfirmed: 'Not confirmed', offline: 'Offline' }

export function Fleet() {
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const { data: fleet, error } = useQuery(fleetQuery)
  const details = useSuspendedAgents()
  const mayOperate = useMayOperate()
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set())
  const [at, setAt] = useState(0)
  const [dialog, setDialog] = useState<{ action: 'suspend' | 'resume'; agents: Agent[] }>()
  const [text, setText] = useState(search.q ?? '')
  const filter = useRef<HTMLInputElement>(null)

  const statusOf = (agent: Agent): ShownStatus =>
    agent.status === 'suspended' && details.get(agent.id)?.control.confirmed === false ? 'unconfirmed' : agent.status
  const found = withText(fleet ?? [], search.q)
  const agents = shownAgents(found, search, statusOf)
  const counts = filterCounts(found, statusOf)
  const all = countsOf(fleet ?? [])
  const title = fleet
    ? [
        counted(all.all, 'agent'),
        ...(all.suspended > 0 ? [`${all.suspended} suspended`] : []),
        ...(all.offline > 0 ? [`${all.offline} offline`] : []),
      ].join(', ')
    : 'Fleet'
  useTitle(title)

  const show = (change: Partial<FleetSearch>) =>
    void navigate({ search: (before) => ({ ...before, ...change }), replace: true })
  const chosen = (fleet ?? []).filter(({ id }) => selected.has(id))
  const chosenSuspended = chosen.filter(({ status }) => status === 'suspended')
  const chosenOthers = chosen.filter(({ status }) => status !== 'suspended')
  function toggle(ids: readonly string[], isOn: boolean) {
    const next = new Set(selected)
    for (const id of ids) isOn ? next.add(id) : next.delete(id)
    setSelected(next)
  }
  const current = agents[Math.min(at, agents.length - 1)]
  useKeys({
    '/': () => filter.current?.focus(),
    j: () => setAt(Math.min(agents.length - 1, at + 1)),
    k: () => setAt(Math.max(0, at - 1)),
    Enter: () => current && void navigate({ to: '/fleet/$id', params: { id: current.id } }),
    x: () => current && toggle([current.id], !selected.has(current.id)),
    Escape: () => setSelected(new Set()),
    K: () => {
      const targets =
        chosenOthers.length > 0 ? chosenOthers : current && current.status !== 'suspended' ? [current] : []
      if (mayOperate && targets.length > 0) setDialog({ action: 'suspend', agents: targets })
    },
  })
  return (
    <div className="rows fleet">
      <h1>{title}</h1>
      {error && (
        <p role="alert" className="fault">
          {sentenceOf(error)}
        </p>
      )}
      <div className="chips">
        <input
          ref={filter}
          type="search"
          aria-label="Filter by id, name or reason"
          placeholder="Filter by id, name or reason  /"
          value={text}
          onChange={(event) => {
            setText(event.target.value)
            show({ q: event.target.value || undefined })
          }}
          onKeyDown={(event) => {
            if (event.key === 'Escape' || event.key === 'Enter') filter.current?.blur()
          }}
        />
        <button
          type="button"
          className="chip"
          aria-pressed={search.status === undefined}
          onClick={() => show({ status: undefined })}
        >
          All <b>{found.length.toLocaleString('en')}</b>
        </button>
        {statusFilters.map((status) => (
          <button
            key={status}
            type="button"
            className="chip"
            aria-pressed={search.status === status}
            onClick={() => show({ status: search.status === status ? undefined : status })}
          >
            {filterNames[status]} <b>{counts[status].toLocaleString('en')}</b>
          </button>
        ))}
        {search.from !== undefined && (
          <button type="button" className="chip" aria-pressed="true" onClick={() => show({ from: undefined })}>
            from {search.from} on ×
          </button>
        )}
      </div>
      <AgentTable
        agents={agents}
        statusOf={statusOf}
        details={details}
        search={search}
        selected={selected}
        at={Math.min(at, agents.length - 1)}
        isReady={fleet !== undefined}
        onAt={setAt}
        onSort={(sort) => show({ sort, down: search.sort === sort && !search.down ? true : undefined })}
        onToggle={toggle}
      />
      {chosen.length > 0 && (
        <div className="panel selection" role="region" aria-label="Selected agents">
          <span role="status">
            <b>{chosen.length.toLocaleString('en')} selected</b>{' '}
            <span className="quiet">
              {chosenOthers.length} not suspended, {chosenSuspended.length} suspended
            </span>
          </span>
          <span className="end">
            {!mayOperate && <span className="quiet">Your key has scope viewer: it cannot suspend.</span>}
            <button type="button" onClick={() => setSelected(new Set())}>
              Clear <kbd>Esc</kbd>
            </button>
            <button
              type="button"
              disabled={!mayOperate || chosenSuspended.length === 0}
              onClick={() => setDialog({ action: 'resume', agents: chosenSuspended })}
            >
              Resume {chosenSuspended.length}…
            </button>
            <button
              type="button"
              className="danger"
              disabled={!mayOperate || chosenOthers.length === 0}
              onClick={() => setDialog({ action: 'suspend', agents: chosenOthers })}
            >
              Suspend {chosenOthers.length}… <kbd>K</kbd>
            </button>
          </span>
        </div>
      )}
      {dialog?.action === 'suspend' && <SuspendDialog agents={dialog.agents} onClose={() => setDialog(undefined)} />}
      {dialog?.action === 'resume' && <ResumeDialog agents={dialog.agents} onClose={() => setDialog(undefined)} />}
    </div>
  )
}
