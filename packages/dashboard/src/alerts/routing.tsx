import { useQuery } from '@tanstack/react-query'
import { type AlertPreview, type AlertPreviewRequest, type Severity, severities } from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import { useState } from 'react'
import { type Channel, type Route, routesQuery, silencesQuery } from '../data/alerts.ts'
import { useChange } from '../data/change.ts'
import { call } from '../data/client.ts'
import { queryKeys } from '../data/query-keys.ts'
import { OperatorButton } from '../parts/operator-button.tsx'
import { Button, ConfirmButton } from '../ui/button.tsx'
import { Check, Form, fieldText, SelectField, TextField } from '../ui/field.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { lazyDialog } from '../ui/lazy-dialog.tsx'
import { Fault, Panel } from '../ui/panel.tsx'
import { spanText } from '../ui/span.ts'
import { DataTable } from '../ui/table.tsx'
import { Time, useNow } from '../ui/time.tsx'
import { matchText, previewWords, stateOfChannel } from './alert-texts.ts'
import css from './alerts.module.css'

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

/** The name of a route or channel; its id if it was deleted meanwhile. */
const nameOf = (all: readonly { id: string; name: string }[], id: string) =>
  all.find((one) => one.id === id)?.name ?? id

function Routes({ channels }: RoutingProps) {
  const { data: routes, error } = useQuery(routesQuery)
  const { isBusy, fault, run } = useChange({ changes: [queryKeys.routing] })
  const [form, setForm] = useState<{ route?: Route }>()
  const remove = (id: string) => run(() => call('deleteRoute', { params: { id } }), 'Route deleted.')
  return (
    <>
      <DataTable
        label="Alert routes"
        title="Routes"
        note="A channel with routes receives only the alerts that one of its routes matches. The order of routes does not matter."
        end={
          <OperatorButton disabled={channels.length === 0} onClick={() => setForm({})}>
            Add route…
          </OperatorButton>
        }
        rows={routes}
        rowKey={({ id }) => id}
        fault={error ?? fault}
        empty={
          channels.length === 0
            ? 'No channels yet. Add a channel first; routes then select its alerts.'
            : 'No routes: every channel receives all alerts of its minimum severity and above. Add a route to send, for example, decoy hits only to the pager.'
        }
        columns={[
          { name: 'Name', kind: 'name', cell: ({ name }) => <HostileText text={name} max={80} /> },
          { name: 'Match', cell: ({ match }) => <HostileText text={matchText(match)} /> },
          {
            name: 'Channels',
            cell: (route) =>
              route.channels.map((id) => (
                <div key={id}>
                  <HostileText text={nameOf(channels, id)} max={80} />
                </div>
              )),
          },
        ]}
        actions={(route) => (
          <>
            <OperatorButton about={route.name} onClick={() => setForm({ route })}>
              Edit…
            </OperatorButton>
            <ConfirmButton
              as={OperatorButton}
              about={route.name}
              disabled={isBusy}
              sure="Delete it"
              onConfirm={() => void remove(route.id)}
            >
              Delete…
            </ConfirmButton>
          </>
        )}
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
  const end = (id: string) => run(() => call('deleteSilence', { params: { id } }), 'Silence ended.')
  return (
    <>
      <DataTable
        label="Silences of alerts"
        title="Silences"
        note="Webhooks and other channels for programs still receive all alerts."
        end={<OperatorButton onClick={() => setAdding(true)}>Add silence…</OperatorButton>}
        rows={silences}
        rowKey={({ id }) => id}
        fault={error ?? fault}
        empty="No silences. Before maintenance, silence the affected agents. Decoy hits and suspensions are still sent unless a silence names their exact type or agent."
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
        ]}
        actions={({ id, match }) => (
          <OperatorButton about={matchText(match)} disabled={isBusy} onClick={() => void end(id)}>
            End now
          </OperatorButton>
        )}
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
      note="Less severe alerts are sent together when the quiet hours end."
      rows={channels.flatMap(({ id, name, quiet_hours: hours }) => (hours ? [{ id, name, hours }] : []))}
      rowKey={({ id }) => id}
      empty="No channel has quiet hours. To set them, edit a channel in the Channels tab."
      columns={[
        { name: 'Channel', cell: ({ name }) => <HostileText text={name} max={80} /> },
        { name: 'Time', kind: 'word', cell: ({ hours }) => `${hours.from} to ${hours.to}` },
        { name: 'Time zone', cell: ({ hours }) => <HostileText text={hours.time_zone} max={64} /> },
        { name: 'Sent immediately', cell: ({ hours }) => `${hours.min_severity ?? 'critical'} and above` },
      ]}
    />
  )
}

