import { useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { WardlineError } from '@wardline/contract'
import { useEffect, useState } from 'react'
import { type Agent, foundAgentsQuery } from '../data/fleet.ts'
import { shownStatus } from '../data/fleet-counts.ts'
import { searchQuery } from '../data/search.ts'
import { useMayOperate } from '../data/session.ts'
import { StatusMark } from '../parts/marks.tsx'
import { ControlDialog } from '../suspend/suspend-dialog.tsx'
import { Combobox } from '../ui/combobox.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { takeTyped } from '../ui/shortcuts.ts'
import { Time } from '../ui/time.tsx'
import {
  asksToSuspend,
  type Entry,
  foundEntry,
  matching,
  maxOfGroup,
  ownEntries,
  suspendEntries,
  suspendedText,
} from './palette-entries.ts'
import css from './shell.module.css'

/** Some of them may be suspended already. */
const maxListedAgents = 50

interface PaletteProps {
  onClose(): void
  onSignOut(): void
  onKeys(): void
  onTheme(): void
}

/** The entries that match, in groups: pages and actions that were meant, what the service found, then the others. */
function useEntries(query: string, props: PaletteProps, onSuspend: (agent: Agent) => void) {
  const navigate = useNavigate()
  const mayOperate = useMayOperate()
  const isSuspending = mayOperate && asksToSuspend(query)
  const { data: fleet = [] } = useQuery({
    ...foundAgentsQuery(suspendedText(query), maxListedAgents),
    enabled: isSuspending,
  })
  const { data, error, isFetching, isPlaceholderData } = useQuery(searchQuery(query.trim()))
  const own = matching(ownEntries(navigate, props), query)
  const found = (data?.groups ?? []).flatMap(({ kind, hits }) => hits.map((hit) => foundEntry(navigate, kind, hit)))
  const suspending = isSuspending ? suspendEntries(fleet, query, onSuspend) : []
  return {
    entries: [
      ...own.meant,
      ...found,
      ...suspending,
      ...own.others.filter(({ group }) => !own.meant.some((one) => one.group === group)),
    ],
    error,
    isPending:
      (isFetching && (data === undefined || isPlaceholderData)) || (error === null && data?.complete === false),
  }
}

const faultText = (fault: unknown) =>
  fault instanceof WardlineError && fault.status !== 0 ? fault.message : 'The service does not answer.'

function noteOf(query: string, { entries, error, isPending }: ReturnType<typeof useEntries>) {
  const text = query.trim()
  if (error) return `${faultText(error)} Pages and actions are still found.`
  if (isPending && text !== '' && entries.length === 0) return 'Searching…'
  if (entries.length === 0) return `No results for "${text}".`
  const isCut = [...Map.groupBy(entries, ({ group }) => group).values()].some(({ length }) => length === maxOfGroup)
  return text !== '' && isCut && `At most ${maxOfGroup} results of each kind are shown. Type more to narrow the list.`
}

export function Palette(props: PaletteProps) {
  const { onClose } = props
  const [query, setQuery] = useState('')
  const [suspending, setSuspending] = useState<Agent>()
  /** The text for which Enter was pressed before its answer arrived. */
  const [hurried, setHurried] = useState<string>()
  const state = useEntries(query, props, setSuspending)
  const { entries, isPending } = state

  function run(entry: Entry) {
    if (entry.agent === undefined) onClose()
    entry.run()
  }

  const awaited = hurried === query && !isPending ? entries[0] : undefined
  // Once per answer: running the entry closes the palette.
  useEffect(() => {
    if (awaited) run(awaited)
  }, [awaited?.key])

  if (suspending) return <ControlDialog action="suspend" agent={suspending} onClose={onClose} />
  return (
    <Dialog label="Search" look="palette" onClose={onClose}>
      <Combobox
        label="Search agents, alerts, rules, decoys, pages…"
        value={query}
        items={entries}
        keyOf={({ key }) => key}
        groupOf={({ group }) => group}
        onChange={(text) => {
          setHurried(undefined)
          setQuery(text)
        }}
        onFocus={() => {
          const { text, isEntered } = takeTyped()
          if (text === '') return
          setQuery(query + text)
          if (isEntered) setHurried(query + text)
        }}
        onPick={run}
        onPickNothing={() => setHurried(isPending ? query : undefined)}
        item={({ text, detail = '', at, agent }) => (
          <>
            <HostileText text={text} line />
            {detail !== '' && (
              <span className={`quiet ${css.detail}`}>
                <HostileText text={detail} line max={120} />
              </span>
            )}
            {at && (
              <span className="quiet">
                <Time at={at} />
              </span>
            )}
            {agent && <StatusMark status={shownStatus(agent)} />}
          </>
        )}
        note={noteOf(query, state)}
      />
    </Dialog>
  )
}
