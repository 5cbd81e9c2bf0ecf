import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { getRouteApi } from '@tanstack/react-router'
import { byAllTags } from '@wardline/contract'
import { useEffect, useMemo, useRef, useState } from 'react'
import {
  type Agent,
  agentPagesQuery,
  type FleetFilter,
  fleetGroupsQuery,
  fleetTagsQuery,
  summaryQuery,
} from '../data/fleet.ts'
import { type Counts, countsOf } from '../data/fleet-counts.ts'
import { useMayOperate } from '../data/session.ts'
import { useKeys } from '../ui/shortcuts.ts'
import type { FleetSearch, SortKey } from './search.ts'
import { fleetItems, groupsWith } from './view.ts'

const route = getRouteApi('/inside/fleet')
const isOther = ({ status }: Agent) => status !== 'suspended'
/** Pause after the last letter before the service is asked. */
const typedMs = 150
const noCounts: Counts = {
  ...{ all: 0, active: 0, suspended: 0, offline: 0, silent: 0, asked: 0, unresumed: 0 },
  ...{ unconfirmed: 0, awaited: 0, unproven: 0, partial: 0 },
}

/** The text of the filter, once no letter follows. */
function useTyped(text: string | undefined): string | undefined {
  const [typed, setTyped] = useState(text)
  useEffect(() => {
    const soon = setTimeout(() => setTyped(text), typedMs)
    return () => clearTimeout(soon)
  }, [text])
  return typed
}

/** The counts and loaded lines of a filter, as the service finds them. */
function useFleetLines(search: FleetSearch) {
  const { status, heard, sort, down, from, server, parent, group, closed } = search
  const q = useTyped(search.q)?.trim()
  const whole = { ...(server === undefined ? {} : { server }), ...(parent === undefined ? {} : { parent }) }
  const filter: FleetFilter = { ...(q ? { q } : {}), ...(heard ? { witness: heard } : {}), ...whole }
  const all = useQuery(summaryQuery(whole))
  const found = useQuery(summaryQuery(filter))
  const tags = useQuery(fleetTagsQuery)
  const counted = useQuery({ ...fleetGroupsQuery(group ?? byAllTags, filter), enabled: group !== undefined })
  const groups = useMemo(
    () => (group === undefined ? undefined : groupsWith(counted.data?.groups ?? [], status)),
    [group, counted.data, status],
  )
  const open = groups?.flatMap(({ name }) => (closed?.includes(name) ? [] : name))
  const list = {
    ...filter,
    ...(status ? { status } : {}),
    ...(from === undefined ? {} : { from }),
    ...(sort ? { sort } : {}),
    ...(down ? { down: 'true' as const } : {}),
    ...(group === undefined ? {} : { group }),
  }
  const pages = useInfiniteQuery({ ...agentPagesQuery(list, open), enabled: open === undefined || open.length > 0 })
  const listed = open?.length === 0 ? undefined : pages.data?.pages
  const countsFrom = (summary: typeof all) => summary.data && countsOf(summary.data.state.counts)
  return {
    items: useMemo(() => fleetItems(listed ?? [], groups, closed), [listed, groups, closed]),
    agents: useMemo(() => (listed ?? []).flatMap((page) => page.agents), [listed]),
    counts: countsFrom(found) ?? noCounts,
    all: countsFrom(all) ?? noCounts,
    groups: tags.data?.groups ?? [byAllTags],
    hasMore: pages.hasNextPage && listed !== undefined,
    readMore: () => {
      if (pages.hasNextPage && !pages.isFetchingNextPage) void pages.fetchNextPage()
    },
    error: all.error ?? found.error ?? counted.error ?? pages.error,
    isLoaded: all.data !== undefined && (pages.data !== undefined || open?.length === 0),
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
  const lines = useFleetLines(search)
  const mayOperate = useMayOperate()
  /** Agents as they were selected. */
  const [selected, setSelected] = useState<ReadonlyMap<string, Agent>>(new Map())
  const [current, setAt] = useState(0)
  const [dialog, setDialog] = useState<OpenDialog>()
  const field = useRef<HTMLInputElement>(null)
  const { items, agents: loaded } = lines
  const at = Math.min(current, items.length - 1)
  const item = items[at]

  const show = (change: Partial<FleetSearch>) =>
    void navigate({ search: (before) => ({ ...before, ...change }), replace: true })
  const chosen = useMemo(() => {
    if (selected.size === 0) return []
    const newest = new Map(loaded.map((agent) => [agent.id, agent]))
    return [...selected.values()].map((agent) => newest.get(agent.id) ?? agent)
  }, [selected, loaded])
  const chosenOthers = chosen.filter(isOther)
  const clear = () => setSelected(new Map())
  function toggle(agents: readonly Agent[]) {
    const isOn = !agents.every(({ id }) => selected.has(id))
    const next = new Map(selected)
    for (const agent of agents) isOn ? next.set(agent.id, agent) : next.delete(agent.id)
    setSelected(next)
  }
  function collapse(name: string, isClosed: boolean) {
    const others = (search.closed ?? []).filter((closed) => closed !== name)
    const closed = isClosed ? [...others, name] : others
    show({ closed: closed.length > 0 ? closed : undefined })
  }
  function suspend() {
    const agents = chosenOthers.length > 0 ? chosenOthers : (item?.agents.filter(isOther) ?? [])
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
    x: () => toggle(item?.agents ?? []),
    Escape: clear,
    s: suspend,
    K: suspend,
  })
  return {
    ...lines,
    search,
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
