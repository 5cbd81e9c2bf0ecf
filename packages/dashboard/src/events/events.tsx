import { severities } from '@wardline/contract'
import { useEffect, useMemo, useState } from 'react'
import { SavedViews } from '../parts/saved-views.tsx'
import { SessionLine } from '../parts/session-line.tsx'
import { sessionsOf } from '../parts/sessions.ts'
import { SeverityChart } from '../parts/severity-chart.tsx'
import { RangeText } from '../parts/time-range.tsx'
import { Button, ChipGroup, RemovableChip } from '../ui/button.tsx'
import { SearchField, Select } from '../ui/field.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { lazyDialog } from '../ui/lazy-dialog.tsx'
import { EmptyState, Fault, Panel, Screen } from '../ui/panel.tsx'
import { EventList } from './event-list.tsx'
import css from './events.module.css'
import { FacetPanel } from './facets.tsx'
import { lastNames, lastRanges } from './search.ts'
import { type EventsState, useEvents } from './use-events.ts'

// Loaded when they open, so that the list does not wait for them.
const EventDrawer = lazyDialog(async () => (await import('./event-drawer.tsx')).EventDrawer)
const ExportDialog = lazyDialog(async () => (await import('./export-dialog.tsx')).ExportDialog)

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
          {state.hasOlder && <EmptyState>Older events of this session are not loaded.</EmptyState>}
        </Panel>
      )}
      <div className={css.withFacets}>
        <FacetPanel facets={state.facets.data} fault={state.facets.error} filter={filter} onChange={show} />
        <EventList {...state} />
      </div>
      {search.open !== undefined && (
        <EventDrawer seq={search.open} rows={shown.rows} onOpen={open} onClose={() => open(undefined)} />
      )}
      {isExporting && <ExportDialog filter={filter} onClose={() => setExporting(false)} />}
    </Screen>
  )
}

function Filters({ search, severityCounts, field, show }: EventsState) {
  const { q = '', from, to, last } = search
  const [text, setText] = useState(q)
  // A saved view changes the filter from outside the field.
  useEffect(() => {
    if (document.activeElement !== field.current) setText(q)
  }, [q, field])
  return (
    <div className="chips">
      {/* Each search scans many rows, so it starts on Enter. */}
      <div
        role="search"
        className={css.search}
        onKeyDownCapture={({ key }) => key === 'Enter' && show({ q: text.trim() || undefined })}
      >
        <SearchField
          field={field}
          label="Search source, type or description"
          value={text}
          onChange={(next) => {
            setText(next)
            if (next === '') show({ q: undefined })
          }}
        />
      </div>
      <ChipGroup
        label="Severity"
        value={search.severity}
        all={{ name: 'All' }}
        options={severities.toReversed().map((value) => ({
          value,
          name: value,
          count: severityCounts ? (severityCounts.find((one) => one.value === value)?.count ?? 0) : null,
        }))}
        onChange={(severity) => show({ severity })}
      />
      {Object.entries(narrowed).map(([name, label]) => {
        const value = search[name as keyof typeof narrowed]
        return (
          value !== undefined && (
            <RemovableChip key={name} onRemove={() => show({ [name]: undefined })}>
              {label}: <HostileText text={value} line max={60} />
            </RemovableChip>
          )
        )
      })}
      <span className="chips end">
        {last === undefined && (from !== undefined || to !== undefined) && (
          <RemovableChip onRemove={() => show({ from: undefined, to: undefined })}>
            <RangeText {...(from && { from })} {...(to && { to })} />
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
