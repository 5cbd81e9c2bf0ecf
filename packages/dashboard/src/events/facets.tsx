import { keepPreviousData, queryOptions } from '@tanstack/react-query'
import type { ReplyOf } from '@wardline/contract'
import { useState } from 'react'
import { call } from '../data/client.ts'
import type { EventFilter } from '../data/live-tail.ts'
import { queryKeys } from '../data/query-keys.ts'
import { AgentId } from '../parts/agent-id.tsx'
import { Button } from '../ui/button.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { Fault } from '../ui/panel.tsx'
import { Time } from '../ui/time.tsx'
import css from './events.module.css'

type Facets = ReplyOf<'getEventFacets'>

/** Each read scans many rows. */
const refreshMs = 30_000
/** Values shown before the list is unfolded. */
const maxShown = 8

export const facetsQuery = (filter: EventFilter) =>
  queryOptions({
    queryKey: queryKeys.facets(filter),
    queryFn: ({ signal }) => call('getEventFacets', { query: filter, signal }),
    refetchInterval: refreshMs,
    placeholderData: keepPreviousData,
  })

/** Counted fields, and the filter that a press on a value sets. */
const fields = [
  { name: 'Type', field: 'event_type', filterBy: 'event_type' },
  { name: 'Agent', field: 'instance_id', filterBy: 'instance_id' },
  { name: 'Source', field: 'source', filterBy: 'q' },
] as const

interface FacetListProps {
  name: string
  /** Whether the values are ids of agents. */
  isAgent: boolean
  values: Facets['source']
  chosen: string | undefined
  onChoose(value: string | undefined): void
}

function FacetList({ name, isAgent, values, chosen, onChoose }: FacetListProps) {
  const [isOpen, setOpen] = useState(false)
  if (values.length === 0) return null
  return (
    <div className={css.facet}>
      <h3>{name}</h3>
      <ul>
        {values.slice(0, isOpen ? undefined : maxShown).map(({ value, count }) => (
          <li key={value}>
            <Button
              kind="plain"
              aria-pressed={chosen === value}
              onClick={() => onChoose(chosen === value ? undefined : value)}
            >
              {isAgent ? <AgentId id={value} /> : <HostileText text={value} line max={100} />}
              <b>{count.toLocaleString('en')}</b>
            </Button>
          </li>
        ))}
      </ul>
      {values.length > maxShown && (
        <Button kind="plain" onClick={() => setOpen(!isOpen)}>
          {isOpen ? 'Show fewer' : `Show ${values.length - maxShown} more`}
        </Button>
      )}
    </div>
  )
}

interface FacetPanelProps {
  facets: Facets | undefined
  fault: unknown
  filter: EventFilter
  onChange(change: Pick<EventFilter, 'event_type' | 'instance_id' | 'q'>): void
}

/** Counts of the filtered events, by type, agent and source. Each count is a button that filters by it. */
export function FacetPanel({ facets, fault, filter, onChange }: FacetPanelProps) {
  // Folded at first: on a narrow screen the lists are above the events and would push them out of sight.
  const [isShown, setShown] = useState(false)
  return (
    <aside className={`${css.facets} ${isShown ? css.shown : ''}`} aria-label="Counts of matching events">
      <div className={css.unfold}>
        <Button aria-expanded={isShown} onClick={() => setShown(!isShown)}>
          {isShown ? 'Hide' : 'Filter by'} type, agent and source
        </Button>
      </div>
      <Fault of={fault} />
      {facets && (
        <>
          <p className="quiet">
            <b>{facets.total.toLocaleString('en')}</b> {facets.total === 1 ? 'event' : 'events'}
            {facets.scanned_to && (
              <>
                {' '}
                since <Time at={facets.scanned_to} />; older ones are not counted
              </>
            )}
          </p>
          {fields.map(({ name, field, filterBy }) => (
            <FacetList
              key={name}
              name={name}
              isAgent={field === 'instance_id'}
              values={facets[field]}
              chosen={filter[filterBy]}
              onChoose={(value) => onChange({ [filterBy]: value })}
            />
          ))}
        </>
      )}
    </aside>
  )
}
