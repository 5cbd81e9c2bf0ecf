import { useQuery } from '@tanstack/react-query'
import { getRouteApi } from '@tanstack/react-router'
import { counted } from '@wardline/text/counted'
import { useDeferredValue, useEffect, useMemo, useRef, useState } from 'react'
import { ChooseDialog } from '../containments/choose-dialog.tsx'
import { FleetDialog } from '../containments/fleet-dialog.tsx'
import { FilterField } from '../parts/filter-field.tsx'
import { HostileText } from '../parts/hostile-text.tsx'
import { SavedViews } from '../parts/saved-views.tsx'
import { sentenceOf } from '../service/client.ts'
import { type Agent, fleetQuery } from '../service/fleet.ts'
import { countsOf } from '../service/fleet-counts.ts'
import { useMayOperate } from '../service/session.ts'
import { useKeys } from '../shell/keys.ts'
import { useTitle } from '../shell/title.ts'
import { ResumeDialog, SuspendDialog } from '../suspend/suspend-dialog.tsx'
import { AgentTable } from './agent-table.tsx'
import './fleet.css'
import { TagDialog } from './tag-dialog.tsx'
import {
  byAllTags,
  type FleetSearch,
  filterCounts,
  fleetItems,
  groupChoices,
  shownAgents,
  statusFilters,
  withText,
} from './view.ts'

const route = getRouteApi('/inside/fleet')
const filterNames = { active: 'Active', suspended: 'Suspended', unconfirmed: 'Not confirmed', offline: 'Offline' }

/**
 * Memoized, because with ten thousand agents this is slow: it runs only when the fleet or the filter changes, and only
 * after the typed key is shown.
 */
function useFleetLines(fleet: readonly Agent[], search: FleetSearch) {
  const found = useMemo(() => withText(fleet, search.q), [fleet, search.q])
  const agents = useMemo(() => shownAgents(found, search), [found, search])
  return {
    found,
    agents,
    items: useMemo(() => fleetItems(agents, search), [agents, search]),
    counts: useMemo(() => filterCounts(found), [found]),
    all: useMemo(() => countsOf(fleet), [fleet]),
    groups: useMemo(() => groupChoices(fleet), [fleet]),
  }
}

const nothing: readonly Agent[] = []

interface ControlDialogProps {
  action: 'suspend' | 'resume'
  agents: readonly Agent[]
  onClose(): void
}

/** Uses the dialog for one agent, or one containment for several. */
function ControlDialog({ action, agents, onClose }: ControlDialogProps) {
  const [selector] = useState({ instances: agents.map(({ id }) => id) })
  const [agent] = agents
  if (agent && agents.length === 1) {
    return action === 'suspend' ? (
      <SuspendDialog agent={agent} onClose={onClose} />
    ) : (
      <ResumeDialog agent={agent} onClose={onClose} />
    )
  }
  return <FleetDialog action={action} selector={selector} onClose={onClose} />
}

