import { keepPreviousData, queryOptions, useQuery } from '@tanstack/react-query'
import type { ReplyOf } from '@wardline/contract'
import { useState } from 'react'
import { HostileText } from '../parts/hostile-text.tsx'
import { Time } from '../parts/time.tsx'
import { call, sentenceOf } from '../service/client.ts'
import type { EventFilter } from '../service/live-tail.ts'

type Facets = ReplyOf<'getEventFacets'>

/** Each read scans many rows. */
const refreshMs = 30_000
/** Values shown before the list is unfolded. */
const maxShown = 8

export const facetsQuery = (filter: EventFilter) =>
  queryOptions({
    queryKey: ['facets', filter],
    queryFn: ({ signal }) => call('getEventFacets', { query: filter, signal }),
    refetchInterval: refreshMs,
    placeholderData: keepPreviousData,
  })

const names = { event_type: 'type', instance_id: 'agent', source: 'source' } as const
type Field = keyof typeof names

function FacetList({
  field,
  values,
  chosen,
  onChoose,
}: {
  field: Field
  values: Facets[Field]
  chosen: string | undefined
  onChoose(value: string | undefined): void
}) {
  const [isOpen, setOpen] = useState(false)
  const shown = isOpen ? values : values.slice(0, maxShown)
  if (values.length === 0) return null
  return (
    <div className="facet">
      <h3>{names[field]}</h3>
      <ul>
        {shown.map(({ value, count }) => (
          <li key={value}>
            <button
              type="button"
              className="plain"
              aria-pressed={chosen === value}
              onClick={() => onChoose(chosen === value ? undefined : value)}
            >
              <HostileText text={value} line max={100} />
              <b>{count.toLocaleString('en')}</b>
            </button>
          </li>
        ))}
      </ul>
      {values.length > maxShown && (
        <button type="button" className="plain" onClick={() => setOpen(!isOpen)}>
          {isOpen ? 'Fewer' : `${values.length - maxShown} more`}
        </button>
      )}
    </div>
  )
}

/** Counts of the filtered events, by type, agent and source. Each count is a button that filters by it. */
export function FacetPanel({
  filter,
  onChange,
}: {
  filter: EventFilter
  onChange(change: Pick<EventFilter, 'event_type' | 'instance_id' | 'q'>): void
}) {
  const { data, error } = useQuery(facetsQuery(filter))
  // Folded at first: on a narrow screen the lists are above the events and would push them out of sight.
  const [isShown, setShown] = useState(false)
  return (
    <aside className={isShown ? 'facets shown' : 'facets'} aria-label="Counts of matching events">
      <button type="button" className="unfold" aria-expanded={isShown} onClick={() => setShown(!isShown)}>
        {isShown ? 'Hide' : 'Filter by'} type, agent and source
      </button>
      {error && <p className="fault">{sentenceOf(error)}</p>}
      {data && (
        <>
          <p className="quiet">
            <b>{data.total.toLocaleString('en')}</b> {data.total === 1 ? 'event' : 'events'}
            {data.scanned_to && (
              <>
                {' '}
                since <Time at={data.scanned_to} />: older ones are not counted
              </>
            )}
          </p>
          <FacetList
            field="event_type"
            values={data.event_type}
            chosen={filter.event_type}
            onChoose={(value) => onChange({ event_type: value })}
          />
          <FacetList
            field="instance_id"
            values={data.instance_id}
            chosen={filter.instance_id}
            onChoose={(value) => onChange({ instance_id: value })}
          />
          <FacetList
            field="source"
            values={data.source}
            chosen={filter.q}
            onChoose={(value) => onChange({ q: value })}
          />
        </>
      )}
    </aside>
  )
}
