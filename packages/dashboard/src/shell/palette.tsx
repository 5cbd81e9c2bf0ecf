import { useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useId, useState } from 'react'
import { Dialog } from '../parts/dialog.tsx'
import { HostileText } from '../parts/hostile-text.tsx'
import { StatusMark } from '../parts/marks.tsx'
import { switchZone } from '../parts/time.tsx'
import { type Agent, fleetQuery } from '../service/fleet.ts'
import { shownStatus } from '../service/fleet-counts.ts'
import { useMayOperate } from '../service/session.ts'
import { SuspendDialog } from '../suspend/suspend-dialog.tsx'
import { openWallboard, places, wallboard } from './places.ts'

interface PaletteProps {
  onClose(): void
  onSignOut(): void
  onKeys(): void
  onTheme(): void
}

interface Entry {
  id: string
  kind: string
  text: string
  agent?: Agent
  run(): void
}

/** A readable number of entries; typing more finds the others. */
const maxEntries = 20

const actions = [
  { text: 'Plant a decoy', to: '/decoys', search: { plant: 'new' } },
  { text: 'Write a rule', to: '/rules/new', search: {} },
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
  const [picked, setPicked] = useState(0)
  const [suspending, setSuspending] = useState<Agent>()
  const list = useId()

  const entries: Entry[] = [
    ...places.map(({ to, name }) => ({ id: to, kind: 'screen', text: name, run: () => void navigate({ to }) })),
    {
      id: wallboard.to,
      kind: 'screen',
      text: `${wallboard.name}, full screen`,
      run: () => openWallboard(navigate),
    },
    { id: 'docs', kind: 'screen', text: 'API reference', run: () => location.assign('/docs') },
    ...actions.map(({ text, ...to }) => ({ id: text, kind: 'action', text, run: () => void navigate(to) })),
    { id: 'theme', kind: 'action', text: 'Change the theme', run: onTheme },
    { id: 'zone', kind: 'action', text: 'Switch between local time and UTC', run: switchZone },
    { id: 'keys', kind: 'action', text: 'Show the shortcuts', run: onKeys },
    { id: 'leave', kind: 'action', text: 'Sign out', run: onSignOut },
    ...agentEntries(),
  ]
  function agentEntries(): Entry[] {
    if (query.trim() === '') return []
    return fleet.flatMap((agent) => {
      const text = `${agent.id} ${agent.name}`
      const suspend = {
        id: `suspend ${agent.id}`,
        kind: 'suspend',
        text: `Suspend ${text}`,
        agent,
        run: () => setSuspending(agent),
      }
      return mayOperate && agent.status !== 'suspended' && /^(s|k)/i.test(query.trim()) ? [suspend] : []
    })
  }
  const found = entries.filter(({ text }) => findsAll(query.trim(), text))
  const shown = found.slice(0, maxEntries)
  const active = Math.min(picked, shown.length - 1)

  function run(entry: Entry | undefined) {
    if (!entry) return
    if (entry.kind !== 'suspend') onClose()
    entry.run()
  }

  if (suspending) return <SuspendDialog agent={suspending} onClose={onClose} />
  return (
    <Dialog label="Search" onClose={onClose} className="palette">
      <input
        data-first
        role="combobox"
        aria-label="Search agents, screens and actions"
        aria-expanded="true"
        aria-controls={list}
        aria-activedescendant={shown[active] ? `${list}-${active}` : undefined}
        placeholder="Search agents, screens and actions"
        value={query}
        onChange={(event) => {
          setQuery(event.target.value)
          setPicked(0)
        }}
        onKeyDown={(event) => {
          const step = { ArrowDown: 1, ArrowUp: -1 }[event.key]
          if (step !== undefined) {
            event.preventDefault()
            setPicked((active + step + shown.length) % Math.max(1, shown.length))
          }
          if (event.key === 'Enter') {
            // Otherwise the same key press would activate the button that gets the focus back.
            event.preventDefault()
            run(shown[active])
          }
        }}
      />
      <div role="listbox" id={list} aria-label="Found">
        {shown.map((entry, index) => (
          <div
            key={entry.id}
            id={`${list}-${index}`}
            role="option"
            tabIndex={-1}
            aria-selected={index === active}
            onPointerMove={() => setPicked(index)}
            onClick={() => run(entry)}
          >
            <span className="quiet">{entry.kind}</span>
            <HostileText text={entry.text} line />
            {entry.agent && <StatusMark status={shownStatus(entry.agent)} />}
          </div>
        ))}
      </div>
      <p className="quiet" role="status">
        {found.length > shown.length ? `${shown.length} of ${found.length} shown: type more to find the rest` : ''}
        {found.length === 0 ? 'Nothing is named so.' : ''}
      </p>
    </Dialog>
  )
}
