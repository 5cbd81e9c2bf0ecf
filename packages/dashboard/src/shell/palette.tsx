import { useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { type Agent, fleetQuery } from '../data/fleet.ts'
import { shownStatus } from '../data/fleet-counts.ts'
import { useMayOperate } from '../data/session.ts'
import { StatusMark } from '../parts/marks.tsx'
import { ControlDialog } from '../suspend/suspend-dialog.tsx'
import { Combobox } from '../ui/combobox.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { switchZone } from '../ui/time.tsx'
import { openWallboard } from './open-wallboard.ts'
import { places, wallboard } from './places.ts'

interface PaletteProps {
  onClose(): void
  onSignOut(): void
  onKeys(): void
  onTheme(): void
}

interface Entry {
  kind: string
  text: string
  agent?: Agent
  run(): void
}

/** A readable number of entries; typing more finds the others. */
const maxEntries = 20

const actions = [
  { text: 'Plant a decoy', to: '/decoys', search: { plant: 'new' } },
  { text: 'New rule', to: '/rules/new', search: {} },
  { text: 'Create a key', to: '/keys', search: { create: true } },
  { text: 'Connect an agent', to: '/connect', search: {} },
  { text: 'Simulate an attack', to: '/connect', search: { simulate: true } },
] as const

/** Whether the text contains every word of the query, in any order. */
const findsAll = (query: string, text: string): boolean =>
  query
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.toLowerCase().includes(word))

export function Palette({ onClose, onSignOut, onKeys, onTheme }: PaletteProps) {
  const navigate = useNavigate()
  const { data: fleet = [] } = useQuery(fleetQuery)
  const mayOperate = useMayOperate()
  const [query, setQuery] = useState('')
  const [suspending, setSuspending] = useState<Agent>()

  const isSuspending = mayOperate && /^(s|k)/i.test(query.trim())
  const entries: Entry[] = [
    ...places.map(({ to, name }) => ({ kind: 'screen', text: name, run: () => void navigate({ to }) })),
    { kind: 'screen', text: `${wallboard.name}, full screen`, run: () => openWallboard(navigate) },
    { kind: 'screen', text: 'API reference', run: () => location.assign('/docs') },
    ...actions.map(({ text, ...to }) => ({ kind: 'action', text, run: () => void navigate(to) })),
    { kind: 'action', text: 'Change the theme', run: onTheme },
    { kind: 'action', text: 'Switch between local time and UTC', run: switchZone },
    { kind: 'action', text: 'Show the shortcuts', run: onKeys },
    { kind: 'action', text: 'Sign out', run: onSignOut },
    ...(isSuspending ? fleet.filter(({ status }) => status !== 'suspended') : []).map((agent) => ({
      kind: 'suspend',
      text: `Suspend ${agent.id} ${agent.name}`,
      agent,
      run: () => setSuspending(agent),
    })),
  ]
  const found = entries.filter(({ text }) => findsAll(query.trim(), text))
  const shown = found.slice(0, maxEntries)

  function run(entry: Entry) {
    if (entry.kind !== 'suspend') onClose()
    entry.run()
  }

  if (suspending) return <ControlDialog action="suspend" agent={suspending} onClose={onClose} />
  return (
    <Dialog label="Search" look="palette" onClose={onClose}>
      <Combobox
        label="Search agents, screens and actions"
        value={query}
        items={shown}
        keyOf={({ kind, text }) => `${kind} ${text}`}
        onChange={setQuery}
        onPick={run}
        item={({ kind, text, agent }) => (
          <>
            <span className="quiet">{kind}</span>
            <HostileText text={text} line />
            {agent && <StatusMark status={shownStatus(agent)} />}
          </>
        )}
        note={
          found.length === 0
            ? `No results for "${query.trim()}".`
            : found.length > shown.length && `${shown.length} of ${found.length} shown. Type more to narrow the list.`
        }
      />
    </Dialog>
  )
}
