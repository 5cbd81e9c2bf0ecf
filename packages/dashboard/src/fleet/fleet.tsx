import { getRouteApi } from '@tanstack/react-router'
import { byAllTags } from '@wardline/contract'
import { type ReactNode, useEffect, useState } from 'react'
import { witnessNames } from '../data/witnesses.ts'
import { OperatorButton } from '../parts/operator-button.tsx'
import { SavedViews } from '../parts/saved-views.tsx'
import { Button, ChipGroup, RemovableChip } from '../ui/button.tsx'
import { SearchField, Select } from '../ui/field.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { lazyDialog, usePreload } from '../ui/lazy-dialog.tsx'
import { Fault, Panel, Screen } from '../ui/panel.tsx'
import { Tabs } from '../ui/tabs.tsx'
import { AgentTable } from './agent-table.tsx'
import css from './fleet.module.css'
import { statusFilters, witnessFilters } from './search.ts'
import { ToolServers } from './tool-servers.tsx'
import { type FleetState, useFleet } from './use-fleet.ts'
import { countsText } from './view.ts'

const route = getRouteApi('/inside/fleet')

// Loaded when they open, so that the list does not wait for them.
const loadDialogs = async () => (await import('./fleet-dialogs.tsx')).FleetDialogs
const FleetDialogs = lazyDialog(loadDialogs)

const filterNames = {
  active: 'Active',
  suspended: 'Suspended',
  unconfirmed: 'Not confirmed',
  offline: 'Offline',
  asked: 'Can only be asked',
}

type Tab = 'agents' | 'servers'

function Views({ tab, children }: { tab: Tab; children: ReactNode }) {
  const navigate = route.useNavigate()
  return (
    <Tabs
      label="Views of the fleet"
      value={tab}
      tabs={[
        { value: 'agents', name: 'Agents' },
        { value: 'servers', name: 'Tool servers' },
      ]}
      onChange={(next) => void navigate({ search: { tab: next === 'servers' ? next : undefined } })}
    >
      {children}
    </Tabs>
  )
}

export function Fleet() {
  const { tab } = route.useSearch()
  if (tab === undefined) return <Agents />
  return (
    <Screen title="Tool servers">
      <Views tab={tab}>
        <ToolServers />
      </Views>
    </Screen>
  )
}

function Agents() {
  const state = useFleet()
  const { all, search, mayOperate, dialog, setDialog } = state
  usePreload(loadDialogs)
  return (
    <Screen
      title={state.isLoaded ? countsText(all) : 'Fleet'}
      actions={
        <>
          <SavedViews screen="fleet" view={search.view} />
          {mayOperate && all.suspended > 0 && (
            <Button onClick={() => setDialog({ action: 'resume', agents: undefined })}>Resume by tag…</Button>
          )}
          {mayOperate && (
            <Button kind="danger" onClick={() => setDialog({ action: 'suspend', agents: undefined })}>
              Suspend by tag…
            </Button>
          )}
        </>
      }
    >
      <Fault of={state.error} />
      <Views tab="agents">
        <Filters {...state} />
        <AgentTable {...state} />
      </Views>
      {state.chosen.length > 0 && <Selection {...state} />}
      {dialog && <FleetDialogs {...dialog} onClose={() => setDialog(undefined)} />}
    </Screen>
  )
}

function Filters({ search, counts, groups, field, show, setAt }: FleetState) {
  const { q = '', group = '', heard = '', from, server, parent, status } = search
  const [text, setText] = useState(q)
  // A saved view changes the filter from outside the field.
  useEffect(() => {
    if (document.activeElement !== field.current) setText(q)
  }, [q, field])
  return (
    <div className="chips">
      <SearchField
        field={field}
        label="Filter by id, name, tag, version or reason"
        value={text}
        onChange={(next) => {
          setText(next)
          show({ q: next || undefined })
        }}
      />
      <ChipGroup
        label="Status"
        value={status}
        all={{ name: 'All', count: counts.all }}
        options={statusFilters.map((value) => ({ value, name: filterNames[value], count: counts[value] }))}
        onChange={(next) => show({ status: next })}
      />
      {from !== undefined && (
        <RemovableChip onRemove={() => show({ from: undefined })}>
          From id <HostileText text={from} line max={64} />
        </RemovableChip>
      )}
      {server !== undefined && (
        <RemovableChip onRemove={() => show({ server: undefined })}>
          Tool server <HostileText text={server} line max={64} />
        </RemovableChip>
      )}
      {parent !== undefined && (
        <RemovableChip onRemove={() => show({ parent: undefined })}>
          Children of <HostileText text={parent} line max={64} />
        </RemovableChip>
      )}
      <span className="end chips">
        <Select
          label="Heard by"
          value={heard}
          options={[
            ['', 'Heard by any'],
            ...witnessFilters.map((name) => [name, `Heard by ${witnessNames[name]}`] as const),
          ]}
          onChange={({ target }) => show({ heard: witnessFilters.find((name) => name === target.value) })}
        />
        <Select
          label="Group by"
          value={group}
          options={[
            ['', 'No groups'],
            ...[...new Set([...groups, ...(group ? [group] : [])])].map(
              (name) => [name, `Group: ${name === byAllTags ? 'all tags' : name}`] as const,
            ),
          ]}
          onChange={({ target }) => {
            setAt(0)
            show({ group: target.value || undefined, closed: undefined })
          }}
        />
      </span>
    </div>
  )
}

function Selection({ chosen, chosenOthers, chosenSuspended, clear, setDialog }: FleetState) {
  return (
    <Panel label="Selected agents" className={`chips ${css.selection}`}>
      <span role="status">
        <b>{chosen.length.toLocaleString('en')} selected</b>{' '}
        <span className="quiet">
          {chosenOthers.length} not suspended, {chosenSuspended.length} suspended
        </span>
      </span>
      <span className="chips">
        <Button shortcut="Esc" onClick={clear}>
          Clear
        </Button>
        <OperatorButton onClick={() => setDialog({ action: 'tag', agents: chosen })}>Tags…</OperatorButton>
        <OperatorButton
          disabled={chosenSuspended.length === 0}
          onClick={() => setDialog({ action: 'resume', agents: chosenSuspended })}
        >
          Resume {chosenSuspended.length}…
        </OperatorButton>
        <OperatorButton
          kind="danger"
          shortcut="s"
          disabled={chosenOthers.length === 0}
          onClick={() => setDialog({ action: 'suspend', agents: chosenOthers })}
        >
          Suspend {chosenOthers.length}…
        </OperatorButton>
      </span>
    </Panel>
  )
}
