import {
  type ChannelChange,
  type ChannelType,
  channelSettings,
  channelTypes,
  type NewChannel,
  severities,
} from '@wardline/contract'
import { type FormEvent, useId, useState } from 'react'
import { CopyButton } from '../parts/copy-button.tsx'
import { Dialog } from '../parts/dialog.tsx'
import type { Channel } from '../service/alerts.ts'
import { call } from '../service/client.ts'
import { OperatorButton, OutcomeText } from './action-parts.tsx'
import { type SettingField, settingFields, settingsOf } from './setting-fields.ts'
import { useAction } from './use-action.ts'

const names: Record<ChannelType, string> = {
  webhook: 'Webhook (a program of yours)',
  slack: 'Slack',
  discord: 'Discord',
  teams: 'Microsoft Teams',
  telegram: 'Telegram',
  pagerduty: 'PagerDuty',
  email: 'E-mail',
  ntfy: 'ntfy',
  apprise: 'Apprise',
  syslog: 'Syslog',
  splunk: 'Splunk',
}
/** Machines get every alert separately; silences and quiet hours are for people. */
const machines: readonly ChannelType[] = ['webhook', 'syslog', 'splunk']

interface ChannelFormProps {
  /** Absent for a new channel. */
  channel?: Channel
  onClose(): void
  onDone(id: string): void
}

function optionsOf(form: FormData) {
  const text = (name: string) => String(form.get(name) ?? '').trim()
  const hasQuietHours = text('quiet from') !== '' && text('quiet to') !== ''
  return {
    name: text('name'),
    min_severity: text('min_severity') as Channel['min_severity'],
    max_per_minute: Number(text('max_per_minute')),
    send_resolved: form.has('send_resolved'),
    daily_check: form.has('daily_check'),
    quiet_hours: hasQuietHours
      ? {
          from: text('quiet from'),
          to: text('quiet to'),
          time_zone: text('quiet zone'),
          least: text('quiet least') as 'critical' | 'breach',
        }
      : null,
  }
}

/**
 * Form for a channel's settings and options. The contract defines the fields. Values stay in the form's inputs, so no
 * page state and no cache contains a secret.
 */
