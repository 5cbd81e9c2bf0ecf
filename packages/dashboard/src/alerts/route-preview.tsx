import { useQuery } from '@tanstack/react-query'
import { type AlertPreview, type AlertPreviewRequest, severities } from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import { type FormEvent, useState } from 'react'
import { type Channel, routesQuery } from '../data/alerts.ts'
import { useChange } from '../data/change.ts'
import { call } from '../data/client.ts'
import { Button } from '../ui/button.tsx'
import { Check, SelectField, TextField } from '../ui/field.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { Fault, Panel } from '../ui/panel.tsx'
import { previewWords, stateOfChannel } from './alert-texts.ts'
import css from './alerts.module.css'

const usualTypes = [
  'honeypot_triggered',
  'anomaly_detected',
  'policy_violation',
  'instance_offline',
  'instance_suspended',
  'kill_unconfirmed',
  'fleet_outage',
]

/** Shows who would be notified of an event. The service evaluates it with the code for real events. Nothing is sent. */
export function RoutePreview({ channels }: { channels: readonly Channel[] }) {
  const [preview, setPreview] = useState<AlertPreview>()
  const { fault, isBusy, run } = useChange({ changes: [] })
  function submit(event: FormEvent<HTMLFormElement>) {
    event.preventDefault()
    const form = new FormData(event.currentTarget)
    const instance_id = String(form.get('instance')).trim()
    const body: AlertPreviewRequest = {
      severity: form.get('severity') as AlertPreviewRequest['severity'],
      event_type: String(form.get('type')).trim(),
      ...(instance_id === '' ? {} : { instance_id }),
      ...(form.has('reported') ? { by_service: false } : {}),
    }
    setPreview(undefined)
    void run(async () => {
      setPreview(await call('previewAlert', { body }))
      return undefined
    })
  }
  return (
    <Panel title="Route preview" note="Which channels receive an event. Nothing is sent.">
      <form className={css.preview} onSubmit={submit}>
        <SelectField label="Severity" name="severity" defaultValue="critical" options={severities} />
        <TextField label="Type" name="type" list="types" required maxLength={100} placeholder="policy_violation" />
        <datalist id="types">
          {usualTypes.map((type) => (
            <option key={type} value={type} />
          ))}
        </datalist>
        <TextField label="Agent" name="instance" maxLength={64} placeholder="any" />
        <Check label="Reported by a client" name="reported" />
        <Button isSubmit disabled={isBusy}>
          Preview
        </Button>
      </form>
      <Fault of={fault} isInPanel />
      <div role="status">{preview && <Receivers preview={preview} channels={channels} />}</div>
    </Panel>
  )
}

function Receivers({ preview, channels }: { preview: AlertPreview; channels: readonly Channel[] }) {
  const { data: routes = [] } = useQuery(routesQuery)
  const names = new Map(routes.map(({ id, name }) => [id, name]))
  const failing = new Set(channels.filter((channel) => stateOfChannel(channel) === 'failing').map(({ id }) => id))
  const receivers = preview.channels.filter(({ outcome }) => outcome === 'receives').length
  return (
    <>
      <p className={css.entry}>
        <b>
          {preview.channels.length === 0
            ? 'No channels are set up.'
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
                  <HostileText text={names.get(id) ?? id} max={80} />
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
