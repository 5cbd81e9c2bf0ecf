import type { useNavigate } from '@tanstack/react-router'
import { askedWords, textCost } from '@wardline/text/word-match'
import type { Agent } from '../data/fleet.ts'
import type { SearchHit, SearchKind } from '../data/search.ts'
import { switchZone } from '../ui/time.tsx'
import { openWallboard } from './open-wallboard.ts'
import { places, wallboard } from './places.ts'

type Navigate = ReturnType<typeof useNavigate>

export interface Entry {
  /** Heading of its group. */
  group: string
  key: string
  text: string
  detail?: string
  /** When it was stored. */
  at?: string
  /** The agent that it suspends. */
  agent?: Agent
  run(): void
}

/** A readable number of entries of a group; typing more finds the others. */
export const maxOfGroup = 8

const actions = [
  { text: 'Plant a decoy', to: '/decoys', search: { plant: 'new' } },
  { text: 'New rule', to: '/rules/new', search: {} },
  { text: 'New policy', to: '/policies/new', search: {} },
  { text: 'Create a key', to: '/keys', search: { create: true } },
  { text: 'Connect an agent', to: '/connect', search: {} },
  { text: 'Simulate an attack', to: '/connect', search: { simulate: true } },
] as const

interface OwnActions {
  onSignOut(): void
  onKeys(): void
  onTheme(): void
}

/** The entries that need no answer of the service. */
export function ownEntries(navigate: Navigate, { onSignOut, onKeys, onTheme }: OwnActions): Entry[] {
  const page = (text: string, run: () => void): Entry => ({ group: 'Pages', key: `page ${text}`, text, run })
  const action = (text: string, run: () => void): Entry => ({ group: 'Actions', key: `action ${text}`, text, run })
  return [
    ...places.map(({ to, name }) => page(name, () => void navigate({ to }))),
    page('Your sessions', () => void navigate({ to: '/account' })),
    page('Alert channels', () => void navigate({ to: '/alerts', search: { view: 'channels' } })),
    page('Alert routes and silences', () => void navigate({ to: '/alerts', search: { view: 'routing' } })),
    page(`${wallboard.name}, full screen`, () => openWallboard(navigate)),
    page('API reference', () => location.assign('/docs')),
    ...actions.map(({ text, ...to }) => action(text, () => void navigate(to))),
    action('Change the theme', onTheme),
    action('Switch between local time and UTC', switchZone),
    action('Show the shortcuts', onKeys),
    action('Sign out', onSignOut),
  ]
}

const groupNames: Record<SearchKind, string> = {
  agent: 'Agents',
  alert: 'Alerts',
  rule: 'Rules',
  policy: 'Policies',
  list: 'Lists',
  decoy: 'Decoys',
  event: 'Events',
  setting: 'Settings',
}

const openers: Record<SearchKind, (navigate: Navigate, hit: SearchHit) => unknown> = {
  agent: (navigate, { id }) => navigate({ to: '/fleet/$id', params: { id } }),
  alert: (navigate, { id }) => navigate({ to: '/alerts', search: { status: 'all', alert: id } }),
  rule: (navigate, { id }) => navigate({ to: '/rules/$id', params: { id } }),
  policy: (navigate, { id }) => navigate({ to: '/policies/$id', params: { id } }),
  list: (navigate, { id }) => navigate({ to: '/rules/lists/$name', params: { name: id } }),
  decoy: (navigate, { id }) => navigate({ to: '/decoys', search: { open: id } }),
  event: (navigate, { seq }) => navigate({ to: '/events', search: { open: seq ?? undefined } }),
  setting: (navigate, { id }) => navigate({ to: '/settings', search: { setting: id } }),
}

const textOf = (kind: SearchKind, { id, title }: SearchHit) =>
  kind === 'agent' && title !== id ? `${id} ${title}` : title

export const foundEntry = (navigate: Navigate, kind: SearchKind, hit: SearchHit): Entry => ({
  group: groupNames[kind],
  key: `${kind} ${hit.id}`,
  text: textOf(kind, hit),
  detail: kind === 'setting' ? hit.detail.replaceAll('`', '') : hit.detail,
  ...(hit.at === null ? {} : { at: hit.at }),
  run: () => void openers[kind](navigate, hit),
})

/** Whether the first word of a query is, or becomes, "suspend" or "kill". */
export function asksToSuspend(query: string): boolean {
  const [first = ''] = query.trim().toLowerCase().split(/\s+/)
  return first !== '' && ('suspend'.startsWith(first) || 'kill'.startsWith(first))
}

/** What follows the command: words of the agent to suspend. */
export const suspendedText = (query: string): string => query.trim().toLowerCase().split(/\s+/).slice(1).join(' ')

export function suspendEntries(fleet: readonly Agent[], query: string, onSuspend: (agent: Agent) => void): Entry[] {
  const words = suspendedText(query).split(' ')
  return fleet
    .filter(({ status, id, name }) => {
      const text = `${id} ${name}`.toLowerCase()
      return status !== 'suspended' && words.every((word) => text.includes(word))
    })
    .slice(0, maxOfGroup)
    .map((agent) => ({
      group: 'Suspend',
      key: `suspend ${agent.id}`,
      text: `Suspend ${agent.id} ${agent.name}`,
      agent,
      run: () => onSuspend(agent),
    }))
}

/**
 * Splits the entries that match into those that were meant, because every word is one of theirs or its beginning, and
 * others; each the best first.
 */
export function matching(entries: readonly Entry[], query: string): { meant: Entry[]; others: Entry[] } {
  if (query.trim() === '') return { meant: [...entries], others: [] }
  const asked = askedWords(query)
  const found = entries
    .map((entry) => ({ entry, cost: textCost(asked, entry.text) ?? Number.POSITIVE_INFINITY }))
    .filter(({ cost }) => cost < Number.POSITIVE_INFINITY)
    .toSorted((one, other) => one.cost - other.cost)
  const isMeant = ({ cost }: { cost: number }) => cost <= asked.length
  const inGroups = (some: typeof found) =>
    [...Map.groupBy(some, ({ entry }) => entry.group).values()].flatMap((group) =>
      group.slice(0, maxOfGroup).map(({ entry }) => entry),
    )
  return { meant: inGroups(found.filter(isMeant)), others: inGroups(found.filter((one) => !isMeant(one))) }
}