export function ChannelForm({ channel, onClose, onDone }: ChannelFormProps) {
  const [type, setType] = useState<ChannelType>(channel?.type ?? 'webhook')
  const [created, setCreated] = useState<{ id: string; secret: string }>()
  const { isBusy, outcome, run } = useAction('channels')
  const isFixed = channel?.managed_by === 'environment'
  const fields = isFixed ? [] : settingFields(type)
  const { description: about } = channelSettings[type] as { description?: string }
  const isForPeople = !machines.includes(type)
  const title = channel ? 'Edit the channel' : 'Add a channel'

  function submit(event: FormEvent<HTMLFormElement>) {
    event.preventDefault()
    const form = new FormData(event.currentTarget)
    const settings = settingsOf(fields, form)
    const options = optionsOf(form)
    void run(async () => {
      if (channel) {
        const body: ChannelChange = {
          ...options,
          enabled: form.has('enabled'),
          // Empty settings are unchanged: they are secret and cannot be shown for editing.
          ...(Object.keys(settings).length > 0 ? { settings } : {}),
        }
        await call('changeChannel', { params: { id: channel.id }, body })
        onDone(channel.id)
        return 'Saved.'
      }
      const { id, secret } = await call('createChannel', { body: { ...options, type, settings } as NewChannel })
      if (secret === undefined) onDone(id)
      else setCreated({ id, secret })
      return 'The channel is there.'
    })
  }
  if (created) {
    return (
      <Dialog label="Signing secret" onClose={() => onDone(created.id)} closesOutside={false}>
        <h2>The channel is there</h2>
        <p>
          Messages to it are signed with this secret. The receiver needs it to know that they come from here. It is
          shown only now.
        </p>
        <pre className="mono received">{created.secret}</pre>
        <div className="foot">
          <CopyButton name="Copy" text={created.secret} />
          <button type="button" className="go" onClick={() => onDone(created.id)}>
            I have stored it
          </button>
        </div>
      </Dialog>
    )
  }
  return (
    <Dialog label={title} onClose={onClose}>
      <form onSubmit={submit} autoComplete="off">
        <h2>{title}</h2>
        <div className="fields">
          {!channel && (
            <label className="field">
              Kind of receiver
              <select value={type} onChange={(event) => setType(event.target.value as ChannelType)}>
                {channelTypes.map((one) => (
                  <option key={one} value={one}>
                    {names[one]}
                  </option>
                ))}
              </select>
            </label>
          )}
          <label className="field">
            Name
            <input name="name" data-first required maxLength={80} defaultValue={channel?.name ?? ''} />
          </label>
          {isFixed && <p className="quiet">Its settings come from the environment of the service.</p>}
          {channel && !isFixed && (
            <p className="quiet">
              Its settings are never shown. Leave all of these empty to keep them, or fill in all of them.
            </p>
          )}
          {fields.length > 0 && about !== undefined && <p className="quiet">{about}.</p>}
          {fields.map((field) => (
            <SettingInput key={`${type} ${field.name}`} field={field} isNew={!channel} />
          ))}
        </div>
        <details className="more" open={channel !== undefined}>
          <summary>What it takes, and when</summary>
          <div className="fields">
            <label className="field">
              Minimum severity
              <select
                key={type}
                name="min_severity"
                defaultValue={channel?.min_severity ?? (isForPeople ? 'warning' : 'info')}
              >
                {severities.map((severity) => (
                  <option key={severity}>{severity}</option>
                ))}
              </select>
            </label>
            <label className="field">
              Maximum messages a minute
              <input
                name="max_per_minute"
                type="number"
                min={1}
                max={60}
                required
                defaultValue={channel?.max_per_minute ?? 20}
              />
            </label>
            <label className="check">
              <input type="checkbox" name="send_resolved" defaultChecked={channel?.send_resolved ?? true} />
              Notify when an alert that was sent is resolved
            </label>
            <label className="check">
              <input type="checkbox" name="daily_check" defaultChecked={channel?.daily_check ?? true} />
              Send a daily check, and report a failure to the other channels
            </label>
            {channel && (
              <label className="check">
                <input type="checkbox" name="enabled" defaultChecked={channel.enabled} />
                Enabled: without it, it receives no alerts, also none later
              </label>
            )}
            {isForPeople && (
              <fieldset className="fields">
                <legend>Quiet hours: lesser alerts are sent together at their end</legend>
                <label className="field">
                  From
                  <input name="quiet from" type="time" defaultValue={channel?.quiet_hours?.from ?? ''} />
                </label>
                <label className="field">
                  To
                  <input name="quiet to" type="time" defaultValue={channel?.quiet_hours?.to ?? ''} />
                </label>
                <label className="field">
                  Time zone
                  <input
                    name="quiet zone"
                    maxLength={64}
                    defaultValue={
                      channel?.quiet_hours?.time_zone ?? new Intl.DateTimeFormat().resolvedOptions().timeZone
                    }
                  />
                </label>
                <label className="field">
                  Still sent at once
                  <select name="quiet least" defaultValue={channel?.quiet_hours?.least ?? 'critical'}>
                    <option value="critical">critical and breach</option>
                    <option value="breach">breach</option>
                  </select>
                </label>
              </fieldset>
            )}
          </div>
        </details>
        <OutcomeText outcome={outcome} />
        <div className="foot">
          <button type="button" onClick={onClose}>
            Cancel <kbd>Esc</kbd>
          </button>
          <OperatorButton type="submit" className="go" disabled={isBusy}>
            {channel ? 'Save' : 'Add the channel'}
          </OperatorButton>
        </div>
      </form>
    </Dialog>
  )
}

function SettingInput({ field, isNew }: { field: SettingField; isNew: boolean }) {
  const { name, label, hint, isRequired, isSecret, isList, choices, maxLength } = field
  const id = useId()
  return (
    <div className="field">
      <label htmlFor={id}>
        {label}
        {!isRequired && <span className="quiet"> (optional)</span>}
      </label>
      {choices.length > 0 ? (
        <select id={id} name={`setting ${name}`} defaultValue="">
          <option value="">default</option>
          {choices.map((choice) => (
            <option key={choice}>{choice}</option>
          ))}
        </select>
      ) : (
        <input
          id={id}
          aria-describedby={`${id}-hint`}
          name={`setting ${name}`}
          type={isSecret ? 'password' : 'text'}
          autoComplete={isSecret ? 'new-password' : 'off'}
          spellCheck={false}
          required={isRequired && isNew}
          maxLength={maxLength}
        />
      )}
      <span id={`${id}-hint`} className="quiet">
        {hint}
        {isList && '; several separated by commas'}
      </span>
    </div>
  )
}
