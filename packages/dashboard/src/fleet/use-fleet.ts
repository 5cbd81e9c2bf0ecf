import { useQuery } from '@tanstack/react-query'
import { getRouteApi } from '@tanstack/react-router'
import { useDeferredValue, useMemo, useRef, useState } from 'react'
import { type Agent, fleetQuery, matchingQuery } from '../data/fleet.ts'
import { countsOf } from '../data/fleet-counts.ts'
import { useMayOperate } from '../data/session.ts'
import { useKeys } from '../ui/shortcuts.ts'
import type { FleetSearch, SortKey } from './search.ts'
import { fleetItems, groupChoices, shownAgents, withText } from './view.ts'

const route = getRouteApi('/inside/fleet')
const nothing: readonly Agent[] = []
const isOther = ({ status }: Agent) => status !== 'suspended'

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
    counts: useMemo(() => countsOf(found), [found]),
    all: useMemo(() => countsOf(fleet), [fleet]),
    groups: useMemo(() => groupChoices(fleet), [fleet]),
  }
}

/** An open dialog: for some agents, or for agents that the dialog chooses by tag. */
export type OpenDialog =
  | { action: 'suspend' | 'resume' | 'tag'; agents: readonly Agent[] }
  | { action: 'suspend' | 'resume'; agents: undefined }

/** State of the screen: the filter in the address, its lines, the selection, the current line and the open dialog. */
export function useFleet() {
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const { data: fleet, error } = useQuery(fleetQuery)
  const { server, parent } = search
  const isAsked = server !== undefined || parent !== undefined
  const { data: matching, error: fault } = useQuery({ ...matchingQuery({ server, parent }), enabled: isAsked })
  const listed = useMemo(
    () => (isAsked ? fleet?.filter(({ id }) => matching?.has(id)) : fleet) ?? nothing,
    [fleet, isAsked, matching],
  )
  const lines = useFleetLines(listed, useDeferredValue(search))
  const mayOperate = useMayOperate()
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set())
  const [current, setAt] = useState(0)
  const [dialog, setDialog] = useState<OpenDialog>()
  const field = useRef<HTMLInputElement>(null)
  const { items } = lines
  const at = Math.min(current, items.length - 1)
  const item = items[at]

  const show = (change: Partial<FleetSearch>) =>
    void navigate({ search: (before) => ({ ...before, ...change }), replace: true })
  const chosen = selected.size === 0 ? nothing : (fleet ?? nothing).filter(({ id }) => selected.has(id))
  const chosenOthers = chosen.filter(isOther)
  const clear = () => setSelected(new Set())
  function toggle(agents: readonly Agent[]) {
    const isOn = !agents.every(({ id }) => selected.has(id))
    const next = new Set(selected)
    for (const { id } of agents) isOn ? next.add(id) : next.delete(id)
    setSelected(next)
  }
  function collapse(name: string, isClosed: boolean) {
    const others = (search.closed ?? []).filter((closed) => closed !== name)
    const closed = isClosed ? [...others, name] : others
    show({ closed: closed.length > 0 ? closed : undefined })
  }
  function suspend() {
    const agents = chosenOthers.length > 0 ? chosenOthers : (item?.agents.filter(isOther) ?? nothing)
    if (mayOperate && agents.length > 0) setDialog({ action: 'suspend', agents })
  }
  useKeys({
    '/': () => field.current?.focus(),
    j: () => setAt(Math.min(items.length - 1, current + 1)),
    k: () => setAt(Math.max(0, current - 1)),
    Enter: () => {
      if (item?.kind === 'agent') void navigate({ to: '/fleet/$id', params: { id: item.agents[0].id } })
      if (item?.kind === 'group') collapse(item.name, !item.isClosed)
    },
    x: () => toggle(item?.agents ?? nothing),
    Escape: clear,
    s: suspend,
    K: suspend,
  })
  return {
    ...lines,
    search,
    error: error ?? fault,
    isLoaded: fleet !== undefined && (!isAsked || matching !== undefined),
    mayOperate,
    selected,
    chosen,
    chosenOthers,
    chosenSuspended: chosen.filter((agent) => !isOther(agent)),
    at,
    setAt,
    dialog,
    setDialog,
    field,
    show,
    clear,
    toggle,
    collapse,
    sort: (key: SortKey) => show({ sort: key, down: (search.sort ?? 'id') === key && !search.down ? true : undefined }),
  }
}

export type FleetState = ReturnType<typeof useFleet>