const usualTypes = [
  'honeypot_triggered',
  'anomaly_detected',
  'policy_violation',
  'instance_offline',
  'instance_suspended',
  'kill_unconfirmed',
  'children_unconfirmed',
  'fleet_outage',
]

/** Shows who would be notified of an event. The service evaluates it with the code for real events. Nothing is sent. */
function RoutePreview({ channels }: RoutingProps) {
  const [preview, setPreview] = useState<AlertPreview>()
  const { fault, isBusy, run } = useChange({ changes: [] })
  function submit(form: FormData) {
    const instance_id = fieldText(form, 'instance')
    const body: AlertPreviewRequest = {
      severity: fieldText(form, 'severity') as Severity,
      event_type: fieldText(form, 'type'),
      ...(instance_id === '' ? {} : { instance_id }),
      ...(form.has('reported') ? { by_service: false } : {}),
    }
    setPreview(undefined)
    void run(async () => setPreview(await call('previewAlert', { body })))
  }
  return (
    <Panel title="Route preview" note="Shows which channels receive an event. Nothing is sent.">
      <Form className={css.preview} onSubmit={submit}>
        <SelectField label="Severity" name="severity" defaultValue="critical" options={severities} />
        <TextField
          label="Type"
          name="type"
          suggestions={usualTypes}
          required
          maxLength={100}
          placeholder={usualTypes[2]}
        />
        <TextField label="Agent" name="instance" maxLength={64} placeholder="any" />
        <Check label="Reported by a client" name="reported" />
        <Button isSubmit disabled={isBusy}>
          Preview
        </Button>
      </Form>
      <Fault of={fault} isInPanel />
      <div role="status">{preview && <Receivers preview={preview} channels={channels} />}</div>
    </Panel>
  )
}

function Receivers({ preview, channels }: RoutingProps & { preview: AlertPreview }) {
  const { data: routes = [] } = useQuery(routesQuery)
  const failing = new Set(channels.filter((channel) => stateOfChannel(channel) === 'failing').map(({ id }) => id))
  const receivers = preview.channels.filter(({ outcome }) => outcome === 'receives').length
  return (
    <>
      <p className={css.entry}>
        <b>
          {preview.channels.length === 0
            ? 'No channels are set up. Add one in the Channels tab.'
            : `Received by ${receivers} of ${counted(preview.channels.length, 'channel')}.`}
        </b>
      </p>
      <ul>
        {preview.channels.map(({ channel_id, name, type, outcome, routes: matched }) => (
          <li key={channel_id} className={css.entry}>
            <p>
              <span aria-hidden="true" className={outcome === 'receives' ? 'ok' : 'quiet'}>
                {outcome === 'receives' ? '●' : '○'}
              </span>{' '}
              <b>
                <HostileText text={name} max={80} />
              </b>{' '}
              <span className="quiet">{type}</span> {previewWords[outcome]}
              {matched.map((id, index) => (
                <span key={id}>
                  {index === 0 ? ', by ' : ', '}
                  <HostileText text={nameOf(routes, id)} max={80} />
                </span>
              ))}
              {outcome === 'receives' && failing.has(channel_id) && (
                <span className="critical"> (failing: delivered once it works again)</span>
              )}
            </p>
          </li>
        ))}
      </ul>
    </>
  )
}
