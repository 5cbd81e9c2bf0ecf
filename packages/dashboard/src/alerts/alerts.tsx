import { useQuery } from '@tanstack/react-query'
import { getRouteApi } from '@tanstack/react-router'
import { alertCountsQuery, channelsQuery, routesQuery, silencesQuery } from '../data/alerts.ts'
import { useIsLimited } from '../data/session.ts'
import { staleAfterMs } from '../overview/verdict.ts'
import { Fault, Screen } from '../ui/panel.tsx'
import { spanText } from '../ui/span.ts'
import { Tabs } from '../ui/tabs.tsx'
import { useNow } from '../ui/time.tsx'
import { queueSentence } from './alert-texts.ts'
import css from './alerts.module.css'
import { Channels } from './channels.tsx'
import { Queue } from './queue.tsx'
import { Routing } from './routing.tsx'
import type { AlertSearch } from './search.ts'

const route = getRouteApi('/inside/alerts')

/** The heading of the screen, and whether its data is too old to be shown as current. */
function useHeading() {
  const now = useNow()
  const counts = useQuery(alertCountsQuery({}))
  const isLimited = useIsLimited()
  const channels = useQuery({ ...channelsQuery, enabled: !isLimited })
  const fault = counts.error ?? channels.error
  const isKnown = isLimited || channels.data
  const facts = isKnown && counts.data && { ...counts.data, channels: channels.data }
  const ageMs = now - Math.min(counts.dataUpdatedAt, isLimited ? Infinity : channels.dataUpdatedAt)
  const isStale = facts && ageMs > staleAfterMs
  const current = facts
    ? queueSentence({ ...facts, isComplete: facts.complete })
    : fault
      ? 'No answer from the service'
      : 'Loading alerts…'
  const title = isStale ? `No answer from the service for ${spanText(ageMs)}` : current
  return { title, isStale, fault, channels: channels.data }
}

export function Alerts() {
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const { title, isStale, fault, channels } = useHeading()
  const isLimited = useIsLimited()
  const { data: routes = [] } = useQuery({ ...routesQuery, enabled: !isLimited })
  const { data: silences = [] } = useQuery({ ...silencesQuery, enabled: !isLimited })
  const show = (change: Partial<AlertSearch>) =>
    void navigate({ search: (before) => ({ ...before, ...change }), replace: true })
  const { view = 'queue' } = search
  return (
    <Screen title={title} heading={<span aria-live="polite">{title}</span>} lead={isStale && 'Data may be outdated.'}>
      <Fault of={fault} />
      <div className={isStale ? css.stale : undefined}>
        <Tabs
          label="Views of alerts"
          value={view}
          tabs={[
            { value: 'queue', name: 'Queue' },
            ...(isLimited
              ? []
              : ([
                  { value: 'channels', name: 'Channels', note: channels?.length },
                  { value: 'routing', name: 'Routes and silences', note: routes.length + silences.length || undefined },
                ] as const)),
          ]}
          onChange={(next) => void navigate({ search: { view: next === 'queue' ? undefined : next } })}
        >
          {view === 'queue' && <Queue search={search} channels={channels} onShow={show} />}
          {view === 'channels' && <Channels search={search} channels={channels} onShow={show} />}
          {view === 'routing' && <Routing channels={channels ?? []} />}
        </Tabs>
      </div>
    </Screen>
  )
}
