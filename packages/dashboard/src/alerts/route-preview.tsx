import { useQuery } from '@tanstack/react-query'
import { type AlertPreview, type AlertPreviewRequest, severities } from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import { type FormEvent, useState } from 'react'
import { HostileText } from '../parts/hostile-text.tsx'
import { type Channel, routesQuery } from '../service/alerts.ts'
import { call, sentenceOf } from '../service/client.ts'
import { previewWords, stateOfChannel } from './alert-texts.ts'

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
  const { data: routes = [] } = useQuery(routesQuery)
  const failing = new Set(channels.filter((channel) => stateOfChannel(channel) === 'failing').map(({ id }) => id))
  const [preview, setPreview] = useState<AlertPreview>()
  const [fault, setFault] = useState<string>()
  const names = new Map(routes.map(({ id, name }) => [id, name]))
  async function submit(event: FormEvent<HTMLFormElement>) {
    event.preventDefault()
    const form = new FormData(event.currentTarget)
    const instance_id = String(form.get('instance')).trim()
    const body: AlertPreviewRequest = {
      severity: form.get('severity') as AlertPreviewRequest['severity'],
      event_type: String(form.get('type')).trim(),
      ...(instance_id === '' ? {} : { instance_id }),
      ...(form.has('reported') ? { by_service: false } : {}),
    }
    try {
      setPreview(await call('previewAlert', { body }))
      setFault(undefined)
    } catch (problem) {
      setPreview(undefined)
      setFault(sentenceOf(problem))
    }
  }
  const receivers = preview?.channels.filter(({ outcome }) => outcome === 'receives').length ?? 0
  return (
    <section className="panel" aria-labelledby="preview">
      <header>
        <h2 id="preview">Which route would take this event?</h2>
        <span className="quiet">nothing is sent</span>
      </header>
      <form className="preview" onSubmit={(event) => void submit(event)}>
        <label className="field">
          Severity
          <select name="severity" defaultValue="critical">
            {severities.map((severity) => (
              <option key={severity}>{severity}</option>
            ))}
          </select>
        </label>
        <label className="field">
          Type
          <input name="type" list="types" required maxLength={100} placeholder="policy_violation" />
          <datalist id="types">
            {usualTypes.map((type) => (
              <option key={type} value={type} />
            ))}
          </datalist>
        </label>
        <label className="field">
          Agent
          <input name="instance" maxLength={64} placeholder="any" />
        </label>
        <label className="check">
          <input type="checkbox" name="reported" />
          reported by a caller
        </label>
        <button type="submit">Show</button>
      </form>
      <div role="status">
        {fault && <p className="empty fault">{fault}</p>}
        {preview && (
          <p className="preview-said">
            <b>
              {preview.channels.length === 0
                ? 'No one: there is no channel.'
                : receivers === 0
                  ? 'No one.'
                  : `${receivers} of ${counted(preview.channels.length, 'channel')}.`}
            </b>
          </p>
        )}
        {preview && preview.channels.length > 0 && (
          <ul className="lines">
            {preview.channels.map(({ channel_id, name, type, outcome, routes: matched }) => (
              <li key={channel_id}>
                <span aria-hidden="true" className={outcome === 'receives' ? 'ok' : 'quiet'}>
                  {outcome === 'receives' ? '●' : '○'}
                </span>{' '}
                <b>
                  <HostileText text={name} max={80} />
                </b>{' '}
                <span className="quiet">{type}</span> {previewWords[outcome]}
                {outcome === 'receives' && failing.has(channel_id) && (
                  <span className="critical">, once it can be reached again</span>
                )}
                {matched.map((id, index) => (
                  <span key={id}>
                    {index === 0 ? ', by ' : ', '}
                    <HostileText text={names.get(id) ?? id} max={80} />
                  </span>
                ))}
              </li>
            ))}
          </ul>
        )}
      </div>
    </section>
  )
}
