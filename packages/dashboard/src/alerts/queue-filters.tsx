import { useQuery } from '@tanstack/react-query'
import { severities } from '@wardline/contract'
import { alertCountsQuery } from '../data/alerts.ts'
import { sessionQuery } from '../data/session.ts'
import { Chip, ChipGroup, RemovableChip } from '../ui/button.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { countOf, statusNames } from './alert-texts.ts'
import css from './alerts.module.css'
import type { AlertSearch } from './search.ts'

const narrowed = { instance_id: 'Agent', event_type: 'Type', assignee: 'Assignee' } as const
const names = Object.keys(narrowed) as (keyof typeof narrowed)[]
const states = ['open', 'acknowledged', 'resolved', 'all'] as const

/** The filters besides state and severity; undefined without one. */
export function narrowedOf(search: AlertSearch): Partial<Record<keyof typeof narrowed, string>> | undefined {
  const given = names.flatMap((name) => (search[name] ? [[name, search[name]]] : []))
  return given.length === 0 ? undefined : Object.fromEntries(given)
}

interface QueueFiltersProps {
  search: AlertSearch
  onShow(change: Partial<AlertSearch>): void
}

export function QueueFilters({ search, onShow }: QueueFiltersProps) {
  const { status = 'open', severity } = search
  const { data } = useQuery(alertCountsQuery(narrowedOf(search) ?? {}))
  const { data: session } = useQuery(sessionQuery)
  const count = (chosen: Parameters<typeof countOf>[1]) => (data ? countOf(data.counts, chosen) : null)
  const statusOf = (state: (typeof states)[number]) => (state === 'all' ? undefined : state)
  return (
    <div className={css.filters}>
      <div className="chips">
        <ChipGroup
          label="State"
          value={status}
          options={states.map((value) => ({
            value,
            name: value === 'all' ? 'All' : statusNames[value],
            count: count({ status: statusOf(value), severity }),
          }))}
          onChange={(state) => onShow({ status: state === 'open' ? undefined : state })}
        />
        {names.map((name) => {
          const value = search[name]
          return (
            value !== undefined && (
              <RemovableChip key={name} onRemove={() => onShow({ [name]: undefined })}>
                {narrowed[name]}: <HostileText text={value} line max={60} />
              </RemovableChip>
            )
          )
        })}
        {session && search.assignee === undefined && (
          <Chip isOn={false} onClick={() => onShow({ assignee: session.name, status: 'all' })}>
            Assigned to me
          </Chip>
        )}
      </div>
      <ChipGroup
        label="Severity"
        value={severity}
        all={{ name: 'warning and above', count: count({ status: statusOf(status) }) }}
        options={severities.toReversed().map((value) => ({
          value,
          name: value,
          count: count({ status: statusOf(status), severity: value }),
        }))}
        onChange={(value) => onShow({ severity: value })}
      />
      {data?.complete === false && (
        <p className="quiet">Counts cover the newest 10,000 alerts and the newest 10,000 unresolved alerts.</p>
      )}
    </div>
  )
}
