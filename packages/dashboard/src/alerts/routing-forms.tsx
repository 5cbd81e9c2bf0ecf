import { type AlertMatch, severities } from '@wardline/contract'
import { useState } from 'react'
import type { Channel, Route } from '../data/alerts.ts'
import { useFormChange } from '../data/change.ts'
import { call } from '../data/client.ts'
import { queryKeys } from '../data/query-keys.ts'
import { FormDialog } from '../ui/dialog.tsx'
import { Check, FieldGroup, fieldText, SelectField, TextField } from '../ui/field.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { hourMs } from '../ui/span.ts'
import { matchOf } from './alert-texts.ts'

/** Fields for a match; `matchOf` reads them. */
function MatchFields({ match = {} }: { match?: AlertMatch | undefined }) {
  return (
    <FieldGroup label="Match: all conditions must apply; empty matches all">
      <div className="chips">
        {severities.map((severity) => (
          <Check
            key={severity}
            label={severity}
            name="severity"
            value={severity}
            defaultChecked={match.severities?.includes(severity)}
          />
        ))}
      </div>
      <TextField
        label="Types"
        name="types"
        defaultValue={match.types?.join(', ')}
        placeholder="honeypot_*, policy_violation"
      />
      <TextField
        label="Agents"
        name="instances"
        defaultValue={match.instances?.join(', ')}
        placeholder="billing-1, support-*"
      />
    </FieldGroup>
  )
}

interface RouteFormProps {
  /** Absent for a new route. */
  route?: Route
  channels: readonly Channel[]
  onClose(): void
}

export function RouteForm({ route, channels, onClose }: RouteFormProps) {
  async function save(form: FormData) {
    const body = {
      name: fieldText(form, 'name'),
      match: matchOf(form),
      channels: form.getAll('channel').map(String),
    }
    if (route) await call('replaceRoute', { params: { id: route.id }, body })
    else await call('createRoute', { body })
    return 'Route saved.'
  }
  const dialog = useFormChange({ changes: [queryKeys.routing], save, onClose })
  return (
    <FormDialog {...dialog} title={route ? 'Edit route' : 'Add route'} submit={route ? 'Save' : 'Add route'}>
      <TextField label="Name" name="name" isFirst required maxLength={80} defaultValue={route?.name} />
      <MatchFields match={route?.match} />
      <FieldGroup label="Channels: each receives only what its routes match">
        {channels.map(({ id, name, type }) => (
          <Check
            key={id}
            label={
              <>
                <HostileText text={name} max={80} /> <span className="quiet">{type}</span>
              </>
            }
            name="channel"
            value={id}
            defaultChecked={route?.channels.includes(id)}
          />
        ))}
      </FieldGroup>
    </FormDialog>
  )
}

const spans = [
  [1, '1 hour'],
  [4, '4 hours'],
  [24, '1 day'],
  [168, '7 days'],
  ['until', 'until…'],
] as const

export function SilenceForm({ onClose }: { onClose(): void }) {
  const [span, setSpan] = useState('1')
  async function save(form: FormData) {
    const end = span === 'until' ? Date.parse(fieldText(form, 'until')) : Date.now() + Number(span) * hourMs
    const match = matchOf(form)
    if (Number.isNaN(end)) throw new Error('Enter the date and time at which the silence ends.')
    if (Object.keys(match).length === 0 && !form.has('everything'))
      throw new Error('This silences all alerts. Enter severities, types or agents, or tick “All alerts”.')
    await call('createSilence', {
      body: { match, reason: fieldText(form, 'reason'), ends_at: new Date(end).toISOString() },
    })
    return 'Silence added.'
  }
  const dialog = useFormChange({ changes: [queryKeys.routing], save, onClose })
  return (
    <FormDialog {...dialog} title="Add silence" submit="Add silence">
      <MatchFields />
      <Check label="All alerts, if the match is empty" name="everything" />
      <TextField label="Reason" name="reason" isFirst required maxLength={500} placeholder="Visible to all users" />
      <SelectField label="Duration" value={span} options={spans} onChange={({ target }) => setSpan(target.value)} />
      {span === 'until' && <TextField label="Until (local time)" name="until" type="datetime-local" required />}
    </FormDialog>
  )
}
