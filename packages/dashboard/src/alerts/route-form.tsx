import type { FormEvent } from 'react'
import { Dialog } from '../parts/dialog.tsx'
import { HostileText } from '../parts/hostile-text.tsx'
import type { Channel, Route } from '../service/alerts.ts'
import { call } from '../service/client.ts'
import { OperatorButton, OutcomeText } from './action-parts.tsx'
import { MatchFields, matchOfForm } from './match-fields.tsx'
import { useAction } from './use-action.ts'

interface RouteFormProps {
  /** Absent for a new route. */
  route?: Route
  channels: readonly Channel[]
  onClose(): void
}

export function RouteForm({ route, channels, onClose }: RouteFormProps) {
  const { isBusy, outcome, run } = useAction('routing')
  const title = route ? 'Edit the route' : 'Add a route'
  function submit(event: FormEvent<HTMLFormElement>) {
    event.preventDefault()
    const form = new FormData(event.currentTarget)
    const body = {
      name: String(form.get('name')),
      match: matchOfForm(form),
      channels: form.getAll('channel').map(String),
    }
    void run(async () => {
      if (route) await call('replaceRoute', { params: { id: route.id }, body })
      else await call('createRoute', { body })
      return 'Saved.'
    }).then((isDone) => isDone && onClose())
  }
  return (
    <Dialog label={title} onClose={onClose}>
      <form onSubmit={submit}>
        <h2>{title}</h2>
        <div className="fields">
          <label className="field">
            Name
            <input name="name" data-first required maxLength={80} defaultValue={route?.name ?? ''} />
          </label>
          <MatchFields match={route?.match} />
          <fieldset className="fields">
            <legend>Channels: from now on they receive only what their routes match</legend>
            {channels.map(({ id, name, type }) => (
              <label key={id} className="check">
                <input
                  type="checkbox"
                  name="channel"
                  value={id}
                  defaultChecked={route?.channels.includes(id) ?? false}
                />
                <HostileText text={name} max={80} /> <span className="quiet">{type}</span>
              </label>
            ))}
          </fieldset>
        </div>
        <OutcomeText outcome={outcome} />
        <div className="foot">
          <button type="button" onClick={onClose}>
            Cancel <kbd>Esc</kbd>
          </button>
          <OperatorButton type="submit" className="go" disabled={isBusy}>
            {route ? 'Save' : 'Add the route'}
          </OperatorButton>
        </div>
      </form>
    </Dialog>
  )
}
