import { useMemo, useState } from 'react'
import { SetChips, SeverityChips } from '../parts/filter-chips.tsx'
import { SavedViews } from '../parts/saved-views.tsx'
import { SessionLine } from '../parts/session-line.tsx'
import { sessionsOf } from '../parts/sessions.ts'
import { SeverityChart } from '../parts/severity-chart.tsx'
import { RangeText } from '../parts/time-range.tsx'
import { Button, RemovableChip } from '../ui/button.tsx'
import { SearchField, Select } from '../ui/field.tsx'
import { lazyDialog } from '../ui/lazy-dialog.tsx'
import { EmptyState, Fault, Panel, Screen } from '../ui/panel.tsx'
import { EventList } from './event-list.tsx'
import css from './events.module.css'
import { FacetPanel } from './facets.tsx'
import { lastNames, lastRanges } from './search.ts'
import { type EventsState, useEvents } from './use-events.ts'

// Loaded when they open, so that the list does not wait for them.
const EventDrawer = lazyDialog(async () => (await import('./event-dialogs.tsx')).EventDrawer)
const ExportDialog = lazyDialog(async () => (await import('./event-dialogs.tsx')).ExportDialog)

/** Filters besides severity, text and time. Each is shown with a button to remove it. */
const narrowed = { instance_id: 'Agent', event_type: 'Type', session_id: 'Session' } as const

export function Events() {
  const state = useEvents()
  const { search, filter, rows, shown, show, open } = state
  const [isExporting, setExporting] = useState(false)
  const session = useMemo(
    () => (search.session_id === undefined ? undefined : sessionsOf(rows)[0]),
    [rows, search.session_id],
  )
  return (
    <Screen
      title="Events"
      actions={
        <>
          <SavedViews screen="events" view={search.view} />
          <Button onClick={() => setExporting(true)}>Export…</Button>
        </>
      }
    >
      <Filters {...state} />
      <Fault of={state.fault} />
      <SeverityChart
        filter={filter}
        height={72}
        range={filter}
        onZoom={({ from, to }) => show({ from, to, last: undefined })}
      />
      {session && (
        <Panel label="Session">
          <SessionLine session={session} isAlone />
          {state.list.hasNextPage && <EmptyState>Older events of this session are not loaded.</EmptyState>}
        </Panel>
      )}
      <div className={css.withFacets}>
        <FacetPanel facets={state.facets.data} fault={state.facets.error} filter={filter} onChange={show} />
        <EventList {...state} />
      </div>
      {search.open !== undefined && (
        <EventDrawer
          seq={search.open}
          rule={search.rule}
          rows={shown.rows}
          onOpen={open}
          onClose={() => open(undefined)}
        />
      )}
      {isExporting && <ExportDialog filter={filter} onClose={() => setExporting(false)} />}
    </Screen>
  )
}

function Filters({ search, severityCounts, field, show }: EventsState) {
  const { from, to, last } = search
  return (
    <div className="chips">
      <SearchField
        field={field}
        label="Search source, type or description"
        value={search.q ?? ''}
        onChange={(text) => text === '' && show({ q: undefined })}
        // Each search scans many rows.
        onEnter={(text) => show({ q: text.trim() || undefined })}
      />
      <SeverityChips
        value={search.severity}
        all={{ name: 'All' }}
        countOf={(value) => severityCounts && (severityCounts.find((one) => one.value === value)?.count ?? 0)}
        onChange={(severity) => show({ severity })}
      />
      <SetChips names={narrowed} search={search} onShow={show} />
      <span className="chips end">
        {last === undefined && (from !== undefined || to !== undefined) && (
          <RemovableChip onRemove={() => show({ from: undefined, to: undefined })}>
            <RangeText from={from} to={to} />
          </RemovableChip>
        )}
        <Select
          label="Time range"
          options={[['', 'Any time'], ...lastNames.map((name) => [name, lastRanges[name].name] as const)]}
          value={last ?? ''}
          onChange={({ target }) =>
            show({ last: lastNames.find((name) => name === target.value), from: undefined, to: undefined })
          }
        />
      </span>
    </div>
  )
}