export function Fleet() {
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const { data: fleet, error } = useQuery(fleetQuery)
  const { found, agents, items, counts, all, groups } = useFleetLines(fleet ?? nothing, useDeferredValue(search))
  const mayOperate = useMayOperate()
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set())
  const [at, setAt] = useState(0)
  const [dialog, setDialog] = useState<{ action: 'suspend' | 'resume' | 'tag'; agents: Agent[] }>()
  const [choosing, setChoosing] = useState<'suspend' | 'resume'>()
  const [text, setText] = useState(search.q ?? '')
  const filter = useRef<HTMLInputElement>(null)
  // A saved view changes the filter from outside the field.
  useEffect(() => {
    if (document.activeElement !== filter.current) setText(search.q ?? '')
  }, [search.q])

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
  const chosen = selected.size === 0 ? [] : (fleet ?? []).filter(({ id }) => selected.has(id))
  const chosenSuspended = chosen.filter(({ status }) => status === 'suspended')
  const chosenOthers = chosen.filter(({ status }) => status !== 'suspended')
  function toggle(ids: readonly string[], isOn: boolean) {
    const next = new Set(selected)
    for (const id of ids) isOn ? next.add(id) : next.delete(id)
    setSelected(next)
  }
  function collapse(name: string, isClosed: boolean) {
    const others = (search.closed ?? []).filter((closed) => closed !== name)
    const closed = isClosed ? [...others, name] : others
    show({ closed: closed.length > 0 ? closed : undefined })
  }
  const current = items[Math.min(at, items.length - 1)]
  const currentAgents = current === undefined ? [] : current.kind === 'agent' ? [current.agent] : current.group.agents
  function suspend() {
    const targets =
      chosenOthers.length > 0 ? chosenOthers : currentAgents.filter(({ status }) => status !== 'suspended')
    if (mayOperate && targets.length > 0) setDialog({ action: 'suspend', agents: targets })
  }
  useKeys({
    '/': () => filter.current?.focus(),
    j: () => setAt(Math.min(items.length - 1, at + 1)),
    k: () => setAt(Math.max(0, at - 1)),
    Enter: () => {
      if (current?.kind === 'agent') void navigate({ to: '/fleet/$id', params: { id: current.agent.id } })
      if (current?.kind === 'group') collapse(current.group.name, !current.isClosed)
    },
    x: () =>
      toggle(
        currentAgents.map(({ id }) => id),
        !currentAgents.every(({ id }) => selected.has(id)),
      ),
    Escape: () => setSelected(new Set()),
    s: suspend,
    K: suspend,
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
        <FilterField
          field={filter}
          by="id, name, tag, version or reason"
          value={text}
          onChange={(next) => {
            setText(next)
            show({ q: next || undefined })
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
            from <HostileText text={search.from} line max={64} /> on ×
          </button>
        )}
        <span className="chips end">
          <label>
            <span className="only-read">Group by</span>
            <select
              value={search.group ?? ''}
              onChange={(event) => {
                setAt(0)
                show({ group: event.target.value || undefined, closed: undefined })
              }}
            >
              <option value="">No groups</option>
              {[...new Set([...groups, ...(search.group ? [search.group] : [])])].map((group) => (
                <option key={group} value={group}>
                  {group === byAllTags ? 'Group: all tags' : `Group: ${group}`}
                </option>
              ))}
            </select>
          </label>
          <SavedViews screen="fleet" view={search.view} />
          {mayOperate && (
            <>
              {all.suspended > 0 && (
                <button type="button" onClick={() => setChoosing('resume')}>
                  Resume by tag…
                </button>
              )}
              <button type="button" className="danger" onClick={() => setChoosing('suspend')}>
                Suspend by tag…
              </button>
            </>
          )}
        </span>
      </div>
      <AgentTable
        items={items}
        agents={agents}
        search={search}
        selected={selected}
        at={Math.min(at, items.length - 1)}
        isReady={fleet !== undefined}
        onAt={setAt}
        onSort={(sort) => show({ sort, down: (search.sort ?? 'id') === sort && !search.down ? true : undefined })}
        onToggle={toggle}
        onCollapse={collapse}
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
            <button type="button" disabled={!mayOperate} onClick={() => setDialog({ action: 'tag', agents: chosen })}>
              Tags…
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
              Suspend {chosenOthers.length}… <kbd>s</kbd>
            </button>
          </span>
        </div>
      )}
      {dialog && dialog.action !== 'tag' && (
        <ControlDialog action={dialog.action} agents={dialog.agents} onClose={() => setDialog(undefined)} />
      )}
      {choosing && <ChooseDialog action={choosing} onClose={() => setChoosing(undefined)} />}
      {dialog?.action === 'tag' && <TagDialog agents={dialog.agents} onClose={() => setDialog(undefined)} />}
    </div>
  )
}
