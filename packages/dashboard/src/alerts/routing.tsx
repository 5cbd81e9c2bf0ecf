import { useQuery } from '@tanstack/react-query'
import { counted } from '@wardline/text/counted'
import { useState } from 'react'
import { HostileText } from '../parts/hostile-text.tsx'
import { spanText } from '../parts/span.ts'
import { Time, useNow } from '../parts/time.tsx'
import { type Channel, type Route, routesQuery, silencesQuery } from '../service/alerts.ts'
import { call, sentenceOf } from '../service/client.ts'
import { OperatorButton, OutcomeText } from './action-parts.tsx'
import { matchText } from './alert-texts.ts'
import { RouteForm } from './route-form.tsx'
import { RoutePreview } from './route-preview.tsx'
import { SilenceForm } from './silence-form.tsx'
import { useAction } from './use-action.ts'

export function Routing({ channels = [] }: { channels: readonly Channel[] | undefined }) {
  return (
    <>
      <RoutePreview channels={channels} />
      <Routes channels={channels} />
      <Silences />
      <QuietHours channels={channels} />
    </>
  )
}

function Routes({ channels }: { channels: readonly Channel[] }) {
  const { data: routes, error } = useQuery(routesQuery)
  const { isBusy, outcome, run } = useAction('routing')
  const [form, setForm] = useState<{ route?: Route }>()
  const [deleting, setDeleting] = useState<string>()
  const names = new Map(channels.map(({ id, name }) => [id, name]))
  const remove = (id: string) =>
    void run(async () => {
      await call('deleteRoute', { params: { id } })
      return 'The route is deleted.'
    })
  return (
    <section className="panel" aria-labelledby="routes">
      <header>
        <h2 id="routes">Routes</h2>
        <span className="quiet">a channel that is named here receives only what one of its routes matches</span>
        <OutcomeText outcome={outcome} />
        <span className="end">
          <OperatorButton disabled={channels.length === 0} onClick={() => setForm({})}>
            Add a route…
          </OperatorButton>
        </span>
      </header>
      {error && <p className="empty fault">{sentenceOf(error)}</p>}
      {routes?.length === 0 && (
        <p className="empty">
          {channels.length === 0
            ? 'No channel yet: add one first, then routes decide what it receives.'
            : 'No route: every channel receives all alerts of its minimum severity and above. Add a route to send, say, decoy hits to the pager alone.'}
        </p>
      )}
      <ul>
        {routes?.map((route) => (
          <li key={route.id} className="rule-row">
            <div>
              <b>
                <HostileText text={route.name} max={80} />
              </b>
              <p className="quiet">
                <HostileText text={matchText(route.match)} /> go to{' '}
                {route.channels.map((id, index) => (
                  <span key={id}>
                    {index > 0 && ', '}
                    <HostileText text={names.get(id) ?? id} max={80} />
                  </span>
                ))}
              </p>
            </div>
            <span className="actions">
              <OperatorButton onClick={() => setForm({ route })}>
                Edit…<span className="only-read"> {route.name}</span>
              </OperatorButton>
              {deleting === route.id ? (
                <OperatorButton className="danger" disabled={isBusy} onClick={() => remove(route.id)}>
                  Delete it
                </OperatorButton>
              ) : (
                <OperatorButton onClick={() => setDeleting(route.id)}>
                  Delete…<span className="only-read"> {route.name}</span>
                </OperatorButton>
              )}
            </span>
          </li>
        ))}
      </ul>
      {routes && routes.length > 1 && (
        <p className="empty">The order of routes does not matter: each that matches counts.</p>
      )}
      {form && <RouteForm {...form} channels={channels} onClose={() => setForm(undefined)} />}
    </section>
  )
}

function Silences() {
  const { data: silences, error } = useQuery(silencesQuery)
  const { isBusy, outcome, run } = useAction('routing')
  const [isAdding, setAdding] = useState(false)
  const now = useNow()
  const end = (id: string) =>
    void run(async () => {
      await call('deleteSilence', { params: { id } })
      return 'The silence has ended.'
    })
  return (
    <section className="panel" aria-labelledby="silences">
      <header>
        <h2 id="silences">Silences</h2>
        <span className="quiet">for people; machines still receive everything</span>
        <OutcomeText outcome={outcome} />
        <span className="end">
          <OperatorButton onClick={() => setAdding(true)}>Add a silence…</OperatorButton>
        </span>
      </header>
      {error && <p className="empty fault">{sentenceOf(error)}</p>}
      {silences?.length === 0 && (
        <p className="empty">
          Nothing is silenced. Before maintenance, silence the agents that it touches, with an end: decoy hits and kills
          still come through unless the silence names them.
        </p>
      )}
      <ul>
        {silences?.map((silence) => (
          <li key={silence.id} className="rule-row">
            <div>
              <b>
                <HostileText text={matchText(silence.match)} />
              </b>{' '}
              until <Time at={silence.ends_at} />{' '}
              <span className="quiet">({spanText(Date.parse(silence.ends_at) - now)} left)</span>
              <p className="quiet">
                <HostileText text={silence.reason} /> · by{' '}
                <HostileText text={silence.created_by_name ?? silence.created_by} max={60} /> at{' '}
                <Time at={silence.created_at} />
              </p>
            </div>
            <span className="actions">
              <OperatorButton disabled={isBusy} onClick={() => end(silence.id)}>
                End now<span className="only-read"> {matchText(silence.match)}</span>
              </OperatorButton>
            </span>
          </li>
        ))}
      </ul>
      {isAdding && <SilenceForm onClose={() => setAdding(false)} />}
    </section>
  )
}

function QuietHours({ channels }: { channels: readonly Channel[] }) {
  const quiet = channels.flatMap(({ quiet_hours, ...channel }) => (quiet_hours ? [{ ...channel, quiet_hours }] : []))
  return (
    <section className="panel" aria-labelledby="quiet-hours">
      <header>
        <h2 id="quiet-hours">Quiet hours</h2>
        <span className="quiet">{quiet.length > 0 && counted(quiet.length, 'channel')}</span>
      </header>
      {quiet.length === 0 ? (
        <p className="empty">No channel has quiet hours. They are set with the channel: Channels, Edit.</p>
      ) : (
        <ul className="lines">
          {quiet.map(({ id, name, quiet_hours: { from, to, time_zone, least = 'critical' } }) => (
            <li key={id}>
              <HostileText text={name} max={80} /> {from} to {to}, <HostileText text={time_zone} max={64} />: {least}{' '}
              and above are sent at once, the rest together at {to}
            </li>
          ))}
        </ul>
      )}
    </section>
  )
}
