import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { type Channel, type Route, routesQuery, silencesQuery } from '../data/alerts.ts'
import { useChange } from '../data/change.ts'
import { call } from '../data/client.ts'
import { queryKeys } from '../data/query-keys.ts'
import { OperatorButton } from '../parts/operator-button.tsx'
import { ConfirmButton } from '../ui/button.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { lazyDialog } from '../ui/lazy-dialog.tsx'
import { Fault } from '../ui/panel.tsx'
import { spanText } from '../ui/span.ts'
import { DataTable } from '../ui/table.tsx'
import { Time, useNow } from '../ui/time.tsx'
import { matchText } from './alert-texts.ts'
import { RoutePreview } from './route-preview.tsx'

const RouteForm = lazyDialog(async () => (await import('./routing-forms.tsx')).RouteForm)
const SilenceForm = lazyDialog(async () => (await import('./routing-forms.tsx')).SilenceForm)

interface RoutingProps {
  channels: readonly Channel[]
}

export function Routing({ channels }: RoutingProps) {
  return (
    <>
      <RoutePreview channels={channels} />
      <Routes channels={channels} />
      <Silences />
      <QuietHours channels={channels} />
    </>
  )
}

function Routes({ channels }: RoutingProps) {
  const { data: routes, error } = useQuery(routesQuery)
  const { isBusy, fault, run } = useChange({ changes: [queryKeys.routing] })
  const [form, setForm] = useState<{ route?: Route }>()
  const names = new Map(channels.map(({ id, name }) => [id, name]))
  const remove = async (id: string) => {
    await call('deleteRoute', { params: { id } })
    return 'Route deleted.'
  }
  const none =
    channels.length === 0
      ? 'No channels yet. Add a channel first; routes then select its alerts.'
      : 'No routes: every channel receives all alerts of its minimum severity and above. Add a route to send, for example, decoy hits only to the pager.'
  return (
    <>
      <Fault of={error ?? fault} />
      <DataTable
        label="Alert routes"
        title="Routes"
        note="A channel with routes receives only what one of them matches. Their order does not matter."
        end={
          <OperatorButton disabled={channels.length === 0} onClick={() => setForm({})}>
            Add route…
          </OperatorButton>
        }
        rows={routes ?? []}
        rowKey={({ id }) => id}
        empty={routes ? none : 'Loading routes…'}
        columns={[
          {
            name: 'Name',
            cell: ({ name }) => (
              <b>
                <HostileText text={name} max={80} />
              </b>
            ),
          },
          { name: 'Match', cell: ({ match }) => <HostileText text={matchText(match)} /> },
          {
            name: 'Channels',
            cell: (route) =>
              route.channels.map((id) => (
                <div key={id}>
                  <HostileText text={names.get(id) ?? id} max={80} />
                </div>
              )),
          },
          {
            name: 'Actions',
            isNameHidden: true,
            cell: (route) => (
              <span className="chips">
                <OperatorButton about={route.name} onClick={() => setForm({ route })}>
                  Edit…
                </OperatorButton>
                <ConfirmButton
                  as={OperatorButton}
                  about={route.name}
                  disabled={isBusy}
                  sure="Delete it"
                  onConfirm={() => void run(() => remove(route.id))}
                >
                  Delete…
                </ConfirmButton>
              </span>
            ),
          },
        ]}
      />
      {form && <RouteForm {...form} channels={channels} onClose={() => setForm(undefined)} />}
    </>
  )
}

function Silences() {
  const { data: silences, error } = useQuery(silencesQuery)
  const { isBusy, fault, run } = useChange({ changes: [queryKeys.routing] })
  const [isAdding, setAdding] = useState(false)
  const now = useNow()
  const end = async (id: string) => {
    await call('deleteSilence', { params: { id } })
    return 'Silence ended.'
  }
  return (
    <>
      <Fault of={error ?? fault} />
      <DataTable
        label="Silences of alerts"
        title="Silences"
        note="Webhook, syslog and Splunk channels still receive all alerts."
        end={<OperatorButton onClick={() => setAdding(true)}>Add silence…</OperatorButton>}
        rows={silences ?? []}
        rowKey={({ id }) => id}
        empty={
          silences
            ? 'No silences. Before maintenance, silence the affected agents. Decoy hits and suspensions are still sent unless a silence names their exact type or agent.'
            : 'Loading silences…'
        }
        columns={[
          { name: 'Match', cell: ({ match }) => <HostileText text={matchText(match)} /> },
          {
            name: 'Until',
            cell: ({ ends_at }) => (
              <>
                <Time at={ends_at} /> <span className="quiet">({spanText(Date.parse(ends_at) - now)} left)</span>
              </>
            ),
          },
          { name: 'Reason', cell: ({ reason }) => <HostileText text={reason} /> },
          {
            name: 'Created',
            cell: ({ created_by, created_by_name, created_at }) => (
              <>
                <Time at={created_at} /> by <HostileText text={created_by_name ?? created_by} max={60} />
              </>
            ),
          },
          {
            name: 'Actions',
            isNameHidden: true,
            cell: ({ id, match }) => (
              <OperatorButton about={matchText(match)} disabled={isBusy} onClick={() => void run(() => end(id))}>
                End now
              </OperatorButton>
            ),
          },
        ]}
      />
      {isAdding && <SilenceForm onClose={() => setAdding(false)} />}
    </>
  )
}

function QuietHours({ channels }: RoutingProps) {
  return (
    <DataTable
      label="Quiet hours of channels"
      title="Quiet hours"
      note="The other alerts are sent together at the end."
      rows={channels.flatMap(({ id, name, quiet_hours: hours }) => (hours ? [{ id, name, hours }] : []))}
      rowKey={({ id }) => id}
      empty="No channel has quiet hours. Set them in the Channels tab: Edit."
      columns={[
        { name: 'Channel', cell: ({ name }) => <HostileText text={name} max={80} /> },
        { name: 'Time', kind: 'word', cell: ({ hours }) => `${hours.from} to ${hours.to}` },
        { name: 'Time zone', cell: ({ hours }) => <HostileText text={hours.time_zone} max={64} /> },
        { name: 'Sent immediately', cell: ({ hours }) => `${hours.least ?? 'critical'} and above` },
      ]}
    />
  )
}
