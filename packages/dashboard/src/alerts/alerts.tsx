import { useQuery } from '@tanstack/react-query'
import { getRouteApi } from '@tanstack/react-router'
import { counted } from '@wardline/text/counted'
import { staleAfterMs } from '../overview/verdict.ts'
import { useNow } from '../parts/time.tsx'
import { alertCountsQuery, channelsQuery, routesQuery, silencesQuery } from '../service/alerts.ts'
import { sentenceOf } from '../service/client.ts'
import { useTitle } from '../shell/title.ts'
import { queueSentence, staleSentence } from './alert-texts.ts'
import './alerts.css'
import { Channels } from './channels.tsx'
import { Queue } from './queue.tsx'
import { Routing } from './routing.tsx'
import type { AlertSearch } from './search.ts'

const route = getRouteApi('/inside/alerts')

export function Alerts() {
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const now = useNow()
  const counts = useQuery(alertCountsQuery({}))
  const channels = useQuery(channelsQuery)
  const { data: routes } = useQuery(routesQuery)
  const { data: silences } = useQuery(silencesQuery)
  const fault = counts.error ?? channels.error
  const isReady = counts.data !== undefined && channels.data !== undefined
  const ageMs = now - Math.min(counts.dataUpdatedAt, channels.dataUpdatedAt)
  const isStale = isReady && ageMs > staleAfterMs
  const said = isReady
    ? queueSentence({ counts: counts.data.counts, isComplete: counts.data.complete, channels: channels.data })
    : 'Reading the alerts…'
  const title = isStale ? staleSentence(ageMs) : !isReady && fault ? 'The service does not answer.' : said
  useTitle(title)

  const show = (change: Partial<AlertSearch>) =>
    void navigate({ search: (before) => ({ ...before, ...change }), replace: true })
  const rules = [
    ...(routes && routes.length > 0 ? [counted(routes.length, 'route')] : []),
    ...(silences && silences.length > 0 ? [counted(silences.length, 'silence')] : []),
  ]
  const views = [
    { view: undefined, name: 'Queue', more: '' },
    { view: 'channels', name: 'Channels', more: channels.data ? String(channels.data.length) : '' },
    { view: 'routing', name: 'Routes and silences', more: rules.join(', ') },
  ] as const
  return (
    <div className="rows alerts">
      <div>
        <h1 aria-live="polite">{title}</h1>
        <p className="quiet lead">
          {isStale && 'What follows was true then. '}
          {fault && <span className="fault">{sentenceOf(fault)}</span>}
        </p>
      </div>
      <div className="chips" role="group" aria-label="Parts of alerts">
        {views.map(({ view, name, more }) => (
          <button
            key={name}
            type="button"
            className="chip"
            aria-pressed={search.view === view}
            onClick={() => void navigate({ search: { view } })}
          >
            {name} {more !== '' && <b>{more}</b>}
          </button>
        ))}
      </div>
      <div className={isStale ? 'rows stale' : 'rows'}>
        {search.view === undefined && <Queue search={search} channels={channels.data} onShow={show} />}
        {search.view === 'channels' && <Channels search={search} channels={channels.data} onShow={show} />}
        {search.view === 'routing' && <Routing channels={channels.data} />}
      </div>
    </div>
  )
}
